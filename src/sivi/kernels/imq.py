"""The inverse multiquadric kernel."""

from jaxtyping import Array, Float

from .._fields import optional_positive_field, positive_field
from .base import DEFAULT_FACTOR, RadialKernel


class IMQKernel(RadialKernel):
    """The inverse multiquadric k(x, y) = (1 + ‖x − y‖² / h²)^(−1/2), with heavier tails than the Gaussian.

    Args:
        bandwidth: h; when left out, `factor` times the median distance between two of the first 100 particles.
        factor: See `bandwidth`.
    """

    bandwidth: float | None = optional_positive_field("bandwidth")
    factor: float = positive_field("factor", DEFAULT_FACTOR)

    def profile(self, ratio: Float[Array, "n n"]) -> Float[Array, "n n"]:
        return (1.0 + ratio) ** -0.5
