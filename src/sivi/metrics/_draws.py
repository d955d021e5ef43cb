"""The checks that every metric makes before it computes anything."""

from typing import Any

import numpy as np

from .._arguments import check_numbers
from .._types import ArrayLike


def check_draws(name: str, draws: ArrayLike, minimum: int = 2, dtype: Any = float) -> np.ndarray:
    """`draws` as an array (n, dim), of float64 by default, or an error that names argument, rule and value."""
    array = check_numbers(name, draws, "an array of numbers of shape (n, dim)").astype(dtype, copy=False)
    if array.ndim != 2 or len(array) < minimum or array.shape[1] < 1:
        raise ValueError(f"{name} must have shape (n, dim) with n at least {minimum}; got {array.shape}.")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite; {int((~np.isfinite(array)).any(1).sum())} rows are not.")
    return array


def check_pair(draws_p: ArrayLike, draws_q: ArrayLike, minimum: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """The two sets of a two-sample distance, which have the same dim."""
    p, q = check_draws("draws_p", draws_p, minimum), check_draws("draws_q", draws_q, minimum)
    check_same_dim(draws_p=p.shape[1], draws_q=q.shape[1])
    return p, q


def check_same_dim(**dims: int) -> None:
    """Refuse two arguments, given as name=dim, whose dims differ."""
    if len(set(dims.values())) > 1:
        raise ValueError(f"{' and '.join(dims)} must have the same dim; got {' and '.join(map(str, dims.values()))}.")
