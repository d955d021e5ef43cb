"""The Riesz kernel."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from .base import Kernel


class RieszKernel(Kernel):
    """k(x, y) = ‖x‖₁ + ‖y‖₁ − ‖x − y‖₁, without a bandwidth.

    The negative distance alone is positive definite only on functions that integrate to zero; the first two terms
    correct this. It is a sum over single coordinates, so it misses pure interactions. Its gradient needs n² · dim
    numbers.
    """

    def gram(self, x: Float[Array, "n dim"]) -> Float[Array, "n n"]:
        size = jnp.sum(jnp.abs(x), axis=-1)
        return size[:, None] + size - jnp.sum(jnp.abs(x[:, None] - x), axis=-1)

    def gram_and_gradient_sums(self, x: Float[Array, "n dim"]) -> tuple[Float[Array, "n n"], Float[Array, "n dim"]]:
        """As for every kernel: Σ_j ∇_{x_j} k(x_j, x_i) = Σ_j sign(x_j) + sign(x_i − x_j), with sign(0) = 0."""
        return self.gram(x), jnp.sum(jnp.sign(x), axis=0) + jnp.sum(jnp.sign(x[:, None] - x), axis=1)
