"""Numbers between two bounds: x = a + (b − a) / (1 + exp(−y))."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .._arguments import default_float
from ._half_line import HalfLine
from ._numerics import clipped, limit, next_inside
from .base import NumberConstraint, check_bound, check_shape


class Interval(NumberConstraint):
    """x = low + (high − low) σ(y), with log |dx/dy| = log (high − low) + log σ(y) + log σ(−y).

    x never equals a bound: it stays at least one rounding step inside, which is where the map is flat beyond
    |y| ≈ 17 in float32, or, on the side of a bound of zero, beyond 80. The log determinant stays exact beyond that.

    Args:
        low: The lower bound, which is not itself allowed.
        high: The upper bound, likewise.
        batch_shape: Shape of the array.
    """

    low: float = eqx.field(static=True, converter=partial(check_bound, "low"))
    high: float = eqx.field(static=True, converter=partial(check_bound, "high"))
    batch_shape: tuple[int, ...] = eqx.field(static=True, converter=check_shape, default=())

    def __check_init__(self) -> None:
        if self.low >= self.high:
            raise ValueError(f"low must be below high; got {self.low} and {self.high}.")
        inner_low, inner_high = self._inner(default_float())
        if inner_low >= inner_high or self.high - self.low > float(np.finfo(default_float()).max):
            raise ValueError(
                f"low and high must leave room for {default_float()} numbers between them, and their distance must be "
                f"one; got {self.low} and {self.high}."
            )

    @property
    def rule(self) -> str:
        return f"between {self.low} and {self.high}, both excluded"

    def _inner(self, dtype: np.dtype) -> tuple[float, float]:
        """The outermost numbers that are allowed."""
        return next_inside(self.low, np.inf, dtype), next_inside(self.high, -np.inf, dtype)

    def contains(self, x: Float[np.ndarray, "*shape"]) -> Bool[np.ndarray, "*shape"] | np.bool_:
        inner_low, inner_high = self._inner(x.dtype)
        return (x >= inner_low) & (x <= inner_high)

    def _forward(self, y: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        edge, width = limit(y.dtype), self.high - self.low
        # The smaller of σ(y) and σ(−y), from the bound that it is the distance to: nothing cancels in x or dx/dy.
        share = clipped(y, -edge, edge)
        below, above = self.low + width * jax.nn.sigmoid(share), self.high - width * jax.nn.sigmoid(-share)
        return clipped(jnp.where(y < 0, below, above), *self._inner(y.dtype))

    def _inverse(self, x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return jnp.log(x - self.low) - jnp.log(self.high - x)

    def _log_det(self, y: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return np.log(self.high - self.low) + jax.nn.log_sigmoid(y) + jax.nn.log_sigmoid(-y)


def interval(
    low: float | int | None, high: float | int | None, shape: tuple[int, ...] | list[int] | int = ()
) -> Interval | HalfLine:
    """Numbers between two bounds, or on one side of one.

    Args:
        low: Lower bound, which is not itself allowed; None for none.
        high: Upper bound, likewise.
        shape: Shape of the array; a single number when left out.

    Example:
        >>> interval(-1.0, 3.0).forward(jnp.zeros(1)).item()
        1.0
        >>> interval(2.0, None).forward(jnp.zeros(1)).item()
        3.0
    """
    low = None if _is(low, -np.inf) else low
    high = None if _is(high, np.inf) else high
    if low is None and high is None:
        raise ValueError("low or high must be a finite number, or use sivi.real(shape) for numbers without bounds.")
    if high is None:
        return HalfLine(check_bound("low", low), 1, shape)
    if low is None:
        return HalfLine(check_bound("high", high), -1, shape)
    return Interval(low, high, shape)


def _is(bound: object, infinity: float) -> bool:
    return isinstance(bound, (float, np.floating)) and float(bound) == infinity
