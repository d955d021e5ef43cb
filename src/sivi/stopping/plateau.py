"""A plateau of the loss."""

from functools import partial
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._arguments import check_count, check_positive, check_share, default_float
from ..schedules import Timeline
from .base import StopRule, StopState

_as_start = partial(check_share, "after", what="a share of the run in [0, 1)")


class Plateau(StopRule):
    """End a fit early, with a final decay of the learning rate, when its loss has reached a plateau.

    The loss is averaged over blocks of `every` updates. The mean of the last `blocks` of them is compared with that of
    the `blocks` before; the scatter of the blocks gives the standard error of the difference. The loss is on a plateau
    when even the upper end of that improvement, estimate + `z` standard errors, is below `tolerance`: noise too large
    to tell counts as no plateau. From there the rest of every schedule, the decay of the learning rates above all, is
    compressed into `decay` times the updates done so far, and the fit ends. `num_steps` becomes a maximum.

    With repeats, which share the length of the run, all of them must be on a plateau.

    Args:
        tolerance: The improvement, in units of the recorded `loss`, that is not worth the updates of `blocks` blocks.
        every: Updates in a block.
        blocks: Blocks on either side of the comparison.
        after: Share of the planned run that is not looked at, such as the annealed part of it.
        z: Standard errors added to the improvement.
        decay: Length of the final decay, as a share of the updates done when it begins.

    Example:
        >>> rule = Plateau(tolerance=0.02, every=100)
    """

    tolerance: float = eqx.field(static=True, converter=partial(check_positive, "tolerance"))
    every: int = eqx.field(static=True, kw_only=True, default=250, converter=partial(check_count, "every"))
    blocks: int = eqx.field(static=True, kw_only=True, default=4, converter=partial(check_count, "blocks", minimum=2))
    after: float = eqx.field(static=True, kw_only=True, default=0.5, converter=_as_start)
    z: float = eqx.field(static=True, kw_only=True, default=2.0, converter=partial(check_positive, "z"))
    decay: float = eqx.field(static=True, kw_only=True, default=0.5, converter=partial(check_positive, "decay"))

    keeps_best: ClassVar[bool] = False

    def init(self, num_steps: int, repeats: int, step: int = 0) -> "PlateauState":
        return plateau_state(num_steps, repeats, 2 * self.blocks)

    def update(
        self, state: "PlateauState", done: Int[Array, ""], num_steps: Int[Array, ""], losses: Float[Array, " repeats"]
    ) -> "tuple[PlateauState, None]":
        first = jnp.ceil(self.after * num_steps).astype(jnp.int32)
        watching = done > first
        total, count = jnp.where(watching, state.total + losses, 0.0), jnp.where(watching, state.count + 1, 0)
        ends = watching & ((done - first) % self.every == 0)
        full = ends & (count == self.every)
        means = jnp.where(full, jnp.roll(state.means, -1, axis=1).at[:, -1].set(total / self.every), state.means)
        seen = state.seen + full
        on_plateau = full & (seen >= 2 * self.blocks) & (state.decay_start >= num_steps) & jnp.all(self._flat(means))
        end = jnp.minimum(num_steps, done + jnp.ceil(self.decay * done).astype(jnp.int32))
        after = PlateauState(
            decay_start=jnp.where(on_plateau, done, state.decay_start),
            end=jnp.where(on_plateau, end, state.end),
            total=jnp.where(ends, 0.0, total),
            count=jnp.where(ends, 0, count),
            means=means,
            seen=seen,
        )
        return after, None

    def _flat(self, means: Float[Array, "repeats blocks"]) -> Bool[Array, " repeats"]:
        earlier, recent = means[:, : self.blocks], means[:, self.blocks :]
        improvement = jnp.mean(earlier, axis=1) - jnp.mean(recent, axis=1)
        variance = (jnp.var(earlier, axis=1, ddof=1) + jnp.var(recent, axis=1, ddof=1)) / self.blocks
        return improvement + self.z * jnp.sqrt(variance) < self.tolerance


class PlateauState(StopState):
    """Where a run ends, and the averages that a plateau is found by.

    Attributes:
        decay_start: The update from which the rest of the schedules is compressed; `num_steps` without a plateau.
        end: The update after which the run ends.
        total: Sum of the losses of the current block, by repeat.
        count: Losses in that sum. A block that a resumed run began in the middle is left out.
        means: Mean losses of the last blocks, oldest first, by repeat.
        seen: Number of full blocks so far.
    """

    decay_start: Int[Array, ""]
    end: Int[Array, ""]
    total: Float[Array, " repeats"]
    count: Int[Array, ""]
    means: Float[Array, "repeats blocks"]
    seen: Int[Array, ""]

    def repeat(self, index: int) -> "PlateauState":
        rows = slice(index, index + 1)
        return PlateauState(self.decay_start, self.end, self.total[rows], self.count, self.means[rows], self.seen)

    def timeline(self, num_steps: int | Int[Array, ""]) -> Timeline:
        return Timeline(num_steps, self.decay_start, self.end)


def plateau_state(num_steps: int, repeats: int, blocks: int) -> PlateauState:
    return PlateauState(
        decay_start=jnp.asarray(np.int32(num_steps)),
        end=jnp.asarray(np.int32(num_steps)),
        total=jnp.asarray(np.zeros(repeats, default_float())),
        count=jnp.asarray(np.int32(0)),
        means=jnp.asarray(np.zeros((repeats, blocks), default_float())),
        seen=jnp.asarray(np.int32(0)),
    )
