"""What `fit` uses for whatever is left out: the one place where such a number is chosen.

Everything follows from the number of unknowns and the number of data. All numbers are in the coordinates u of the
fit, in which the warm-up Gaussian is N(0, I): family and critic start there.
"""

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from ._arguments import check_count
from ._renamed import RECIPE, old_names
from .coordinates import CoordinateMap
from .critics import CriticSettings, MLPCritic, StructuredCritic
from .families import Family
from .families.starting import dense_start, diagonal_start
from .objectives import Annealed, Bridged, MixtureKL, Objective, PathKL
from .optimizers import Adam
from .schedules import Cosine, Ramp
from .stopping import Doubling, Plateau, StopRule
from .targets import IsotropicGaussian, Target
from .targets.symmetric import conditional_coordinates_of, symmetric_inside
from .warmup.from_optimum import Optimum, warmup_from_optimum
from .warmup.gaussian import warmup_with_status

#: Up to this many unknowns separated modes are weighed against each other: rounds are annealed and runs longer, and
#: with a critic a bridge carries mass between modes.
ANNEALED_UP_TO = 10
#: Up to this many unknowns the affine map is a full matrix, z as long as x, and the run shorter than above it.
FULL_MATRIX_UP_TO = 128
#: Up to this many unknowns the warm-up has all its starts, and the mixture short first rounds. With more unknowns what
#: a short round gains is little, though it is not done yet; and pairs of components, which are most of the cost of an
#: update, are fewer.
SOME_UNKNOWNS = 50
#: Low-rank directions of the affine map: few below `MORE_DIRECTIONS_FROM` unknowns; then as many as have
#: `NUMBERS_IN_DIRECTIONS` numbers in all, within bounds.
FEW_DIRECTIONS = 64
MORE_DIRECTIONS_FROM, MORE_DIRECTIONS = 1000, (128, 256)
NUMBERS_IN_DIRECTIONS = 2**21
#: Up to this many data an update sees all of them.
ALL_DATA_UP_TO = 10_000
#: For a target with symmetries: so many data per update, at most; and numbers for a point up to which coordinates use
#: what is known of some unknowns given all others, such as 5,800 data × 51 units.
SOME_ROWS, CONDITIONAL_UP_TO = 1000, 300_000


