"""A scale for every coordinate."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._arguments import describe
from .._types import ArrayLike, Scalar
from .base import AffineMap, as_array, is_known


class DiagonalMap(AffineMap):
    """x = m + s ⊙ u.

    Args:
        mean: m.
        scale: s, without zeros.

    Example:
        >>> DiagonalMap(jnp.array([1.0, 0.0]), jnp.array([2.0, 3.0])).forward(jnp.ones(2)).tolist()
        [3.0, 3.0]
    """

    mean: Float[Array, " dim"]
    scale: Float[Array, " dim"]

    def __init__(self, mean: ArrayLike, scale: ArrayLike):
        self.mean = as_array("mean", mean, None)
        self.scale = as_array("scale", scale, len(self.mean))
        if is_known(self.scale) and not np.asarray(self.scale).all():  # JAX may be tracing around known values
            raise ValueError(f"scale must have no zeros; got {describe(scale)}.")

    @property
    def log_det(self) -> Scalar:
        return jnp.sum(jnp.log(jnp.abs(self.scale)))

    def forward(self, u: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return self.mean + self.scale * u

    def inverse(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return (x - self.mean) / self.scale

    def pull_back(self, score: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return self.scale * score

    @property
    def covariance_diagonal(self) -> Float[Array, " dim"]:
        return self.scale**2
