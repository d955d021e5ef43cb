"""Kullback-Leibler divergence between two sets of draws, by nearest neighbours."""

import numpy as np
from scipy.spatial import KDTree

from .._errors import check_count
from .._types import ArrayLike


def knn_kl(draws_p: ArrayLike, draws_q: ArrayLike, k: int = 3) -> float:
    """KL(p ‖ q) from draws of each, by the ratio of k-th nearest-neighbour distances.

        KL ≈ (d/n) Σ_i log(ν_k(i) / ρ_k(i)) + log(m / (n − 1)),

    where ρ_k(i) is the distance from the i-th draw of p to its k-th neighbour among the others of p, and ν_k(i)
    to its k-th neighbour among the m draws of q. The estimate is not clipped: for equal distributions it
    scatters around zero, about ±0.006 at 100,000 draws in two dimensions.

    Args:
        draws_p: (n, dim).
        draws_q: (m, dim).
        k: Which neighbour.

    Returns:
        The estimate, in nats.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> abs(knn_kl(rng.normal(size=(2000, 1)), rng.normal(1.0, 1.0, size=(2000, 1))) - 0.5) < 0.15
        True

    Reference:
        Wang, Kulkarni and Verdú, Divergence estimation for multidimensional densities via k-nearest-neighbor
        distances (IEEE Transactions on Information Theory, 2009).
    """
    k = check_count("k", k)
    p, q = _checked("draws_p", draws_p, k + 1), _checked("draws_q", draws_q, k)
    if p.shape[1] != q.shape[1]:
        raise ValueError(f"draws_p and draws_q must have the same dim; got {p.shape[1]} and {q.shape[1]}.")
    # The nearest neighbour of a point among its own set is itself, hence k + 1.
    within = KDTree(p).query(p, k=[k + 1])[0][:, 0]
    across = KDTree(q).query(p, k=[k])[0][:, 0]
    if not (within > 0).all() or not (across > 0).all():
        raise ValueError(f"the draws hold more than {k} copies of one point; the estimate needs distinct ones.")
    n, dim = p.shape
    return float(dim * np.mean(np.log(across) - np.log(within)) + np.log(len(q) / (n - 1)))


def _checked(name: str, draws: ArrayLike, minimum: int) -> np.ndarray:
    array = np.asarray(draws, dtype=float)
    if array.ndim != 2 or len(array) < minimum:
        raise ValueError(f"{name} must have shape (n, dim) with n at least {minimum}; got {array.shape}.")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite; {int((~np.isfinite(array)).any(1).sum())} rows are not.")
    return array
