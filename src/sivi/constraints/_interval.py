"""Numbers between two bounds: x = a + (b − a) / (1 + exp(−y))."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ._bounds import Bound, check_bound, check_fits, check_order, in_type, shown
from ._numerics import clipped, limit, next_inside
from .base import NumberConstraint, check_shape


class Interval(NumberConstraint):
    """x = low + (high − low) σ(y), with log |dx/dy| = log (high − low) + log σ(y) + log σ(−y).

    x never equals a bound: it stays at least one rounding step inside, which is where the map is flat beyond
    |y| ≈ 17 in float32, or, on the side of a bound of zero, beyond 80. The log determinant stays exact beyond that.

    Args:
        low: The lower bound, which is not itself allowed; or an array of them that broadcasts to `batch_shape`.
        high: The upper bound, likewise.
        batch_shape: Shape of the array.
    """

    low: Bound = eqx.field(static=True, converter=partial(check_bound, "low"))
    high: Bound = eqx.field(static=True, converter=partial(check_bound, "high"))
    batch_shape: tuple[int, ...] = eqx.field(static=True, converter=check_shape, default=())

    def __check_init__(self) -> None:
        check_fits(self.batch_shape, low=self.low, high=self.high)
        check_order(self.low, self.high)

    @property
    def rule(self) -> str:
        return f"between {shown(self.low)} and {shown(self.high)}, both excluded"

    def _inner(self, dtype: np.dtype) -> tuple[float | np.ndarray, float | np.ndarray]:
        """The outermost numbers that are allowed."""
        return next_inside(self.low, np.inf, dtype), next_inside(self.high, -np.inf, dtype)

    def _numbers(self, dtype: np.dtype) -> tuple[float | np.ndarray, float | np.ndarray, float | np.ndarray]:
        """low, high, and their distance."""
        width = np.subtract(self.high, self.low)
        return in_type(self.low, dtype), in_type(self.high, dtype), in_type(width, dtype)

    def contains(self, x: Float[np.ndarray, "*shape"]) -> Bool[np.ndarray, "*shape"] | np.bool_:
        inner_low, inner_high = self._inner(x.dtype)
        return (x >= inner_low) & (x <= inner_high)

    def _forward(self, y: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        edge, (low, high, width) = limit(y.dtype), self._numbers(y.dtype)
        # The smaller of σ(y) and σ(−y), from the bound that it is the distance to: nothing cancels in x or dx/dy.
        share = clipped(y, -edge, edge)
        below, above = low + width * jax.nn.sigmoid(share), high - width * jax.nn.sigmoid(-share)
        return clipped(jnp.where(y < 0, below, above), *self._inner(y.dtype))

    def _inverse(self, x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        low, high, _ = self._numbers(x.dtype)
        return jnp.log(x - low) - jnp.log(high - x)

    def _log_det(self, y: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        log_width = jnp.asarray(np.log(np.subtract(self.high, self.low)), y.dtype)
        return log_width + jax.nn.log_sigmoid(y) + jax.nn.log_sigmoid(-y)