@dataclass(frozen=True)
class Recipe:
    """All that `fit` chooses by itself; `str` of it lists the numbers.

    A recipe is for one of two methods. The mixture of an update's own conditionals takes the place of q's density where
    components overlap enough (`sivi.objectives.MixtureKL`); what tells is the weight of the generating component, after
    the second round of a run. Where they do not, the run is given up for one with a critic (`with_critic`).

    Attributes:
        dim: Number of unknowns.
        num_data: Number of data, or None.
        mixture: Whether the method is the mixture; otherwise it is `sivi.objectives.PathKL`, with a critic.
        num_steps: Updates, at most.
        batch_size: Data per update; None for all.
        warmup_starts: Gaussian fits that the affine map is pooled from.
        warmup_steps: Steps of each.
        warmup_rank: Of the map beyond its diagonal; None for a full matrix.
        latent_dim: Length of z.
        hidden: Hidden layers of the family's network.
        latent_share: Share of the variance that comes from z at the start; the rest is that of q(x|z).
        num_particles: Draws per update.
        learning_rate: Of the family at the start; it decays along half a cosine.
        hold_share: Share of the run, or of every round, in which rates stay at their start.
        clip: Largest size of a draw's gradient; see `sivi.objectives.PathKL`.
        annealed_share: Share of the run, or of every round, on the geometric path from N(0, I).
        first_beta: Where on that path it starts.
        num_aux: For the mixture: components beyond those of the draws.
        first_round: For the mixture: updates of the first round; see `sivi.Doubling`.
        round_share: For the mixture: the improvement, as a share of the loss's noise, that is not worth another round.
        round_tolerance: For the mixture: the improvement in nats that is not worth another round either.
        quiet: For the mixture: variation of log q̂ − log p from draw to draw, in nats, above which a run waits for a
            second round without improvement; 0 for none.
        most_own_weight: For the mixture: the weight of the generating component above which it is given up.
        critic_hidden: Hidden layers of the critic.
        structured_critic: Whether the critic is the one whose size does not grow with `dim`.
        critic_steps: Critic updates per family update.
        critic_learning_rate: Of the critic, at the start.
        bridge_share: With a critic: share of a wide Gaussian that is mixed into the target while modes find their
            weights; 0 for none. See `sivi.objectives.Bridged`.
        bridge_until: Share of the run after which it is gone.
        plateau_tolerance: With a critic: improvement of the loss, per unknown, below which the loss is on a plateau; 0
            for a run that takes all its updates.
        repeats: Independent fits, whose equal mixture is the posterior.
        optimum: For a target with symmetries: the way to the optimum that the warm-up of a repeat starts from.
    """

    dim: int
    num_data: int | None
    mixture: bool
    num_steps: int
    batch_size: int | None
    warmup_starts: int
    warmup_steps: int
    warmup_rank: int | None
    latent_dim: int
    hidden: tuple[int, ...]
    latent_share: float
    num_particles: int
    learning_rate: float
    hold_share: float
    clip: float
    annealed_share: float
    first_beta: float
    num_aux: int
    first_round: int
    round_share: float
    round_tolerance: float
    quiet: float
    most_own_weight: float | None
    critic_hidden: tuple[int, ...]
    structured_critic: bool
    critic_steps: int
    critic_learning_rate: float
    bridge_share: float
    bridge_until: float
    plateau_tolerance: float
    repeats: int = 1
    optimum: Optimum | None = None

    def for_target(self, target: Target, *, all_rows: bool = True) -> "Recipe":
        """The recipe for a target of this size, by what it declares; `all_rows` if it may see all of them at once."""
        if symmetric_inside(target) is None:
            return self
        known = conditional_coordinates_of(target) if all_rows else None
        return self.for_symmetries(conditional=known is not None and known.numbers_per_point <= CONDITIONAL_UP_TO)

    def for_symmetries(self, *, conditional: bool) -> "Recipe":
        """The recipe for a target with symmetries, such as a network: repeats around optima, with a critic.

        Coordinates are those of a mean-field Gaussian. There is no path from it: the mode is found. With `conditional`
        they use what is known of some unknowns given all others; more updates then change little.
        """
        critic, optimum = _critic(self.dim, self.num_data), Optimum(steps=3000, rate=1e-2, rows=100, scale=0.05)
        own = {"num_steps": 1000, "num_particles": 100, "warmup_starts": 1, "warmup_steps": 300, "repeats": 8}
        own |= {"batch_size": SOME_ROWS if (self.num_data or 0) > SOME_ROWS else None, "optimum": optimum}
        if conditional:
            optimum = Optimum(steps=300, rate=2e-2, rows=None, scale=0.05, conditional=True)
            own |= {"num_steps": 20, "num_particles": 32, "repeats": 16, "batch_size": None, "optimum": optimum}
        return replace(critic, **own, annealed_share=0.0, bridge_share=0.0, plateau_tolerance=0.0)

    def for_modes(self) -> "Recipe":
        """The recipe for a posterior with several modes: rounds are annealed, and start anew, so that modes can change
        their weights. Above `ANNEALED_UP_TO` unknowns it is the same as for one mode.
        """
        if not self.mixture or self.dim > ANNEALED_UP_TO:
            return self
        return replace(
            self,
            num_steps=32_000,
            num_particles=512,
            num_aux=0,
            hold_share=0.5,
            annealed_share=0.5,
            first_round=1000,
            round_share=0.25,
            round_tolerance=0.0,
        )

    def with_critic(self) -> "Recipe":
        """The recipe for a critic, whose family also suits every other method."""
        if self.optimum is not None:
            return replace(self, num_steps=max(self.num_steps, 1000), num_particles=max(self.num_particles, 100))
        return _critic(self.dim, self.num_data) if self.mixture else self

    def warm_up(self, key: PRNGKeyArray, target: Target, batch_size: int | None) -> CoordinateMap:
        """The coordinates of the fit."""
        return self.warm_up_with_status(key, target, batch_size)[0]

    def warm_up_with_status(
        self, key: PRNGKeyArray, target: Target, batch_size: int | None
    ) -> tuple[CoordinateMap, Int[Array, ""], Bool[Array, ""]]:
        """The coordinates of the fit, the code of how they were found, see `sivi.warmup.status`, and whether its
        starts have found several modes.
        """
        if self.optimum is not None and (inner := symmetric_inside(target)) is not None:
            sizes = {"settings": self.optimum, "num_steps": self.warmup_steps, "batch_size": batch_size}
            return *warmup_from_optimum(key, target, inner, **sizes), jnp.asarray(False)
        return warmup_with_status(
            key,
            target,
            num_starts=self.warmup_starts,
            num_steps=self.warmup_steps,
            batch_size=batch_size,
            rank=self.warmup_rank,
        )

    def family(self, key: PRNGKeyArray) -> Family:
        """A semi-implicit family that starts at N(0, I); see `sivi.families.starting`."""
        sizes = self.dim, self.latent_dim, self.hidden, self.latent_share
        return (dense_start if self.mixture else diagonal_start)(key, *sizes)

    def objective(self, target: Target | None = None, family: Family | None = None) -> Objective:
        """Reverse KL by its path gradient, along the geometric path from the warm-up Gaussian to the target.

        The critic's bridge needs the log density: for a `target` that knows only its score there is none. A `family`
        that is given need not start at N(0, I), so its critic is trained first; nor need it suit the structured critic.
        """
        optimizer = Adam(Cosine(self.learning_rate, hold=self.hold_share), b1=0.9, b2=0.99)
        objective: Objective
        if self.mixture:
            objective = MixtureKL(
                num_particles=self.num_particles, num_aux=self.num_aux, optimizer=optimizer, clip=self.clip
            )
        else:
            objective = PathKL(
                num_particles=self.num_particles,
                critic_steps=self.critic_steps,
                critic_warmup=0 if family is None else 500,
                optimizer=optimizer,
                critic_optimizer=Adam(Cosine(self.critic_learning_rate, hold=self.hold_share), b1=0.9, b2=0.99),
                critic=self.critic(family),
                clip=self.clip,
            )
        if self.bridge_share and (target is None or target.knows_log_prob):
            share = Ramp(self.bridge_share, 0.0, self.bridge_until, after=self.annealed_share)
            objective = Bridged(objective, share, base=IsotropicGaussian(self.dim, 1.5))
        if not self.annealed_share:
            return objective
        ramp, base = Ramp(self.first_beta, 1.0, self.annealed_share), IsotropicGaussian(self.dim, 1.0)
        return Annealed(objective, ramp, base, every_round=self.mixture)

    def critic(self, family: Family | None = None) -> CriticSettings:
        """A critic that starts at the score of N(0, I)."""
        if self.structured_critic:
            structured = StructuredCritic(self.critic_hidden, final_scale=0.01)
            if family is None or structured.suits(family):
                return structured
        return MLPCritic(self.critic_hidden, skip=True, skip_scale=1.0, final_scale=0.01)

    def stop_rule(self) -> StopRule | None:
        """How long a fit goes on, up to `num_steps`; None for all of them."""
        if self.mixture:
            return Doubling(
                first=self.first_round,
                share=self.round_share,
                tolerance=self.round_tolerance,
                quiet=self.quiet / math.sqrt(self.num_particles) if self.quiet else None,
                restart=self.annealed_share > 0,
            )
        if not self.plateau_tolerance:
            return None
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
    few, critic = dim <= ANNEALED_UP_TO, _critic(dim, num_data)
    if dim > FULL_MATRIX_UP_TO:
        return critic
    return replace(
        critic,
        mixture=True,
        num_steps=16_000,
        latent_share=min(0.75, 4.0 / dim),
        learning_rate=1e-2,
        hold_share=0.3,
        annealed_share=0.0,
        first_round=250 if dim <= SOME_UNKNOWNS else 1000,
        num_particles=256,
        num_aux=256 if few or dim > SOME_UNKNOWNS else 512,
        round_share=0.5,
        round_tolerance=0.01 if few else 0.05,
        quiet=0.3 if few else 0.0,
        most_own_weight=0.13,
        bridge_share=0.0,
    )


