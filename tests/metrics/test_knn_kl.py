import numpy as np
import pytest

from sivi.metrics import knn_kl


def gaussian_kl(mean, covariance):
    """KL(N(0, I) ‖ N(mean, covariance))."""
    inverse = np.linalg.inv(covariance)
    return 0.5 * (np.trace(inverse) + mean @ inverse @ mean - len(mean) + np.linalg.slogdet(covariance)[1])


@pytest.mark.parametrize("k", [1, 3, 5])
def test_known_value_with_unequal_sizes(k):
    rng = np.random.default_rng(0)
    mean, covariance = np.array([0.7, -0.3]), np.array([[1.5, 0.4], [0.4, 0.8]])
    p = rng.normal(size=(20_000, 2))
    q = rng.multivariate_normal(mean, covariance, size=30_000)
    np.testing.assert_allclose(knn_kl(p, q, k), gaussian_kl(mean, covariance), atol=0.03)


def test_is_not_symmetric():
    rng = np.random.default_rng(1)
    narrow, wide = rng.normal(size=(10_000, 1)), 3.0 * rng.normal(size=(10_000, 1))
    exact = gaussian_kl(np.zeros(1), np.array([[9.0]]))
    np.testing.assert_allclose(knn_kl(narrow, wide), exact, atol=0.05)
    assert knn_kl(wide, narrow) > 1.5 * exact


def test_equal_distributions_scatter_around_zero_and_are_not_clipped():
    rng = np.random.default_rng(2)
    values = np.array([knn_kl(rng.normal(size=(2000, 2)), rng.normal(size=(2000, 2))) for _ in range(40)])
    assert (values < 0).any()
    assert (values > 0).any()
    assert abs(values.mean()) < 4 * values.std() / np.sqrt(40)


@pytest.mark.parametrize(
    ("p", "q", "message"),
    [
        (np.zeros(5), np.zeros((5, 1)), r"draws_p must have shape \(n, dim\)"),
        (np.ones((5, 2)), np.ones((5, 1)), "same dim"),
        (np.full((9, 1), np.nan), np.zeros((9, 1)), "draws_p must be finite; 9 rows are not"),
        (np.zeros((9, 1)), np.zeros((9, 1)), "more than 3 copies of one point"),
        (np.zeros((3, 1)), np.zeros((9, 1)), "n at least 4"),
    ],
)
def test_wrong_input(p, q, message):
    with pytest.raises(ValueError, match=message):
        knn_kl(p, q, k=3)
