"""The biased plug-in estimator of the SIVI-SM paper's last appendix, kept for comparison."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from .._types import Metrics, Scalar
from ..families import Family, SemiImplicit
from ..optimizers import OptimizerLike
from ..schedules import Schedule
from ..targets import Target
from .base import Noise, check_score_derivative, check_semi_implicit
from .critic import CriticSpec
from .minimax import MinimaxObjective
from .score_pairs import Field, score_pairs


class PlugInFisher(MinimaxObjective):
    """Descend E‖g(x_φ)‖² with the critic held fixed: the Fisher divergence with g plugged in for S − ∇log q.

    The value is right at the optimal critic but the gradient is not, since it leaves out how ∇log q_φ moves
    with φ. `ScoreMatching` is the method to use; this one shows what its minimax form is for.

    Args:
        num_particles: m, draws of x per family update.
        critic_steps: K, critic updates per family update.
        critic_particles: Draws per critic update; `num_particles` when left out.
        critic_warmup: Critic updates, on all data, before the family's first; none when left out.
        optimizer: Of the family: `sivi.optimizers` settings or any Optax transform.
        critic_optimizer: Of the critic, likewise; its schedules count the critic's own updates.
        critic: Settings of the network f_ψ.
        psi: ψ_t, a number or a `sivi.schedules.Schedule`; 0, the paper's critic, when left out.
        split: As in `ScoreMatching`.
    """

    def __init__(
        self,
        *,
        num_particles: int = 256,
        critic_steps: int = 1,
        critic_particles: int | None = None,
        critic_warmup: int = 0,
        optimizer: OptimizerLike | None = None,
        critic_optimizer: OptimizerLike | None = None,
        critic: CriticSpec | None = None,
        psi: float | Schedule = 0.0,
        split: bool | None = None,
    ):
        super().__init__(
            num_particles=num_particles,
            critic_steps=critic_steps,
            critic_particles=critic_particles,
            critic_warmup=critic_warmup,
            optimizer=optimizer,
            critic_optimizer=critic_optimizer,
            critic=critic,
            psi=psi,
            split=split,
        )

    def check(self, family: Family, target: Target) -> None:
        check_semi_implicit(self, family)
        self.critic.check(family)
        if not self.ignores_score:
            check_score_derivative(self, target)

    def family_loss(
        self,
        family: SemiImplicit,
        field: Field,
        target: Target,
        batch: Int[Array, " batch"] | None,
        noise: Noise,
    ) -> tuple[Scalar, Metrics]:
        def one(mixing_noise: Array, eps: Array) -> Array:
            x = family.joint(mixing_noise, eps).x
            # Where the critic ignores the score, the score need not have a derivative.
            at = jax.lax.stop_gradient(x) if self.ignores_score else x
            pairs = score_pairs(target, at, batch, split=self.splits)
            g = field(x)
            return sum((w * jnp.sum(g(first) * g(second)) for w, first, second in pairs), jnp.zeros(()))

        norm = jnp.mean(jax.vmap(one)(*noise))
        return norm, {"critic_norm": norm}
