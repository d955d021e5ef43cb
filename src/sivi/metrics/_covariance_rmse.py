"""Root mean square error of a covariance matrix."""

import numpy as np

from .._types import ArrayLike
from ._draws import check_draws, check_same_dim


def covariance_rmse(draws: ArrayLike, reference: ArrayLike) -> float:
    """The root mean square difference of two covariance matrices, over all dim² entries.

        RMSE = ( (1/d²) Σ_ij (C_ij − R_ij)² )^(1/2),

    with C the sample covariance of the draws and R the reference's. Entries off the diagonal count twice, as in the
    tables of the SIVI-SM paper. For equal distributions it is not zero but of order 1/√n: for n draws of each from
    N(0, I), its mean square is 2 (1 + 1/d)/(n − 1), and half of that if R is exact.

    Args:
        draws: (n, dim).
        reference: Draws (m, dim) or a covariance: an array of shape (dim, dim) is always taken for the latter.

    Returns:
        The error, in the squared unit of the draws.

    Example:
        >>> float(covariance_rmse([[0.0, 0.0], [2.0, 0.0]], [[1.0, 0.5], [0.5, 0.0]]))  # C is [[2, 0], [0, 0]]
        0.6123724356957945

    Reference:
        Yu and Zhang, Semi-implicit variational inference via score matching (ICLR 2023), section 4.2.
    """
    x, expected = check_draws("draws", draws), check_draws("reference", reference, minimum=1)
    dim = x.shape[1]
    check_same_dim(draws=dim, reference=expected.shape[1])
    if expected.shape != (dim, dim):
        expected = _covariance(check_draws("reference", expected))
    elif not np.allclose(expected, expected.T):
        raise ValueError(f"reference has shape {expected.shape}, so it must be a covariance; it is not symmetric.")
    return float(np.sqrt(np.mean((_covariance(x) - expected) ** 2)))


def _covariance(draws: np.ndarray) -> np.ndarray:
    return np.atleast_2d(np.cov(draws, rowvar=False))
