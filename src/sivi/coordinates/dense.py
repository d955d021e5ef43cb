"""A full matrix."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Scalar
from .base import AffineMap


class DenseMap(AffineMap):
    """x = m + L u with any invertible matrix L.

    Args:
        mean: m.
        matrix: L.
        inverse_matrix: L⁻¹; computed when left out.
        log_det: log |det L|; computed when left out.

    Example:
        >>> DenseMap(jnp.zeros(2), jnp.array([[1.0, 0.0], [1.0, 2.0]])).forward(jnp.ones(2)).tolist()
        [1.0, 3.0]
    """

    mean: Float[Array, " dim"]
    matrix: Float[Array, "dim dim"]
    # Stored, so that a loop that uses the map needs no factorisation.
    inverse_matrix: Float[Array, "dim dim"]
    log_det: Scalar

    def __init__(
        self,
        mean: Float[Array, " dim"],
        matrix: Float[Array, "dim dim"],
        inverse_matrix: Float[Array, "dim dim"] | None = None,
        log_det: Scalar | None = None,
    ):
        self.mean, self.matrix = mean, matrix
        self.inverse_matrix = jnp.linalg.inv(matrix) if inverse_matrix is None else inverse_matrix
        self.log_det = jnp.linalg.slogdet(matrix)[1] if log_det is None else log_det

    def forward(self, u: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return self.mean + self.matrix @ u

    def inverse(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return self.inverse_matrix @ (x - self.mean)

    def pull_back(self, score: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return score @ self.matrix

    @property
    def covariance_diagonal(self) -> Float[Array, " dim"]:
        return jnp.sum(self.matrix**2, axis=-1)
