"""What `fit` uses for whatever is left out: the one place where such a number is chosen.

Everything follows from the number of unknowns and the number of data. All numbers are in the coordinates u of the
fit, in which the warm-up Gaussian is N(0, I): family and critic start there.
"""

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from ._arguments import check_count
from ._renamed import RECIPE, old_names
from .coordinates import AffineMap
from .critics import CriticSettings, MLPCritic, StructuredCritic
from .families import DiagonalGaussian, Family, NormalMixing, SemiImplicit
from .objectives import Annealed, Bridged, Objective, PathKL
from .optimizers import Adam
from .schedules import Cosine, Ramp
from .stopping import Plateau
from .targets import IsotropicGaussian, Target
from .warmup.gaussian import warmup_with_status

#: Up to this many unknowns a bridge carries mass between separated modes, and the run is longer.
BRIDGED_UP_TO = 10
#: Up to this many unknowns the affine map is a full matrix, z as long as x, and the run shorter than above it.
FULL_MATRIX_UP_TO = 128
#: Low-rank directions of the affine map: few below `MORE_DIRECTIONS_FROM` unknowns; then as many as have
#: `NUMBERS_IN_DIRECTIONS` numbers in all, within bounds.
FEW_DIRECTIONS = 64
MORE_DIRECTIONS_FROM, MORE_DIRECTIONS = 1000, (128, 256)
NUMBERS_IN_DIRECTIONS = 2**21
#: Up to this many data an update sees all of them.
ALL_DATA_UP_TO = 10_000


@dataclass(frozen=True)
class Recipe:
    """All that `fit` chooses by itself; `str` of it lists the numbers.

    Attributes:
        dim: Number of unknowns.
        num_data: Number of data, or None.
        num_steps: Updates, at most.
        batch_size: Data per update; None for all.
        warmup_starts: Gaussian fits that the affine map is pooled from.
        warmup_steps: Steps of each.
        warmup_rank: Of the map beyond its diagonal; None for a full matrix.
        latent_dim: Length of z.
        hidden: Hidden layers of the family's network.
        critic_hidden: Hidden layers of the critic.
        structured_critic: Whether the critic is the one whose size does not grow with `dim`.
        num_particles: Draws per update.
        critic_steps: Critic updates per family update.
        learning_rate: Of the family at the start; it decays along half a cosine.
        critic_learning_rate: Of the critic, likewise.
        hold_share: Share of the run in which both rates stay at their start.
        clip: Largest size of a draw's gradient; see `sivi.objectives.PathKL`.
        annealed_share: Share of the run on the geometric path from N(0, I).
        first_beta: Where on that path the run starts.
        bridge_share: Share of a wide Gaussian that is mixed into the target while modes find their weights; 0 for
            none. See `sivi.objectives.Bridged`.
        bridge_until: Share of the run after which it is gone.
        plateau_tolerance: Improvement of the loss, per unknown, below which the loss is on a plateau.
    """

    dim: int
    num_data: int | None
    num_steps: int
    batch_size: int | None
    warmup_starts: int
    warmup_steps: int
    warmup_rank: int | None
    latent_dim: int
    hidden: tuple[int, ...]
    critic_hidden: tuple[int, ...]
    structured_critic: bool
    num_particles: int
    critic_steps: int
    learning_rate: float
    critic_learning_rate: float
    hold_share: float
    clip: float
    annealed_share: float
    first_beta: float
    bridge_share: float
    bridge_until: float
    plateau_tolerance: float

    def warm_up(self, key: PRNGKeyArray, target: Target, batch_size: int | None) -> AffineMap:
        """The coordinates of the fit."""
        return self.warm_up_with_status(key, target, batch_size)[0]

    def warm_up_with_status(
        self, key: PRNGKeyArray, target: Target, batch_size: int | None
    ) -> tuple[AffineMap, Int[Array, ""]]:
        """The coordinates of the fit, and the code of how they were found, see `sivi.warmup.status`."""
        return warmup_with_status(
            key,
            target,
            num_starts=self.warmup_starts,
            num_steps=self.warmup_steps,
            batch_size=batch_size,
            rank=self.warmup_rank,
        )

    def family(self, key: PRNGKeyArray) -> Family:
        """A semi-implicit family with a linear skip and a global σ that starts at N(0, I).

        Three quarters of the variance come from z through the skip and one quarter from σ; the network adds almost
        none. With z shorter than x, the coordinates beyond its length have σ alone.
        """
        conditional = DiagonalGaussian(
            self.latent_dim,
            self.dim,
            hidden=self.hidden,
            sigma_init=0.5,
            skip_scale=math.sqrt(0.75),
            final_scale=0.01,
            key=key,
        )
        networks = conditional.networks
        alone = networks.log_variance.inverse(0.0)
        raw_scale = jnp.where(jnp.arange(self.dim) < self.latent_dim, networks.raw_scale, alone)
        conditional = eqx.tree_at(lambda c: c.networks.raw_scale, conditional, raw_scale)
        return SemiImplicit(NormalMixing(self.latent_dim), conditional)

    def objective(self, target: Target | None = None, family: Family | None = None) -> Objective:
        """Reverse KL by its path gradient, along the geometric path from the warm-up Gaussian to the target.

        The bridge needs the log density: for a `target` that knows only its score there is none. A `family` that is
        given need not start at N(0, I), so its critic is trained first; nor need it suit the structured critic.
        """
        objective: Objective = PathKL(
            num_particles=self.num_particles,
            critic_steps=self.critic_steps,
            critic_warmup=0 if family is None else 500,
            optimizer=Adam(Cosine(self.learning_rate, hold=self.hold_share), b1=0.9, b2=0.99),
            critic_optimizer=Adam(Cosine(self.critic_learning_rate, hold=self.hold_share), b1=0.9, b2=0.99),
            critic=self.critic(family),
            clip=self.clip,
        )
        if self.bridge_share and (target is None or target.knows_log_prob):
            share = Ramp(self.bridge_share, 0.0, self.bridge_until, after=self.annealed_share)
            objective = Bridged(objective, share, base=IsotropicGaussian(self.dim, 1.5))
        return Annealed(objective, Ramp(self.first_beta, 1.0, self.annealed_share), IsotropicGaussian(self.dim, 1.0))

    def critic(self, family: Family | None = None) -> CriticSettings:
        """A critic that starts at the score of N(0, I)."""
        if self.structured_critic:
            structured = StructuredCritic(self.critic_hidden, final_scale=0.01)
            if family is None or structured.suits(family):
                return structured
        return MLPCritic(self.critic_hidden, skip=True, skip_scale=1.0, final_scale=0.01)

    def stop_rule(self) -> Plateau:
        """When a fit may end before `num_steps`."""
        after = self.bridge_until if self.bridge_share else self.annealed_share
        return Plateau(self.plateau_tolerance * self.dim, every=150, after=after)

    if not TYPE_CHECKING:
        __getattr__ = old_names(RECIPE)

    def __str__(self) -> str:
        width = max(len(field.name) for field in fields(self))
        return "\n".join(f"{field.name:{width}}  {getattr(self, field.name)}" for field in fields(self))


