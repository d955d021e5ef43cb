"""Kullback-Leibler divergence between two sets of draws, by nearest neighbours."""

import numpy as np
from scipy.spatial import KDTree

from .._arguments import check_count
from .._types import ArrayLike
from ._draws import check_draws, check_same_dim


def knn_kl(draws_p: ArrayLike, draws_q: ArrayLike, k: int = 3) -> float:
    """KL(p ‖ q) from draws of each, by the ratio of k-th nearest-neighbour distances.

        KL ≈ (d/n) Σ_i log(ν_k(i) / ρ_k(i)) + log(m / (n − 1)),

    where ρ_k(i) is the distance from the i-th draw of p to its k-th neighbour among the others of p, and ν_k(i)
    to its k-th neighbour among the m draws of q. The estimate is not clipped: for equal distributions it
    scatters around zero in proportion to 1/√n (with k = 3 in two dimensions, ±0.033 at 1,000 draws of each and a tenth
    of that at 100,000). A larger k has less noise and, where the densities vary fast, more bias.

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
    p, q = check_draws("draws_p", draws_p, k + 1), check_draws("draws_q", draws_q, k)
    check_same_dim(draws_p=p.shape[1], draws_q=q.shape[1])
    # The nearest neighbour of a point among its own set is itself, hence k + 1.
    within = KDTree(p).query(p, k=[k + 1])[0][:, 0]
    across = KDTree(q).query(p, k=[k])[0][:, 0]
    if not (within > 0).all() or not (across > 0).all():
        raise ValueError(f"the draws hold more than {k} copies of one point; the estimate needs distinct ones.")
    n, dim = p.shape
    return float(dim * np.mean(np.log(across) - np.log(within)) + np.log(len(q) / (n - 1)))
