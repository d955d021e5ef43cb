"""Increasing vectors, such as the cut points of an ordinal regression."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ._numerics import clipped, safe_exp
from .base import Constraint, check_length, check_shape

_MOST_UNROLLED = 16  # steps of a loop that are compiled one after the other


class Ordered(Constraint):
    """x₁ = y₁ and x_k = x_{k−1} + exp(y_k), with log |det ∂x/∂y| = Σ_{k≥2} y_k.

    A gap is never smaller than one rounding step of the number below it, so x increases strictly in any type.

    Args:
        n: Length of a vector.
        batch_shape: Leading axes: how many vectors.
    """

    n: int = eqx.field(static=True, converter=check_length)
    batch_shape: tuple[int, ...] = eqx.field(static=True, converter=check_shape, default=())

    @property
    def event_shape(self) -> tuple[int, ...]:
        return (self.n,)

    @property
    def rule(self) -> str:
        return "strictly increasing"

    def contains(self, x: Float[np.ndarray, "*batch n"]) -> Bool[np.ndarray, "*batch"] | np.bool_:
        return np.isfinite(x).all(-1) & (x[..., 1:] > x[..., :-1]).all(-1)

    def _forward(self, y: Float[Array, "*batch n"]) -> Float[Array, "*batch n"]:
        return climbed(y[..., 0], y[..., 1:])

    def _inverse(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n"]:
        return jnp.concatenate([x[..., :1], jnp.log(jnp.diff(x, axis=-1))], axis=-1)

    def _log_det(self, y: Float[Array, "*batch n"]) -> Float[Array, "*batch gaps"]:
        return y[..., 1:]


def climbed(lowest: Float[Array, "*batch"], log_gaps: Float[Array, "*batch gaps"]) -> Float[Array, "*batch n"]:
    """Vectors from their lowest entry and the logarithms of the gaps between neighbours."""
    info = jnp.finfo(lowest.dtype)
    tiny, step = float(info.tiny), float(info.eps)

    # One after the other: a parallel cumulative sum rounds in another order and need not increase.
    def climb(x: Array, log_gap: Array) -> tuple[Array, Array]:
        x = x + clipped(safe_exp(log_gap), step * jnp.abs(x) + tiny, jnp.inf)
        return x, x

    unroll = min(log_gaps.shape[-1], _MOST_UNROLLED)
    _, others = jax.lax.scan(climb, lowest, jnp.moveaxis(log_gaps, -1, 0), unroll=unroll)
    return jnp.concatenate([lowest[..., None], jnp.moveaxis(others, 0, -1)], axis=-1)


def ordered(n: int, shape: tuple[int, ...] | list[int] | int = ()) -> Ordered:
    """Strictly increasing vectors of length n.

    Args:
        n: Their length, at least 2.
        shape: Leading axes: the array has shape (*shape, n).

    Example:
        >>> ordered(3).forward(jnp.zeros(3)).tolist()
        [0.0, 1.0, 2.0]
    """
    return Ordered(n, shape)
