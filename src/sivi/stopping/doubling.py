"""Rounds of doubled length, for as long as they improve the loss."""

import math
from functools import partial
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._arguments import check_count, check_flag, check_not_negative, check_optional, check_positive, default_float
from ..schedules import Timeline
from .base import RoundEnd, StopRule, StopState


class Doubling(StopRule):
    """Run in rounds, each twice as long as the one before, for as long as a round improves the loss.

    Every round is a complete run of its own: its schedules start again, and its learning rate decays to the end. It
    starts from the best family so far, or with `restart` from that of update zero. Its result is the mean loss over its
    `tail`, where the rate is small. The run ends after a round that has improved the best result by less than `share`
    times the noise, the standard deviation of the loss from update to update over the tail, or by less than
    `tolerance`. Then, and at `num_steps`, the family is that of the best round: a round that made it worse is undone.

    While the noise is above `quiet`, the fit is still far from the target, and one round that happens to be no better
    is not the end: the run goes on until two in a row are not.

    So an easy posterior takes two rounds, and a hard one as many as pay, up to `num_steps`. With repeats, which share
    the rounds, all of them must have stopped improving.

    Args:
        first: Updates of the first round.
        share: The improvement, as a share of the noise, that is not worth another round.
        tolerance: The improvement, in units of the loss, that is not worth one either.
        tail: Share of a round that its result is taken from.
        quiet: Noise up to which one round without improvement ends the run; None for any noise.
        restart: Whether a round starts from the family of update zero: for an annealed target, whose first modes a
            family that was fitted before does not find.

    Example:
        >>> rule = Doubling(first=500)
    """

    first: int = eqx.field(static=True, kw_only=True, default=250, converter=partial(check_count, "first"))
    share: float = eqx.field(static=True, kw_only=True, default=0.25, converter=partial(check_positive, "share"))
    tolerance: float = eqx.field(
        static=True, kw_only=True, default=0.0, converter=partial(check_not_negative, "tolerance")
    )
    tail: float = eqx.field(static=True, kw_only=True, default=0.2, converter=partial(check_positive, "tail"))
    quiet: float | None = eqx.field(
        static=True, kw_only=True, default=None, converter=partial(check_optional, check_positive, "quiet")
    )
    restart: bool = eqx.field(static=True, kw_only=True, default=False, converter=partial(check_flag, "restart"))
    keeps_best: ClassVar[bool] = True

    @property
    def restarts(self) -> bool:
        return self.restart

    def __check_init__(self) -> None:
        if self.tail > 1.0:
            raise ValueError(f"tail must be a share of a round in (0, 1]; got {self.tail}.")

    def init(self, num_steps: int, repeats: int, step: int = 0) -> "DoublingState":
        # By NumPy, which has no program to compile.
        zeros = jnp.asarray(np.zeros(repeats, default_float()))
        # A run that continues has had rounds that add up to `step`: the next one is about as long.
        length = max(self.first, step)
        round_end = num_steps if num_steps - step < 2 * length else step + length
        return DoublingState(
            end=_integer(num_steps),
            round_start=_integer(step),
            round_end=_integer(round_end),
            centre=zeros,
            total=zeros,
            squares=zeros,
            count=jnp.asarray(np.zeros(repeats, np.int32)),
            best=jnp.asarray(np.full(repeats, np.inf, default_float())),
            idle=jnp.asarray(np.zeros(repeats, np.int32)),
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
        improves = better & (improvement > jnp.maximum(self.share * noise, self.tolerance))
        loud = jnp.zeros_like(improves) if self.quiet is None else noise > self.quiet
        idle = jnp.where(improves, 0, state.idle + 1)
        goes_on = jnp.any(improves | (loud & (idle < 2)))
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
            idle=jnp.where(ends, idle, state.idle),
        )
        restart = ends & goes_on & (done < num_steps) & self.restart
        return after, RoundEnd(ends & better, ends & ~better, restart)

    def round_ends(self, num_steps: int, step: int) -> list[tuple[int, int]]:
        found, start, length = [], 0, self.first
        while start < num_steps:
            end = num_steps if num_steps - start < 2 * length else start + length
            if end > step:
                break
            found.append((end - max(math.ceil(self.tail * (end - start)), 1), end))
            start, length = end, 2 * (end - start)
        return found


def _integer(number: int) -> Int[Array, ""]:
    return jnp.asarray(np.int32(number))


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
        idle: Rounds in a row without improvement.
    """

    end: Int[Array, ""]
    round_start: Int[Array, ""]
    round_end: Int[Array, ""]
    centre: Float[Array, " repeats"]
    total: Float[Array, " repeats"]
    squares: Float[Array, " repeats"]
    count: Int[Array, " repeats"]
    best: Float[Array, " repeats"]
    idle: Int[Array, " repeats"]

    def repeat(self, index: int) -> "DoublingState":
        rows = slice(index, index + 1)
        sums = (self.centre, self.total, self.squares, self.count, self.best, self.idle)
        return DoublingState(self.end, self.round_start, self.round_end, *(values[rows] for values in sums))

    def timeline(self, num_steps: int | Int[Array, ""]) -> Timeline:
        length = self.round_end - self.round_start
        return Timeline(length, length, length, self.round_start)
