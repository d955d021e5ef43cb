"""Numbers on one side of a bound: x = b ± exp(y)."""

from functools import partial

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ._bounds import Bound, BoundLike, as_numbers, check_bound, check_fits, common_shape, in_type, shown
from ._numerics import clipped, next_inside, safe_exp
from .base import NumberConstraint, check_shape


class HalfLine(NumberConstraint):
    """x = bound + sign · exp(y), with log |dx/dy| = y.

    The exponential rather than softplus: log |dx/dy| is y itself, scales multiply, so that a posterior over orders of
    magnitude becomes one of ordinary width, and it is what Stan does.

    In float32 the map is exact for |y| up to 80 (x from 2·10⁻³⁵ to 5·10³⁴ for a bound of zero); in float64 up to 700.
    Beyond, x stays at the edge. Next to a bound b ≠ 0, x is at least one rounding step away from it.

    Args:
        bound: The bound, which is not itself allowed; or an array of them that broadcasts to `batch_shape`.
        sign: 1 for numbers above it, −1 for numbers below.
        batch_shape: Shape of the array.
    """

    bound: Bound = eqx.field(static=True, converter=partial(check_bound, "bound"))
    sign: int = eqx.field(static=True, default=1)
    batch_shape: tuple[int, ...] = eqx.field(static=True, converter=check_shape, default=())

    def __check_init__(self) -> None:
        if self.sign not in (1, -1):
            raise ValueError(f"sign must be 1 or -1; got {self.sign}.")
        check_fits(self.batch_shape, bound=self.bound)

    @property
    def rule(self) -> str:
        if self.bound == 0.0:
            return "positive" if self.sign == 1 else "negative"
        return f"{'above' if self.sign == 1 else 'below'} {shown(self.bound)}"

    def contains(self, x: Float[np.ndarray, "*shape"]) -> Bool[np.ndarray, "*shape"] | np.bool_:
        inner = next_inside(self.bound, self.sign * np.inf, x.dtype)
        return np.isfinite(x) & (self.sign * x >= self.sign * inner)

    def _forward(self, y: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        inner, far = next_inside(self.bound, self.sign * np.inf, y.dtype), float(jnp.finfo(y.dtype).max)
        low, high = (inner, far) if self.sign == 1 else (-far, inner)
        return clipped(in_type(self.bound, y.dtype) + self.sign * safe_exp(y), low, high)

    def _inverse(self, x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return jnp.log(self.sign * (x - in_type(self.bound, x.dtype)))

    def _log_det(self, y: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return y


def positive(shape: tuple[int, ...] | list[int] | int = ()) -> HalfLine:
    """Positive numbers, x = exp(y); `lower(low)` for another bound than zero.

    Args:
        shape: Shape of the array; a single number when left out.

    Example:
        >>> positive(2).forward(jnp.zeros(2)).tolist()
        [1.0, 1.0]
    """
    return HalfLine(0.0, 1, shape)


def lower(low: BoundLike, shape: tuple[int, ...] | list[int] | int = ()) -> HalfLine:
    """Numbers above a lower bound, x = low + exp(y).

    Args:
        low: The bound, which is not itself allowed; or an array, with one bound per entry.
        shape: Shape of the array; that of the bound when left out.

    Example:
        >>> lower(2.0).forward(jnp.zeros(1)).item()
        3.0
        >>> lower([2.0, -1.0]).forward(jnp.zeros(2)).tolist()
        [3.0, 0.0]
    """
    return _half_line("low", low, 1, shape)


def upper(high: BoundLike, shape: tuple[int, ...] | list[int] | int = ()) -> HalfLine:
    """Numbers below an upper bound, x = high − exp(y).

    Args:
        high: The bound, which is not itself allowed; or an array, with one bound per entry.
        shape: Shape of the array; that of the bound when left out.

    Example:
        >>> upper(2.0).forward(jnp.zeros(1)).item()
        1.0
    """
    return _half_line("high", high, -1, shape)


def _half_line(name: str, bound: object, sign: int, shape: object) -> HalfLine:
    check_bound(name, bound)
    return HalfLine(bound, sign, common_shape(check_shape(shape), **{name: as_numbers(name, bound)}))