def _critic(dim: int, num_data: int | None) -> Recipe:
    """The recipe with a critic."""
    few, some = dim <= ANNEALED_UP_TO, dim <= FULL_MATRIX_UP_TO
    return Recipe(
        dim=dim,
        num_data=num_data,
        mixture=False,
        num_steps=12_000 if few else 10_000 if some else 8_000,
        batch_size=2_000 if num_data is not None and num_data > ALL_DATA_UP_TO else None,
        warmup_starts=16 if dim <= SOME_UNKNOWNS else 8 if some else 4,
        warmup_steps=300 if few else 150 if some else 600,
        warmup_rank=None if some else _num_directions(dim),
        latent_dim=max(dim, 3) if some else 64,
        hidden=(64, 64),
        latent_share=0.75,
        num_particles=256,
        learning_rate=1e-3,
        hold_share=0.4 if few else 0.0,
        clip=3.0,
        annealed_share=0.3,
        first_beta=0.05,
        num_aux=0,
        first_round=0,
        round_share=0.0,
        round_tolerance=0.0,
        quiet=0.0,
        most_own_weight=None,
        critic_hidden=(128, 128),
        structured_critic=not some,
        critic_steps=2,
        critic_learning_rate=2e-3,
        bridge_share=0.35 if few and (num_data is None or num_data <= ALL_DATA_UP_TO) else 0.0,
        bridge_until=0.4,
        plateau_tolerance=0.003,
    )


def _num_directions(dim: int) -> int:
    if dim < MORE_DIRECTIONS_FROM:
        return FEW_DIRECTIONS
    least, most = MORE_DIRECTIONS
    return max(least, min(most, NUMBERS_IN_DIRECTIONS // dim))
