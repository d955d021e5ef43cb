"""The identity: the coordinates of a fit without whitening."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._arguments import check_count, default_float
from .._types import Scalar
from .base import AffineMap


class IdentityMap(AffineMap):
    """x = u.

    Example:
        >>> IdentityMap(2).forward(jnp.ones(2)).tolist()
        [1.0, 1.0]
    """

    size: int = eqx.field(static=True)

    def __init__(self, dim: int):
        self.size = check_count("dim", dim)

    @property
    def mean(self) -> Float[Array, " dim"]:
        return jnp.zeros(self.size, default_float())

    @property
    def log_det(self) -> Scalar:
        return jnp.zeros((), default_float())

    def forward(self, u: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return u

    def inverse(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return x

    def pull_back(self, score: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return score

    @property
    def covariance_diagonal(self) -> Float[Array, " dim"]:
        return jnp.ones(self.size, default_float())
