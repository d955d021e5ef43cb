"""Averages over pairs of draws, in blocks, so that memory does not grow with their number."""

from collections.abc import Callable

import numpy as np
from scipy.spatial.distance import pdist

from .._arguments import check_positive

_BLOCK = 256  # rows of each set at once: matrices of this size stay in the cache
_MEDIAN_DRAWS = 1000  # draws that the median distance is taken over

#: From rows a (n, columns) and b (m, columns) to a matrix (n, m); f(a, b) = f(b, a)ᵀ.
PairFunction = Callable[[np.ndarray, np.ndarray], np.ndarray]


def mean_over_pairs(function: PairFunction, first: np.ndarray, second: np.ndarray | None = None) -> float:
    """The mean of a symmetric function over all pairs of rows of two sets, or over the pairs i ≠ j of one.

    Leaving out i = j makes it a U-statistic: unbiased for the expectation over two independent draws.
    """
    if second is not None:
        total = sum(float(function(a, b).sum()) for a in _blocks(first) for b in _blocks(second))
        return total / (len(first) * len(second))
    blocks, total = _blocks(first), 0.0
    for i, a in enumerate(blocks):
        same = function(a, a)
        total += float(same.sum() - same.trace())
        total += sum(2.0 * float(function(a, b).sum()) for b in blocks[i + 1 :])
    return total / (len(first) * (len(first) - 1))


def squared_distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """‖a_i − b_j‖² as one matrix product; centre the rows first, or digits cancel."""
    squares = -2.0 * (a @ b.T)
    squares += (a**2).sum(1)[:, None]
    squares += (b**2).sum(1)
    return np.maximum(squares, 0.0, out=squares)


def as_bandwidth(bandwidth: float | int | None, draws: np.ndarray) -> float:
    """`bandwidth`, or the median distance between (at most 1,000, evenly spaced) draws."""
    if bandwidth is not None:
        return check_positive("bandwidth", bandwidth)
    rows = np.linspace(0, len(draws) - 1, min(len(draws), _MEDIAN_DRAWS)).astype(int)
    median = float(np.median(pdist(draws[rows])))
    if median == 0:
        raise ValueError("bandwidth must be given: the median distance between the draws is 0.")
    return median


def _blocks(rows: np.ndarray) -> list[np.ndarray]:
    return [rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK)]
