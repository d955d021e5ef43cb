"""The inverse of a triangular matrix."""

import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from ._backend import inverts_by_halves, matmul_highest


def inverse_of_lower(root: Float[Array, "k k"]) -> Float[Array, "k k"]:
    """The inverse of a lower triangular matrix, such as a Cholesky root."""
    size = len(root)
    if not inverts_by_halves(size):
        return solve_triangular(root, jnp.eye(size, dtype=root.dtype), lower=True)
    half = size // 2
    first, second = inverse_of_lower(root[:half, :half]), inverse_of_lower(root[half:, half:])
    corner = -matmul_highest(second, matmul_highest(root[half:, :half], first))
    return jnp.block([[first, jnp.zeros((half, size - half), root.dtype)], [corner, second]])
