"""Numbers that change during a fit: learning rates, ψ_t of the critic, annealing β_t.

A schedule is a pure function of the number of updates done. Some are relative to the length of the run;
`fit` binds those to a `Timeline`, which may become shorter while it runs. A `RunPlan` is all that a run tells an
objective: the timeline, and how minibatches follow each other.
"""

import abc
import dataclasses
import math
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Int

from ._arguments import check_number, describe
from ._fields import count_field, number_field, positive_field, share_field
from ._renamed import SCHEDULES, TIMELINE, old_names, renamed


class Timeline(eqx.Module):
    """How far a run has come at a step, when the rest of it can be compressed.

    Up to `decay_start` a step is 1/num_steps of the run. The share that is left there, 1 − decay_start/num_steps, is
    then spread evenly over the steps from `decay_start` to `end`. A run that is not compressed has
    decay_start = end = num_steps. A run in rounds has a timeline for each: all numbers then count from its `start`.

    Attributes:
        num_steps: Updates the run was planned for.
        decay_start: The update from which the rest is compressed.
        end: The update at which the run ends.
        start: The update at which it starts.

    Example:
        >>> timeline = Timeline(num_steps=100, decay_start=40, end=60)
        >>> [round(float(timeline.fraction(step)), 6) for step in (20, 40, 50, 60)]
        [0.2, 0.4, 0.7, 1.0]
    """

    num_steps: int | Int[Array, ""]
    decay_start: int | Int[Array, ""]
    end: int | Int[Array, ""]
    start: int | Int[Array, ""] = 0

    @staticmethod
    def of(run: "RunLike") -> "Timeline":
        """The timeline of a run, given as a number of updates, as a plan, or as the timeline itself."""
        if isinstance(run, RunPlan):
            return run.timeline
        return run if isinstance(run, Timeline) else Timeline(run, run, run)

    def fraction(self, step: Array | int) -> Array:
        """The share of the run that is done at a step, above 1 after its end."""
        # An objective's own count lags behind where updates were skipped.
        step, start = jnp.maximum(jnp.asarray(step, float) - self.start, 0.0), jnp.asarray(self.decay_start, float)
        left = 1.0 - start / self.num_steps
        compressed = start / self.num_steps + left * (step - start) / jnp.maximum(self.end - start, 1.0)
        return jnp.where((step <= start) | (start >= self.num_steps), step / self.num_steps, compressed)

    if not TYPE_CHECKING:
        __getattr__ = old_names(TIMELINE)

    def __mul__(self, updates: int) -> "Timeline":
        """The same run for a player that makes several updates a step, and counts them."""
        return Timeline(*(n * updates for n in (self.num_steps, self.decay_start, self.end, self.start)))


class RunPlan(eqx.Module):
    """All that a run tells an objective.

    Attributes:
        timeline: How long the run is, and where its schedules are compressed.
        batching: How minibatches follow each other, `"shuffle"` or `"rotate"`; see `sivi.fit`.

    Example:
        >>> RunPlan.of(100).timeline.num_steps
        100
    """

    timeline: Timeline
    batching: str = eqx.field(static=True, default="shuffle")

    @staticmethod
    def of(run: "RunLike", batching: str = "shuffle") -> "RunPlan":
        """The plan of a run, given as a number of updates, as a timeline, or as the plan itself."""
        return run if isinstance(run, RunPlan) else RunPlan(Timeline.of(run), batching)


#: A run as objectives, optimisers and schedules are bound to it: a number of updates, a timeline, or a plan.
RunLike: TypeAlias = int | Timeline | RunPlan


