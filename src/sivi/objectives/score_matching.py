"""SIVI-SM: the Fisher divergence as a minimax with a critic (Yu and Zhang, ICLR 2023, Algorithm 1).

With S the target's score, the family descends and the critic g ascends

    L(φ, g) = E_{z, x|z} [ 2 g(x)ᵀ (S(x) − ∇_x log q_φ(x|z)) − ‖g(x)‖² ].

By Theorem 1, max_g L = E_q ‖S − ∇log q‖², attained at g = S − ∇log q, and by Danskin the family's gradient at
the maximising critic, held fixed, is the gradient of that divergence. For any other critic, off by a field r,
L is the divergence minus E‖r‖².
"""

from dataclasses import KW_ONLY
from functools import partial
from typing import Any

import equinox as eqx
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
    minimax,
    splits,
)
from .base import Noise
from .critic_objective import CriticObjective


class ScoreMatching(CriticObjective):
    """SIVI-SM: alternate one descent step of the family with `critic_steps` ascent steps of the critic.

    The critic is g(x) = f_ψ(x) + ψ_t S(x): ψ_t ≡ 1, the default, is the residual form, in which the network need
    only learn −∇log q; ψ_t ≡ 0 is the paper's; a schedule that decays from 1 is what its authors ran on real data.

    Far from the target, where its score is nearly constant, the Fisher divergence has valleys, and descent can drift
    off along them. `Annealed`, with a base where the family starts, prevents this.

    Momentum holds the critic back, so both optimisers have b1 = 0.5 by default. A critic with more momentum than the
    family can make a fit diverge.

    Takes the settings of `CriticObjective`, and these two.

    Args:
        psi: ψ_t, a number or a `sivi.schedules.Schedule`.
        split: Whether products of two scores of a minibatch are taken between its halves, so that they have no bias.
            When left out, wherever ψ is not zero and minibatches are drawn afresh, so not with `batching="rotate"`.
            False is what the paper's authors ran.

    Example:
        >>> from sivi.critics import MLPCritic
        >>> from sivi.optimizers import Adam
        >>> objective = ScoreMatching(num_particles=100, critic=MLPCritic((64, 64)), optimizer=Adam(1e-3))

    Reference:
        Yu and Zhang, Semi-implicit variational inference via score matching (ICLR 2023).
    """

    _: KW_ONLY
    num_particles: int = count_field("num_particles", 256)
    critic_steps: int = count_field("critic_steps", 1)
    critic_particles: int = count_field("critic_particles", None)
    critic_warmup: int = count_field("critic_warmup", 0, minimum=0)
    optimizer: OptimizerLike = optimizer_field("optimizer", Adam(Cosine(1e-3), b1=0.5, b2=0.99))
    critic_optimizer: OptimizerLike = optimizer_field("critic_optimizer", Adam(Cosine(4e-3), b1=0.5, b2=0.99))
    critic: CriticSettings = critic_field(MLPCritic())
    psi: Schedule = eqx.field(converter=partial(as_schedule, name="psi"), default=1.0)
    split: bool | None = eqx.field(static=True, converter=check_split, default=None)

    @property
    def splits(self) -> bool:
        """Whether a minibatch is split."""
        return splits(self.psi, self.split)

    def check_target(self, target: Target) -> None:
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
        return minimax(family, critic, target, batch, noise, split=self.splits)

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
        return -minimax(family, g, target, batch, noise, split=self.splits)[0]
