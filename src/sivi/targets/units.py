"""Between the units in which inputs and targets are given, and those in which a network sees them."""

from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num

from .._arguments import default_float, describe
from .._scale import Scale
from .._types import Scalar


@final
class Units(eqx.Module):
    """Means and standard deviations of the rows that a network was given, as arrays.

    Attributes:
        input_mean: (features,).
        input_sd: (features,).
        target_mean: 0 for labels.
        target_sd: 1 for labels.
    """

    input_mean: Float[Array, " features"]
    input_sd: Float[Array, " features"]
    target_mean: Scalar
    target_sd: Scalar

    @classmethod
    def of(cls, inputs: Scale, targets: Scale) -> "Units":
        """The units of two scales."""
        parts = (inputs.mean, inputs.sd, targets.mean, targets.sd)
        return cls(*(jnp.asarray(part, default_float()) for part in parts))

    def standardised(self, inputs: Any) -> Float[Array, "n features"]:
        """New inputs in units of the network."""
        array, features = jnp.asarray(inputs, default_float()), len(self.input_mean)
        if array.ndim != 2 or array.shape[1] != features:
            raise ValueError(f"inputs must have shape (n, {features}); got {describe(array)}.")
        return (array - self.input_mean) / self.input_sd

    def standardised_rows(
        self, inputs: Float[np.ndarray, "n features"], targets: Float[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, "n features"], Float[np.ndarray, " n"]]:
        """Rows on the host, in double precision."""
        mean, sd, target_mean, target_sd = (np.asarray(part, np.float64) for part in self._parts)
        return (inputs - mean) / sd, (targets - target_mean) / target_sd

    def raw(self, targets: Num[Array, " n"]) -> Num[Array, " n"]:
        """Targets of the network's units in those that were given; labels stay whole numbers."""
        is_label = jnp.issubdtype(targets.dtype, jnp.integer)
        return targets if is_label else targets * self.target_sd + self.target_mean

    @property
    def _parts(self) -> tuple[Array, ...]:
        return self.input_mean, self.input_sd, self.target_mean, self.target_sd