class Schedule(eqx.Module):
    """A number as a function of the step."""

    @abc.abstractmethod
    def __call__(self, step: Array | int) -> Array:
        """The value at a step counted from zero."""

    def bind(self, run: RunLike) -> "Schedule":
        """This schedule for a run: a number of updates, a `Timeline` or a `RunPlan`."""
        return self

    @property
    def start_value(self) -> float | None:
        """The value at step 0, where it is a setting of the schedule; None where it has to be computed."""
        return None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The least value and the largest, where they follow from the settings; None where they do not."""
        return None


class Constant(Schedule):
    """The same value at every step.

    Example:
        >>> float(Constant(0.5)(10))
        0.5
    """

    value: float = number_field("value")

    @property
    def start_value(self) -> float:
        return self.value

    @property
    def bounds(self) -> tuple[float, float]:
        return self.value, self.value

    def __call__(self, step: Array | int) -> Array:
        return jnp.asarray(self.value, float)


class StepDecay(Schedule):
    """`initial · factor^⌊step / every⌋`.

    Example:
        >>> float(StepDecay(1.0, factor=0.5, every=10)(25))
        0.25
    """

    initial: float = number_field("initial")
    factor: float = positive_field("factor")
    every: int = count_field("every")

    @property
    def start_value(self) -> float:
        return self.initial

    @property
    def bounds(self) -> tuple[float, float]:
        # Far away the value is zero, or grows without limit.
        far = 0.0 if self.factor <= 1.0 else math.copysign(math.inf, self.initial)
        return min(self.initial, far), max(self.initial, far)

    def __call__(self, step: Array | int) -> Array:
        return self.initial * jnp.asarray(self.factor, float) ** (step // self.every)


class _RelativeSchedule(Schedule):
    timeline: eqx.AbstractVar[Timeline | None]

    def fraction(self, step: Array | int) -> Array:
        if self.timeline is None:
            raise ValueError(f"{type(self).__name__} is relative to the length of the run: call bind(num_steps) first.")
        return self.timeline.fraction(step)


class Cosine(_RelativeSchedule):
    """Half a cosine from `initial` to `final`, over the whole run or what is left of it after holding `initial`.

    Attributes:
        initial: The value at the start.
        final: The value at the end.
        hold: Share of the run with the initial value.

    Example:
        >>> round(float(Cosine(1.0).bind(100)(50)), 6), round(float(Cosine(1.0, hold=0.5).bind(100)(50)), 6)
        (0.5, 1.0)
    """

    initial: float = number_field("initial")
    final: float = number_field("final", 0.0)
    hold: float = share_field("hold", 0.0, "a share of the run in [0, 1)")
    timeline: Timeline | None = None

    @property
    def start_value(self) -> float:
        return self.initial

    @property
    def bounds(self) -> tuple[float, float]:
        return min(self.initial, self.final), max(self.initial, self.final)

    def bind(self, run: RunLike) -> "Cosine":
        return Cosine(self.initial, self.final, self.hold, Timeline.of(run))

    def __call__(self, step: Array | int) -> Array:
        done = (self.fraction(step) - self.hold) / (1.0 - self.hold)
        weight = 0.5 * (1.0 + jnp.cos(jnp.pi * jnp.clip(done, 0.0, 1.0)))
        return self.final + (self.initial - self.final) * weight


class Ramp(_RelativeSchedule):
    """`start`, a straight line from it to `end` between the shares `after` and `until` of the run, then `end`.

    The default is the annealing of the SIVI-SM paper's experiments, min(1, 0.1 + t / (T/2)).

    Example:
        >>> ramp = Ramp().bind(100)
        >>> round(float(ramp(0)), 6), round(float(ramp(25)), 6), round(float(ramp(90)), 6)
        (0.1, 0.6, 1.0)
    """

    start: float = number_field("start", 0.1)
    end: float = number_field("end", 1.0)
    until: float = number_field("until", 0.45)
    after: float = number_field("after", 0.0)
    timeline: Timeline | None = None

    def __check_init__(self) -> None:
        if not 0 < self.until <= 1:
            raise ValueError(f"until must be a share of the run in (0, 1]; got {self.until}.")
        if not 0 <= self.after < self.until:
            raise ValueError(f"after must be a share of the run below until, {self.until}; got {self.after}.")

    @property
    def start_value(self) -> float:
        return self.start

    @property
    def bounds(self) -> tuple[float, float]:
        return min(self.start, self.end), max(self.start, self.end)

    def bind(self, run: RunLike) -> "Ramp":
        return Ramp(self.start, self.end, self.until, self.after, Timeline.of(run))

    def __call__(self, step: Array | int) -> Array:
        weight = jnp.clip((self.fraction(step) - self.after) / (self.until - self.after), 0.0, 1.0)
        return self.start + (self.end - self.start) * weight


def as_schedule(value: int | float | Schedule, name: str) -> Schedule:
    """A schedule from a number or a schedule."""
    if isinstance(value, Schedule):
        return value
    if isinstance(value, type | str | bool | None):
        raise TypeError(f"{name} must be a number or a sivi.schedules.Schedule; got {describe(value)}.")
    return Constant(check_number(name, value))


def as_positive_schedule(value: int | float | Schedule, name: str) -> Schedule:
    """A schedule, or a number, of rates: never negative, and not zero all the time."""
    schedule = as_schedule(value, name)
    if schedule.bounds is not None and not (schedule.bounds[0] >= 0.0 and schedule.bounds[1] > 0.0):
        given = value if isinstance(value, Schedule) else schedule.start_value
        raise ValueError(f"{name} must be positive, and never below zero in a schedule; got {given}.")
    return schedule


def as_share_schedule(value: int | float | Schedule, name: str, what: str) -> Schedule:
    """A schedule, or a number, of shares between 0 and 1; `what` says in an error what it gives."""
    schedule = as_schedule(value, name)
    if schedule.bounds is not None and not 0.0 <= schedule.bounds[0] <= schedule.bounds[1] <= 1.0:
        low, high = schedule.bounds
        got = f"{low}" if low == high else f"one from {low} to {high}"
        raise ValueError(f"{name} must give {what}, between 0 and 1; got {got}.")
    return schedule


_Module = TypeVar("_Module", bound=eqx.Module)


def replace_fields(module: _Module, **changes: Any) -> _Module:
    """A copy of settings with some fields changed; unlike `dataclasses.replace` it converts nothing."""
    fields = [field.name for field in dataclasses.fields(module)]  # pyright: ignore[reportArgumentType]
    if unknown := changes.keys() - set(fields):
        raise TypeError(f"{type(module).__name__} has no field {sorted(unknown)[0]!r}.")
    copy = object.__new__(type(module))
    for name in fields:
        object.__setattr__(copy, name, changes.get(name, getattr(module, name)))
    return copy


__getattr__ = renamed("sivi.schedules", SCHEDULES)
