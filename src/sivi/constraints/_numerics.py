"""Arithmetic that stays off the edges of a type, where a user's log or division would give NaN."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


@jax.custom_jvp
def clipped(x: Float[Array, "*shape"], low: Array | float, high: Array | float) -> Float[Array, "*shape"]:
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


def next_inside(bound: float, towards: float, dtype: np.dtype | type) -> float:
    """The number next to a bound that is strictly inside and, if the bound is zero, not subnormal."""
    dtype = np.dtype(dtype)
    inner = np.nextafter(dtype.type(bound), dtype.type(towards))
    tiny = np.finfo(dtype).tiny
    # JAX takes subnormal numbers for zero.
    return float(np.copysign(tiny, towards - bound) if abs(inner) < tiny else inner)
