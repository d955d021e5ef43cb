"""How long a run goes on: until a plateau of the loss, or in rounds of doubled length while they improve it.

Both rules judge an improvement against the noise of the loss. What they do depends on absolute steps and on recorded
losses alone, so a run does not depend on how it is cut into chunks.
"""

import abc
import math
from functools import partial
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ._arguments import check_count, check_positive, default_float
from .schedules import Timeline


class StopState(eqx.Module):
    """Where a run ends, and what its rule needs to say so.

    Attributes:
        end: The update after which the run ends.
    """

    end: eqx.AbstractVar[Int[Array, ""]]

    @abc.abstractmethod
    def repeat(self, index: int) -> "StopState":
        """That of one repeat."""

    @abc.abstractmethod
    def timeline(self, num_steps: int | Int[Array, ""]) -> Timeline:
        """The timeline of schedules in a run planned for `num_steps` updates."""


class StopRule(eqx.Module):
    """How long a run of at most `num_steps` updates goes on."""

    #: Whether the run keeps the best of several families: those at the ends of its rounds.
    keeps_best: eqx.AbstractClassVar[bool]

    @property
    def restarts(self) -> bool:
        """Whether every round starts from the family of update zero."""
        return False

    @abc.abstractmethod
    def init(self, num_steps: int, repeats: int, step: int = 0) -> StopState:
        """The state before update `step`: at the start, or of a run that continues to another `num_steps`."""

    @abc.abstractmethod
    def update(
        self, state: StopState, done: Int[Array, ""], num_steps: Int[Array, ""], losses: Float[Array, " repeats"]
    ) -> "tuple[StopState, RoundEnd | None]":
        """The state after an update, given the updates `done` and the losses of this one.

        Also what happens to the best family of every repeat; None for a rule without rounds.
        """


class RoundEnd(eqx.Module):
    """What happens to families at the end of a round; nothing before it.

    Attributes:
        improved: Which repeats have a new best family.
        back: Which repeats go back to their best one.
        restart: Whether all go back to the one they started with.
    """

    improved: Bool[Array, " repeats"]
    back: Bool[Array, " repeats"]
    restart: Bool[Array, ""]


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
    after: float = eqx.field(static=True, kw_only=True, default=0.5, converter=float)
    z: float = eqx.field(static=True, kw_only=True, default=2.0, converter=partial(check_positive, "z"))
    decay: float = eqx.field(static=True, kw_only=True, default=0.5, converter=partial(check_positive, "decay"))

    keeps_best: ClassVar[bool] = False

    def __check_init__(self) -> None:
        if not 0.0 <= self.after < 1.0:
            raise ValueError(f"after must be a share of the run in [0, 1); got {self.after}.")

    def init(self, num_steps: int, repeats: int, step: int = 0) -> "PlateauState":
        return _plateau_state(num_steps, repeats, 2 * self.blocks)

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


def _plateau_state(num_steps: int, repeats: int, blocks: int) -> PlateauState:
    return PlateauState(
        decay_start=jnp.int32(num_steps),
        end=jnp.int32(num_steps),
        total=jnp.zeros(repeats, default_float()),
        count=jnp.int32(0),
        means=jnp.zeros((repeats, blocks), default_float()),
        seen=jnp.int32(0),
    )


