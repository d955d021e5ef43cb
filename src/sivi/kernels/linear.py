"""The linear kernel."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from .base import Kernel


class LinearKernel(Kernel):
    """k(x, y) = 1 + xᵀy, whose functions are the affine ones.

    It compares first and second moments alone: between a Gaussian and draws it sees nothing else. With it, the
    particles of `sivi.samplers.svgd` that have come to rest on a Gaussian have exactly its mean and covariance, if
    there are more of them than unknowns.

    Reference:
        Liu and Wang, Stein variational gradient descent as moment matching (NeurIPS 2018).
    """

    def gram(self, x: Float[Array, "n dim"]) -> Float[Array, "n n"]:
        return 1.0 + jnp.matmul(x, x.T, precision="highest")

    def gram_and_gradient_sums(self, x: Float[Array, "n dim"]) -> tuple[Float[Array, "n n"], Float[Array, "n dim"]]:
        """As for every kernel: Σ_j ∇_{x_j} k(x_j, x_i) = n x_i."""
        return self.gram(x), len(x) * x
