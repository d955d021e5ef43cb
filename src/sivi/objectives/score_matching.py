"""SIVI-SM: the Fisher divergence as a minimax with a critic (Yu and Zhang, ICLR 2023, Algorithm 1).

With S the target's score, the family descends and the critic g ascends

    L(φ, g) = E_{z, x|z} [ 2 g(x)ᵀ (S(x) − ∇_x log q_φ(x|z)) − ‖g(x)‖² ].

By Theorem 1, max_g L = E_q ‖S − ∇log q‖², attained at g = S − ∇log q, and by Danskin the family's gradient at
the maximising critic, held fixed, is the gradient of that divergence. For any other critic, off by a field r,
L is the divergence minus E‖r‖².
"""

from jaxtyping import Array, Int

from .._types import Metrics, Scalar
from ..families import Family, SemiImplicit
from ..targets import Target
from .base import Noise, check_score_derivative, check_semi_implicit
from .minimax import MinimaxObjective, minimax
from .score_pairs import Field


class ScoreMatching(MinimaxObjective):
    """SIVI-SM: alternate one descent step of the family with `critic_steps` ascent steps of the critic.

    The critic is g(x) = f_ψ(x) + ψ_t S(x): ψ_t ≡ 1, the default, is the residual form, in which the network need
    only learn −∇log q; ψ_t ≡ 0 is the paper's; a schedule that decays from 1 is what its authors ran on real data.

    The Fisher divergence has valleys far from the target where its score is nearly constant, and from a start that
    is not close, descent can run off along one. `Annealed` with a base where the family starts keeps it from that;
    `sivi.defaults.objective` is this pair.

    Args:
        num_particles: m, draws of x per family update.
        critic_steps: K, critic updates per family update.
        critic_particles: Draws per critic update; `num_particles` when left out.
        critic_warmup: Critic updates, on all data, before the family's first; none when left out.
        optimizer: Of the family: `sivi.optimizers` settings or any Optax transform.
        critic_optimizer: Of the critic, likewise; its schedules count the critic's own updates.
        critic: Settings of the network f_ψ.
        psi: ψ_t, a number or a `sivi.schedules.Schedule`.
        split: Whether products of two scores of a minibatch are taken between its halves, so that they have no bias;
            when left out, wherever ψ is not zero and minibatches are drawn afresh. With `batching="rotate"` the same
            halves would come back, and a family could find where they oppose each other. False is what the paper's
            authors ran.

    Example:
        >>> from sivi.objectives import MLPCritic
        >>> from sivi.optimizers import Adam
        >>> objective = ScoreMatching(num_particles=100, critic=MLPCritic((64, 64)), optimizer=Adam(1e-3))

    Reference:
        Yu and Zhang, Semi-implicit variational inference via score matching (ICLR 2023).
    """

    def check(self, family: Family, target: Target) -> None:
        check_semi_implicit(self, family)
        self.critic.check(family)
        check_score_derivative(self, target)

    def family_loss(
        self,
        family: SemiImplicit,
        field: Field,
        target: Target,
        batch: Int[Array, " batch"] | None,
        noise: Noise,
    ) -> tuple[Scalar, Metrics]:
        return minimax(family, field, target, batch, noise, split=self.splits)