class Doubling(StopRule):
    """Run in rounds, each twice as long as the one before, for as long as a round improves the loss.

    Every round is a complete run of its own: its schedules start again, and its learning rate decays to the end. It
    starts from the best family so far, or with `restart` from that of update zero. Its result is the mean loss over its
    `tail`, where the rate is small. The run ends after a round that has improved the best result by less than `share`
    times the noise, the standard deviation of the loss from update to update over the tail. Then, and at `num_steps`,
    the family is that of the best round: a round that made it worse is undone.

    So an easy posterior takes two rounds, and a hard one as many as pay, up to `num_steps`. With repeats, which share
    the rounds, all of them must have stopped improving.

    Args:
        first: Updates of the first round.
        share: The improvement, as a share of the noise, that is not worth another round.
        tail: Share of a round that its result is taken from.
        restart: Whether a round starts from the family of update zero: for an annealed target, whose first modes a
            family that was fitted before does not find.

    Example:
        >>> rule = Doubling(first=500)
    """

    first: int = eqx.field(static=True, kw_only=True, default=250, converter=partial(check_count, "first"))
    share: float = eqx.field(static=True, kw_only=True, default=0.25, converter=partial(check_positive, "share"))
    tail: float = eqx.field(static=True, kw_only=True, default=0.2, converter=partial(check_positive, "tail"))
    restart: bool = eqx.field(static=True, kw_only=True, default=False, converter=bool)
    keeps_best: ClassVar[bool] = True

    @property
    def restarts(self) -> bool:
        return self.restart

    def __check_init__(self) -> None:
        if self.tail > 1.0:
            raise ValueError(f"tail must be a share of a round in (0, 1]; got {self.tail}.")

    def init(self, num_steps: int, repeats: int, step: int = 0) -> "DoublingState":
        zeros = jnp.zeros(repeats, default_float())
        # A run that continues has had rounds that add up to `step`: the next one is about as long.
        length = max(self.first, step)
        return DoublingState(
            end=jnp.int32(num_steps),
            round_start=jnp.int32(step),
            round_end=_round_end(jnp.int32(step), jnp.int32(length), jnp.int32(num_steps)),
            centre=zeros,
            total=zeros,
            squares=zeros,
            count=jnp.zeros(repeats, jnp.int32),
            best=jnp.full(repeats, jnp.inf, default_float()),
        )

    def update(
        self, state: "DoublingState", done: Int[Array, ""], num_steps: Int[Array, ""], losses: Float[Array, " repeats"]
    ) -> "tuple[DoublingState, RoundEnd]":
        length = state.round_end - state.round_start
        in_tail = done > state.round_end - jnp.maximum(jnp.ceil(self.tail * length), 1).astype(jnp.int32)
        seen = in_tail & jnp.isfinite(losses)  # those of updates that were skipped are not finite
        first = state.count == 0
        centre = jnp.where(first, jnp.where(seen, losses, 0.0), state.centre)
        offset = jnp.where(seen, losses - centre, 0.0)
        total = jnp.where(first, 0.0, state.total) + offset
        squares = jnp.where(first, 0.0, state.squares) + offset**2
        count = state.count + seen
        ends = done >= state.round_end
        mean_offset = total / jnp.maximum(count, 1)
        noise = jnp.sqrt(jnp.maximum(squares / jnp.maximum(count, 1) - mean_offset**2, 0.0))
        result = jnp.where(count > 0, centre + mean_offset, jnp.inf)
        better = result < state.best
        improvement = jnp.where(jnp.isfinite(state.best), state.best - result, jnp.inf)
        goes_on = jnp.any(better & (improvement > self.share * noise))
        next_end = _round_end(state.round_end, 2 * length, num_steps)
        after = DoublingState(
            end=jnp.where(ends & ~goes_on, done, state.end),
            round_start=jnp.where(ends, state.round_end, state.round_start),
            round_end=jnp.where(ends, next_end, state.round_end),
            centre=centre,
            total=total,
            squares=squares,
            count=jnp.where(ends, 0, count),
            best=jnp.where(ends & better, result, state.best),
        )
        restart = ends & goes_on & (done < num_steps) & self.restart
        return after, RoundEnd(ends & better, ends & ~better, restart)

    def round_ends(self, num_steps: int, step: int) -> list[tuple[int, int]]:
        """The first and the last update of the tail of every round that is over by `step`, of a run from update 0."""
        found, start, length = [], 0, self.first
        while start < num_steps:
            end = num_steps if num_steps - start < 2 * length else start + length
            if end > step:
                break
            found.append((end - max(math.ceil(self.tail * (end - start)), 1), end))
            start, length = end, 2 * (end - start)
        return found


def _round_end(start: Int[Array, ""], length: Int[Array, ""], num_steps: Int[Array, ""]) -> Int[Array, ""]:
    """Where a round ends: a rest of the run that is shorter than the round is part of it."""
    return jnp.where(num_steps - start < 2 * length, num_steps, start + length)


class DoublingState(StopState):
    """Where a run and its current round end, and the results so far.

    Attributes:
        end: The update after which the run ends.
        round_start: The update at which the current round starts.
        round_end: The update after which it ends.
        centre: The first loss in the round's tail, by repeat: sums are relative to it, so that little cancels.
        total: Sum of the losses in the tail.
        squares: Sum of their squares.
        count: Losses in those sums.
        best: The best result of a round, by repeat; infinite before the first.
    """

    end: Int[Array, ""]
    round_start: Int[Array, ""]
    round_end: Int[Array, ""]
    centre: Float[Array, " repeats"]
    total: Float[Array, " repeats"]
    squares: Float[Array, " repeats"]
    count: Int[Array, " repeats"]
    best: Float[Array, " repeats"]

    def repeat(self, index: int) -> "DoublingState":
        rows = slice(index, index + 1)
        sums = (self.centre, self.total, self.squares, self.count, self.best)
        return DoublingState(self.end, self.round_start, self.round_end, *(values[rows] for values in sums))

    def timeline(self, num_steps: int | Int[Array, ""]) -> Timeline:
        length = self.round_end - self.round_start
        return Timeline(length, length, length, self.round_start)


def init_stop(rule: StopRule | None, num_steps: int, repeats: int, step: int = 0) -> StopState:
    """The state before update `step`; a run without a rule goes on to `num_steps`."""
    return _plateau_state(num_steps, repeats, 0) if rule is None else rule.init(num_steps, repeats, step)


def update_stop(
    rule: StopRule | None,
    state: StopState,
    done: Int[Array, ""],
    num_steps: Int[Array, ""],
    losses: Float[Array, " repeats"],
) -> tuple[StopState, RoundEnd | None]:
    """The state after an update, and what happens to the best families; see `StopRule.update`."""
    return (state, None) if rule is None else rule.update(state, done, num_steps, losses)
