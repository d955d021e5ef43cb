"""The Gaussian kernel."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._fields import optional_positive_field, positive_field
from .base import DEFAULT_FACTOR, RadialKernel


class GaussianKernel(RadialKernel):
    """k(x, y) = exp(−‖x − y‖² / (2h²)).

    Args:
        bandwidth: h; when left out, `factor` times the median distance between two of the first 100 particles.
        factor: See `bandwidth`.
    """

    bandwidth: float | None = optional_positive_field("bandwidth")
    factor: float = positive_field("factor", DEFAULT_FACTOR)

    def profile(self, ratio: Float[Array, "n n"]) -> Float[Array, "n n"]:
        return jnp.exp(-0.5 * ratio)
