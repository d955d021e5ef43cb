"""Strictly increasing vectors of positive numbers, such as the rates of the components of a mixture."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ._numerics import safe_exp
from ._ordered import climbed
from .base import Constraint, check_length, check_shape


class PositiveOrdered(Constraint):
    """x₁ = exp(y₁) and x_k = x_{k−1} + exp(y_k), with log |det ∂x/∂y| = Σ_k y_k.

    Back, y₁ = log x₁ and y_k = log (x_k − x_{k−1}). A gap is never smaller than one rounding step of the number below
    it, so x increases strictly in any type.

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
        return "positive and strictly increasing"

    def contains(self, x: Float[np.ndarray, "*batch n"]) -> Bool[np.ndarray, "*batch"] | np.bool_:
        increases = np.isfinite(x).all(-1) & (x[..., 1:] > x[..., :-1]).all(-1)
        return increases & (x[..., 0] >= np.finfo(x.dtype).tiny)

    def _forward(self, y: Float[Array, "*batch n"]) -> Float[Array, "*batch n"]:
        return climbed(safe_exp(y[..., 0]), y[..., 1:])

    def _inverse(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n"]:
        return jnp.log(jnp.concatenate([x[..., :1], jnp.diff(x, axis=-1)], axis=-1))

    def _log_det(self, y: Float[Array, "*batch n"]) -> Float[Array, "*batch n"]:
        return y


def positive_ordered(n: int, shape: tuple[int, ...] | list[int] | int = ()) -> PositiveOrdered:
    """Strictly increasing vectors of n positive numbers.

    Args:
        n: Their length, at least 2.
        shape: Leading axes: the array has shape (*shape, n).

    Example:
        >>> positive_ordered(3).forward(jnp.zeros(3)).tolist()
        [1.0, 2.0, 3.0]
    """
    return PositiveOrdered(n, shape)
