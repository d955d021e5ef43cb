"""Numbers that change during a fit: learning rates, ψ_t of the critic, annealing β_t.

A schedule is a pure function of the number of updates done. Some are relative to the length of the run;
`fit` binds those with `bind(num_steps)` before it starts.
"""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ._types import describe


class Schedule(eqx.Module):
    """A number as a function of the step."""

    @abc.abstractmethod
    def __call__(self, step: Array | int) -> Array:
        """The value at a step counted from zero."""

    def bind(self, num_steps: int) -> "Schedule":
        """This schedule for a run of `num_steps` updates."""
        return self


class Constant(Schedule):
    """The same value at every step.

    Example:
        >>> float(Constant(0.5)(10))
        0.5
    """

    value: float = eqx.field(static=True, converter=float)

    def __call__(self, step: Array | int) -> Array:
        return jnp.asarray(self.value, float)


class StepDecay(Schedule):
    """`initial · factor^⌊step / every⌋`.

    Example:
        >>> float(StepDecay(1.0, factor=0.5, every=10)(25))
        0.25
    """

    initial: float = eqx.field(static=True, converter=float)
    factor: float = eqx.field(static=True, converter=float)
    every: int = eqx.field(static=True, converter=int)

    def __call__(self, step: Array | int) -> Array:
        return self.initial * jnp.asarray(self.factor, float) ** (step // self.every)


class _RelativeSchedule(Schedule):
    num_steps: eqx.AbstractVar[int | None]

    def fraction(self, step: Array | int) -> Array:
        if self.num_steps is None:
            raise ValueError(f"{type(self).__name__} is relative to the length of the run: call bind(num_steps) first.")
        return jnp.asarray(step, float) / self.num_steps


class Cosine(_RelativeSchedule):
    """Half a cosine from `initial` to `final` over the whole run.

    Example:
        >>> round(float(Cosine(1.0).bind(100)(50)), 6)
        0.5
    """

    initial: float = eqx.field(static=True, converter=float)
    final: float = eqx.field(static=True, converter=float, default=0.0)
    num_steps: int | None = eqx.field(static=True, default=None)

    def bind(self, num_steps: int) -> "Cosine":
        return Cosine(self.initial, self.final, num_steps)

    def __call__(self, step: Array | int) -> Array:
        weight = 0.5 * (1.0 + jnp.cos(jnp.pi * jnp.clip(self.fraction(step), 0.0, 1.0)))
        return self.final + (self.initial - self.final) * weight


class Ramp(_RelativeSchedule):
    """A straight line from `start` to `end` over the first `until` of the run, then `end`.

    The default is the annealing of the SIVI-SM paper's experiments, min(1, 0.1 + t / (T/2)).

    Example:
        >>> ramp = Ramp().bind(100)
        >>> round(float(ramp(0)), 6), round(float(ramp(25)), 6), round(float(ramp(90)), 6)
        (0.1, 0.6, 1.0)
    """

    start: float = eqx.field(static=True, converter=float, default=0.1)
    end: float = eqx.field(static=True, converter=float, default=1.0)
    until: float = eqx.field(static=True, converter=float, default=0.45)
    num_steps: int | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        if not 0 < self.until <= 1:
            raise ValueError(f"until must be a share of the run in (0, 1]; got {self.until}.")

    def bind(self, num_steps: int) -> "Ramp":
        return Ramp(self.start, self.end, self.until, num_steps)

    def __call__(self, step: Array | int) -> Array:
        weight = jnp.clip(self.fraction(step) / self.until, 0.0, 1.0)
        return self.start + (self.end - self.start) * weight


def as_schedule(value: "int | float | Schedule", name: str) -> Schedule:
    """A schedule from a number or a schedule."""
    if isinstance(value, Schedule):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return Constant(float(value))
    raise TypeError(f"{name} must be a number or a sivi.schedules.Schedule; got {describe(value)}.")
