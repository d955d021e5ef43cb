"""Units in which columns of numbers have mean 0 and standard deviation 1."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True, eq=False)
class Scale:
    """A change of units: u = (x − mean) / sd, column by column.

    Attributes:
        mean: (features,), or () for outputs.
        sd: Likewise.
    """

    mean: Float[np.ndarray, "*columns"]
    sd: Float[np.ndarray, "*columns"]

    @classmethod
    def of(cls, values: Float[np.ndarray, "num_data *columns"], *, centre_constant: bool = False) -> "Scale":
        """The scale in which `values` have mean 0 and standard deviation 1.

        Args:
            values: One row for each datum.
            centre_constant: A constant column becomes zeros; otherwise it stays as it is, such as one of ones.
        """
        constant = values.min(0) == values.max(0)
        mean, sd = values.mean(0, dtype=np.float64), values.std(0, dtype=np.float64)
        of_constant = values[0] if centre_constant else 0.0
        return cls(np.where(constant, of_constant, mean), np.where(constant, 1.0, sd))

    def apply(self, values: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """`values` in the new units, in their own precision."""
        return ((values - self.mean) / self.sd).astype(values.dtype)

    def undo(self, values: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """What `apply` took, from what it gave."""
        return (values * self.sd + self.mean).astype(values.dtype)
