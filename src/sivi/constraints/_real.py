"""Any number."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .base import NumberConstraint, check_shape


class Real(NumberConstraint):
    """No constraint: x = y.

    Args:
        batch_shape: Shape of the array.
    """

    batch_shape: tuple[int, ...] = eqx.field(static=True, converter=check_shape, default=())

    @property
    def rule(self) -> str:
        return "finite"

    def contains(self, x: Float[np.ndarray, "*shape"]) -> Bool[np.ndarray, "*shape"] | np.bool_:
        return np.isfinite(x)

    def _forward(self, y: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return y

    def _inverse(self, x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return x

    def _log_det(self, y: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return jnp.zeros_like(y)


def real(shape: tuple[int, ...] | list[int] | int = ()) -> Real:
    """Numbers without a constraint: the same as an array of zeros in `like`.

    Args:
        shape: Shape of the array; a single number when left out.

    Example:
        >>> real((2, 3)).size
        6
    """
    return Real(shape)
