"""The minimax form of the Fisher divergence, and the objectives whose critic ascends it."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from .._arguments import describe
from .._types import Metrics, Scalar
from ..families import SemiImplicit
from ..optimizers import OptimizerLike
from ..schedules import Constant, Schedule, Steps, as_schedule
from ..targets import Target
from .alternation import CriticObjective
from .base import Noise, replace_fields
from .critic import Critic, CriticSpec, PointCritic, critic_at
from .score_pairs import Field, minimax_value, score_pairs


def minimax(
    family: SemiImplicit,
    field: Field,
    target: Target,
    batch: Int[Array, " batch"] | None,
    noise: Noise,
    *,
    split: bool = False,
) -> tuple[Scalar, Metrics]:
    """The Monte Carlo estimate of L(φ, g) and of E‖g‖².

    A critic with ψ ≠ 0 makes L quadratic in S. The score of a minibatch is unbiased, its square is not: the family
    would be drawn to where minibatches agree. With `split`, products of two scores are taken between the halves of
    the batch, and L is unbiased for that of all data.

    Args:
        family: q_φ.
        field: The critic g as a function of x, then of S(x).
        target: Provides S.
        batch: Data rows for S.
        noise: The base noise of n draws, from `family.sample_noise`.
        split: Whether the field depends on S(x), so that a minibatch has to be split.

    Returns:
        L, and `{"critic_norm": E‖g‖²}`.
    """

    def one(mixing_noise: Array, eps: Array) -> tuple[Array, Array]:
        joint = family.joint(mixing_noise, eps)
        return minimax_value(score_pairs(target, joint.x, batch, split), field, joint.x, joint.score)

    values, norms = jax.vmap(one)(*noise)
    return jnp.mean(values), {"critic_norm": jnp.mean(norms)}


class MinimaxObjective(CriticObjective):
    """A critic g(x) = f_ψ(x) + ψ_t S(x) that ascends L(φ, g); a subclass says what the family descends.

    The critic has to keep up with the family. Momentum holds it back, so both optimisers have b1 = 0.5 unless told
    otherwise, and the critic the larger rate; a critic with more momentum than the family can make a fit diverge.

    Args:
        num_particles: m, draws of x per family update.
        critic_steps: K, critic updates per family update.
        critic_particles: Draws per critic update; `num_particles` when left out.
        critic_warmup: Critic updates, on all data, before the family's first.
        optimizer: Of the family: `sivi.optimizers` settings or any Optax transform; Adam when left out.
        critic_optimizer: Of the critic, likewise; its schedules count the critic's own updates.
        critic: Settings of the network f_ψ.
        psi: ψ_t, a number or a `sivi.schedules.Schedule`.
        split: Whether products of two scores of a minibatch are taken between its halves, so that they have no bias;
            when left out, wherever ψ is not zero and minibatches are drawn afresh. With `batching="rotate"` the same
            halves would come back, and a family could find where they oppose each other. False is what the paper's
            authors ran.
    """

    psi: Schedule
    split: bool | None = eqx.field(static=True)

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
        psi: float | Schedule = 1.0,
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
        )
        self.psi = as_schedule(psi, "psi")
        if split is not None and not isinstance(split, bool):
            raise TypeError(f"split must be True, False or None; got {describe(split)}.")
        self.split = split

    def bind(self, num_steps: Steps) -> CriticObjective:
        return replace_fields(super().bind(num_steps), psi=self.psi.bind(num_steps))

    def with_batching(self, batching: str) -> CriticObjective:
        return replace_fields(self, split=False) if self.split is None and batching == "rotate" else self

    @property
    def ignores_score(self) -> bool:
        """Whether ψ_t ≡ 0, so that the critic is the network alone."""
        return isinstance(self.psi, Constant) and self.psi.value == 0.0

    @property
    def splits(self) -> bool:
        """Whether a minibatch is split; where the score is not squared there is no need."""
        return self.split is not False and not self.ignores_score

    def field_of(self, critic: PointCritic, step: Int[Array, ""]) -> Field:
        psi = None if self.ignores_score else self.psi(step)

        def field(x: Array) -> Callable[[Array], Array]:
            network = critic(x)
            return lambda score: network if psi is None else network + psi * score

        return field

    def critic_loss(
        self,
        critic: Critic,
        step: Int[Array, ""],
        family: SemiImplicit,
        target: Target,
        batch: Int[Array, " batch"] | None,
        noise: Noise,
    ) -> Scalar:
        field = self.field_of(critic_at(critic, family), step)
        return -minimax(family, field, target, batch, noise, split=self.splits)[0]
