"""Arithmetic that stays off the edges of a type, where a user's log or division would give NaN."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


@jax.custom_jvp
def clipped(
    x: Float[Array, "*shape"], low: Array | np.ndarray | float, high: Array | np.ndarray | float
) -> Float[Array, "*shape"]:
    """x kept between two numbers, with the derivative of x itself.

    At an edge the value then stays legal, and a gradient still says which way leads back; that of `jnp.clip` is zero.
    """
    return jnp.clip(x, low, high)


clipped.defjvps(lambda dx, ans, x, low, high: dx, None, None)


def limit(dtype: np.dtype | type) -> float:
    """The largest |y| of which exp is taken as it is: 80 in float32, 700 in float64.

    exp overflows at 88.7 and 709.8, and loses digits below −87.3 and −708.4; what is left is room for sums.
    """
    return 700.0 if jnp.finfo(dtype).bits == 64 else 80.0


def safe_exp(y: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """exp(y), never zero or infinite: y is clipped at `limit`, and the derivative is always the value itself."""
    edge = limit(y.dtype)
    return jnp.exp(clipped(y, -edge, edge))


def next_inside(bound: Any, towards: float, dtype: np.dtype | type) -> float | np.ndarray:
    """The numbers next to bounds that are strictly inside and, if a bound is zero, not subnormal.

    Args:
        bound: A number, or an array of them in any form.
        towards: inf for lower bounds, −inf for upper ones.
        dtype: The type that the numbers are next to each other in.
    """
    dtype = np.dtype(dtype)
    inner = np.nextafter(np.asarray(bound, dtype), dtype.type(towards))
    tiny = np.finfo(dtype).tiny
    # JAX takes subnormal numbers for zero.
    inner = np.where(np.abs(inner) < tiny, np.copysign(tiny, dtype.type(towards)), inner)
    return inner if inner.ndim else float(inner)