def recipe(dim: int, num_data: int | None = None) -> Recipe:
    """What `fit` chooses for `dim` unknowns and `num_data` data.

    Example:
        >>> recipe(22, num_data=400).num_particles
        256
    """
    dim = check_count("dim", dim)
    few, some = dim <= BRIDGED_UP_TO, dim <= FULL_MATRIX_UP_TO
    minibatches = num_data is not None and num_data > ALL_DATA_UP_TO
    return Recipe(
        dim=dim,
        num_data=num_data,
        num_steps=12_000 if few else 5_000 if some else 8_000,
        batch_size=2_000 if minibatches else None,
        warmup_starts=16 if dim <= 50 else 8 if some else 4,
        warmup_steps=300 if some else 600,
        warmup_rank=None if some else _num_directions(dim),
        latent_dim=max(dim, 3) if some else 64,
        hidden=(64, 64),
        critic_hidden=(128, 128),
        structured_critic=not some,
        num_particles=256,
        critic_steps=2,
        learning_rate=1e-3,
        critic_learning_rate=2e-3,
        hold_share=0.4 if few else 0.0,
        clip=3.0,
        annealed_share=0.3,
        first_beta=0.05,
        bridge_share=0.35 if few and not minibatches else 0.0,
        bridge_until=0.4,
        plateau_tolerance=0.003,
    )


def _num_directions(dim: int) -> int:
    if dim < MORE_DIRECTIONS_FROM:
        return FEW_DIRECTIONS
    least, most = MORE_DIRECTIONS
    return max(least, min(most, NUMBERS_IN_DIRECTIONS // dim))
