"""Maximum mean discrepancy between two sets of draws."""

import numpy as np

from .._types import ArrayLike
from ._draws import check_pair
from ._pairs import as_bandwidth, mean_over_pairs, squared_distances


def mmd(draws_p: ArrayLike, draws_q: ArrayLike, *, bandwidth: float | int | None = None) -> float:
    """The SQUARED maximum mean discrepancy with a Gaussian kernel; unbiased, so it may be negative.

        MMD² = E k(x, x') + E k(y, y') − 2 E k(x, y),    k(x, y) = exp(−‖x − y‖² / (2h²)),

    for independent x, x' ~ p and y, y' ~ q: zero if and only if p = q. Pairs of a draw with itself are left out (a
    U-statistic). For equal distributions the estimate scatters around zero in proportion to 1/n (±0.0006 at 1,000
    draws of each from N(0, I) in two dimensions), otherwise around MMD² in proportion to 1/√n. Time grows with the
    square of the number of draws, memory does not grow.

    Args:
        draws_p: (n, dim).
        draws_q: (m, dim).
        bandwidth: h; when left out, the median distance between the pooled draws (at most 1,000 of them, evenly
            spaced). Values with different bandwidths cannot be compared: to rank several fits, give one.

    Returns:
        The estimate of MMD².

    Example:
        >>> rng = np.random.default_rng(0)
        >>> p, q = rng.normal(size=(2000, 1)), rng.normal(1.0, 1.0, size=(2000, 1))
        >>> abs(mmd(p, q, bandwidth=1.0) - 0.1773) < 0.03  # exact: (2/√3) (1 − exp(−1/6))
        True

    Reference:
        Gretton, Borgwardt, Rasch, Schölkopf and Smola, A kernel two-sample test (JMLR, 2012), equation 3.
    """
    p, q = check_pair(draws_p, draws_q)
    pooled = np.concatenate([p, q])
    h = as_bandwidth(bandwidth, pooled)
    center = pooled.mean(0)
    p, q = (p - center) / h, (q - center) / h
    return mean_over_pairs(_kernel, p) + mean_over_pairs(_kernel, q) - 2.0 * mean_over_pairs(_kernel, p, q)


def _kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * squared_distances(a, b))
