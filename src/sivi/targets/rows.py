"""Rows of inputs and targets as a user gives them, checked, in double precision."""

import numpy as np
from jaxtyping import Float

from .._arguments import check_finite, check_numbers, describe


def as_inputs(
    name: str, values: object, features: int | None = None, *, rows: str = "num_data"
) -> Float[np.ndarray, "n features"]:
    """Rows of inputs; an error calls their number `rows`."""
    array = check_numbers(name, values)
    if array.ndim != 2 or features not in (None, array.shape[1]):
        raise ValueError(
            f"{name} must have shape ({rows}, {'features' if features is None else features}); got {describe(array)}."
        )
    if 0 in array.shape:
        raise ValueError(f"{name} must have at least one row and one column; got {describe(array)}.")
    return check_finite(name, array.astype(np.float64))


def as_targets(name: str, values: object, num_data: int) -> Float[np.ndarray, " n"]:
    """One number for each row of inputs."""
    array = check_numbers(name, values)
    if array.shape != (num_data,):
        raise ValueError(f"{name} must have shape ({num_data},), one number for each row; got {describe(array)}.")
    return check_finite(name, array.astype(np.float64))
