"""The biased plug-in estimator of the SIVI-SM paper's last appendix, kept for comparison."""

from dataclasses import KW_ONLY
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from .._fields import count_field
from .._types import Metrics, Scalar
from ..critics import Critic, CriticSettings, MLPCritic
from ..critics.base import PointFunction, critic_field
from ..families import SemiImplicit
from ..optimizers import Adam, OptimizerLike, optimizer_field
from ..schedules import Cosine, RunPlan, Schedule, as_schedule
from ..targets import Target
from ..targets.evaluate import check_score_derivative
from ._minimax import (
    CriticFunction,
    CriticOfScore,
    bound_settings,
    check_split,
    critic_with_score,
    is_zero,
    minimax,
    score_pairs,
    splits,
)
from .base import Noise
from .critic_objective import CriticObjective


class PlugInFisher(CriticObjective):
    """Descend E‖g(x_φ)‖² with the critic held fixed: the Fisher divergence with g plugged in for S − ∇log q.

    The value is right at the optimal critic but the gradient is not, since it leaves out how ∇log q_φ moves
    with φ. `ScoreMatching` is the method to use; this one shows what its minimax form is for.

    Takes the settings of `CriticObjective`, and these two.

    Args:
        psi: ψ_t, a number or a `sivi.schedules.Schedule`; the default, 0, is the paper's critic.
        split: As in `ScoreMatching`.
    """

    _: KW_ONLY
    num_particles: int = count_field("num_particles", 256)
    critic_steps: int = count_field("critic_steps", 1)
    critic_particles: int = count_field("critic_particles", None)
    critic_warmup: int = count_field("critic_warmup", 0, minimum=0)
    optimizer: OptimizerLike = optimizer_field("optimizer", Adam(Cosine(1e-3), b1=0.5, b2=0.99))
    critic_optimizer: OptimizerLike = optimizer_field("critic_optimizer", Adam(Cosine(4e-3), b1=0.5, b2=0.99))
    critic: CriticSettings = critic_field(MLPCritic())
    psi: Schedule = eqx.field(converter=partial(as_schedule, name="psi"), default=0.0)
    split: bool | None = eqx.field(static=True, converter=check_split, default=None)

    def check_target(self, target: Target) -> None:
        if not is_zero(self.psi):
            check_score_derivative(self, target)

    def bound_settings(self, plan: RunPlan) -> dict[str, Any]:
        return bound_settings(self.psi, self.split, plan)

    def full_critic(self, network: PointFunction, step: Int[Array, ""]) -> CriticFunction:
        return critic_with_score(network, self.psi, step)

    def family_loss(
        self,
        family: SemiImplicit,
        critic: CriticOfScore,
        target: Target,
        batch: Int[Array, " batch"] | None,
        noise: Noise,
    ) -> tuple[Scalar, Metrics]:
        ignores_score, split = is_zero(self.psi), splits(self.psi, self.split)

        def one(mixing_noise: Array, eps: Array) -> Array:
            x = family.joint(mixing_noise, eps).x
            # Where the critic ignores the score, the score need not have a derivative.
            at = jax.lax.stop_gradient(x) if ignores_score else x
            pairs = score_pairs(target, at, batch, split)
            g = critic(x)
            return sum((w * jnp.sum(g(first) * g(second)) for w, first, second in pairs), jnp.zeros(()))

        norm = jnp.mean(jax.vmap(one)(*noise))
        return norm, {"critic_norm": norm}

    def critic_loss(
        self,
        critic: Critic,
        step: Int[Array, ""],
        family: SemiImplicit,
        target: Target,
        batch: Int[Array, " batch"] | None,
        noise: Noise,
    ) -> Scalar:
        g = self.full_critic(critic.at(family), step)
        return -minimax(family, g, target, batch, noise, split=splits(self.psi, self.split))[0]
