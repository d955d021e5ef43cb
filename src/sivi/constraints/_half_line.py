"""Numbers on one side of a bound: x = b ± exp(y)."""

from functools import partial

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ._numerics import clipped, next_inside, safe_exp
from .base import NumberConstraint, check_bound, check_shape


class HalfLine(NumberConstraint):
    """x = bound + sign · exp(y), with log |dx/dy| = y.

    The exponential rather than softplus: log |dx/dy| is y itself, scales multiply, so that a posterior over orders of
    magnitude becomes one of ordinary width, and it is what Stan does.

    In float32 the map is exact for |y| up to 80 (x from 2·10⁻³⁵ to 5·10³⁴ for a bound of zero); in float64 up to 700.
    Beyond, x stays at the edge. Next to a bound b ≠ 0, x is at least one rounding step away from it.

    Args:
        bound: The bound, which is not itself allowed.
        sign: 1 for numbers above it, −1 for numbers below.
        batch_shape: Shape of the array.
    """

    bound: float = eqx.field(static=True, converter=partial(check_bound, "bound"))
    sign: int = eqx.field(static=True, default=1)
    batch_shape: tuple[int, ...] = eqx.field(static=True, converter=check_shape, default=())

    def __check_init__(self) -> None:
        if self.sign not in (1, -1):
            raise ValueError(f"sign must be 1 or -1; got {self.sign}.")

    @property
    def rule(self) -> str:
        if self.bound == 0.0:
            return "positive" if self.sign == 1 else "negative"
        return f"{'above' if self.sign == 1 else 'below'} {self.bound}"

    def contains(self, x: Float[np.ndarray, "*shape"]) -> Bool[np.ndarray, "*shape"] | np.bool_:
        inner = next_inside(self.bound, self.sign * np.inf, x.dtype)
        return np.isfinite(x) & (self.sign * x >= self.sign * inner)

    def _forward(self, y: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        inner, far = next_inside(self.bound, self.sign * np.inf, y.dtype), self.sign * float(jnp.finfo(y.dtype).max)
        return clipped(self.bound + self.sign * safe_exp(y), min(inner, far), max(inner, far))

    def _inverse(self, x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return jnp.log(self.sign * (x - self.bound))

    def _log_det(self, y: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return y


def positive(shape: tuple[int, ...] | list[int] | int = ()) -> HalfLine:
    """Positive numbers, x = exp(y); `interval(low, None)` for another bound than zero.

    Args:
        shape: Shape of the array; a single number when left out.

    Example:
        >>> positive(2).forward(jnp.zeros(2)).tolist()
        [1.0, 1.0]
    """
    return HalfLine(0.0, 1, shape)
