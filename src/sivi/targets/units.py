"""Between the units in which inputs and targets are given, and those in which a network sees them."""

from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Num

from .._arguments import default_float, describe
from .._scale import Scale
from .._types import Scalar
from .rows import as_inputs


@final
class Units(eqx.Module):
    """Means and standard deviations of the rows that a network was given, as arrays.

    Attributes:
        input_mean: (features,).
        input_mean_rest: What single precision leaves of it: dates in seconds differ by less.
        input_sd: (features,); infinite for a column that was constant, which is zero wherever it moves to.
        target_mean: 0 for labels.
        target_sd: 1 for labels.
    """

    input_mean: Float[Array, " features"]
    input_mean_rest: Float[Array, " features"]
    input_sd: Float[Array, " features"]
    target_mean: Scalar
    target_sd: Scalar

    @classmethod
    def of(cls, inputs: Scale, targets: Scale, is_constant: Bool[np.ndarray, " features"]) -> "Units":
        """The units of two scales, and which columns of inputs were constant."""
        mean = np.asarray(inputs.mean, np.float64).astype(default_float())
        sd = np.where(is_constant, np.inf, inputs.sd)
        parts = (mean, inputs.mean - mean, sd, targets.mean, targets.sd)
        return cls(*(jnp.asarray(part, default_float()) for part in parts))

    def standardised(self, inputs: Any) -> Float[Array, "n features"]:
        """New inputs in units of the network; in double precision, and checked, if JAX is not tracing them."""
        if not isinstance(inputs, Tracer):
            rows = as_inputs("inputs", inputs, len(self.input_mean), rows="n")
            return jnp.asarray(self._in_units(rows), default_float())
        features = len(self.input_mean)
        if inputs.ndim != 2 or inputs.shape[1] != features:
            raise ValueError(f"inputs must have shape (n, {features}); got {describe(inputs)}.")
        return (inputs - self.input_mean - self.input_mean_rest) / self.input_sd

    def _in_units(self, inputs: Float[np.ndarray, "n features"]) -> Float[np.ndarray, "n features"]:
        mean, rest, sd = (
            np.asarray(part, np.float64) for part in (self.input_mean, self.input_mean_rest, self.input_sd)
        )
        return (inputs - (mean + rest)) / sd

    def standardised_rows(
        self, inputs: Float[np.ndarray, "n features"], targets: Float[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, "n features"], Float[np.ndarray, " n"]]:
        """Rows on the host, in double precision."""
        mean, sd = np.asarray(self.target_mean, np.float64), np.asarray(self.target_sd, np.float64)
        return self._in_units(inputs), (targets - mean) / sd

    def raw(self, targets: Num[Array, " n"]) -> Num[Array, " n"]:
        """Targets of the network's units in those that were given; labels stay whole numbers."""
        is_label = jnp.issubdtype(targets.dtype, jnp.integer)
        return targets if is_label else targets * self.target_sd + self.target_mean
