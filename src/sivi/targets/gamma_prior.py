"""The prior of a precision that is inferred with everything else."""

from typing import final

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Array, Float

from .._fields import positive_field
from .._types import Scalar


@final
class GammaPrior(eqx.Module):
    """A Gamma distribution, whose mean is shape/rate.

    Args:
        shape: a; what is known of the precision counts like 2a data.
        rate: b; these data have a sum of squares of 2b.

    Example:
        >>> round(float(GammaPrior(1.0, 2.0).log_density(jnp.array(0.5))), 4)  # log 2 − 1
        -0.3069
    """

    shape: float = positive_field("shape")
    rate: float = positive_field("rate")

    def log_density(self, precision: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """log p(precision)."""
        constant = self.shape * jnp.log(self.rate) - gammaln(self.shape)
        return constant + (self.shape - 1.0) * jnp.log(precision) - self.rate * precision

    def log_density_of_log(self, log_precision: Float[Array, "*shape"]) -> Scalar:
        """The log density of log precisions, all together."""
        return jnp.sum(self.log_density(jnp.exp(log_precision)) + log_precision)
