"""A full matrix."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._arguments import default_float
from .._types import ArrayLike, Scalar
from .base import AffineMap, as_array, is_known


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
        mean: ArrayLike,
        matrix: ArrayLike,
        inverse_matrix: ArrayLike | None = None,
        log_det: ArrayLike | None = None,
    ):
        # Whoever knows the inverse need not have checked that all is finite: a fit that failed may not be.
        finite = inverse_matrix is None
        self.mean = as_array("mean", mean, None, finite=finite)
        dim = len(self.mean)
        self.matrix = as_array("matrix", matrix, dim, dim, finite=finite)
        if inverse_matrix is None:
            self.inverse_matrix = jnp.linalg.inv(self.matrix)
            if is_known(self.matrix):
                check_invertible("matrix", np.asarray(self.matrix))
        else:
            self.inverse_matrix = as_array("inverse_matrix", inverse_matrix, dim, dim, finite=False)
        if log_det is None:
            self.log_det = jnp.linalg.slogdet(self.matrix)[1]
        else:
            self.log_det = as_array("log_det", log_det, finite=False)

    def forward(self, u: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return self.mean + self.matrix @ u

    def inverse(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return self.inverse_matrix @ (x - self.mean)

    def pull_back(self, score: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return score @ self.matrix

    @property
    def covariance_diagonal(self) -> Float[Array, " dim"]:
        return jnp.sum(self.matrix**2, axis=-1)


def check_invertible(name: str, matrix: np.ndarray) -> None:
    """Refuse a matrix that cannot be inverted in the type that JAX computes in."""
    # The units of x do not matter: rows are brought to length one first.
    lengths, dtype = np.linalg.norm(matrix, axis=1, keepdims=True), default_float()
    condition = np.linalg.cond(matrix / lengths) if lengths.all() else np.inf
    if not condition < 1.0 / np.finfo(dtype).eps:
        raise ValueError(f"{name} must be invertible in {dtype}; got a matrix with condition number {condition:.1e}.")
