import numpy as np
import pytest

from sivi.metrics import covariance_rmse

DRAWS = np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 3.0]])  # covariance [[1, 0], [0, 3]]


def test_by_hand_over_all_entries():
    reference = np.array([[3.0, -1.0], [-1.0, 4.0]])  # differences 2, 1, 1 and 1
    np.testing.assert_allclose(covariance_rmse(DRAWS, reference), np.sqrt((4.0 + 1.0 + 1.0 + 1.0) / 4.0))
    np.testing.assert_allclose(covariance_rmse(DRAWS[:, :1], np.array([[3.0]])), 2.0)


def test_reference_draws_have_their_covariance():
    reference = np.random.default_rng(0).normal(size=(20, 2)) @ [[1.0, 0.3], [0.0, 2.0]]
    exact = covariance_rmse(DRAWS, np.cov(reference, rowvar=False))
    np.testing.assert_allclose(covariance_rmse(DRAWS, reference), exact, rtol=1e-12)
    np.testing.assert_allclose(covariance_rmse(reference, np.cov(reference, rowvar=False)), 0.0, atol=1e-14)


def test_documented_mean_square():
    """2 (1 + 1/d)/(n − 1) for n draws of each from N(0, I), and half of it for an exact reference."""
    rng, n, dim = np.random.default_rng(1), 50, 3
    exact = (1 + 1 / dim) / (n - 1)
    one = [covariance_rmse(rng.normal(size=(n, dim)), np.eye(dim)) ** 2 for _ in range(1000)]
    two = [covariance_rmse(rng.normal(size=(n, dim)), rng.normal(size=(n, dim))) ** 2 for _ in range(1000)]
    for values, truth in ((one, exact), (two, 2 * exact)):
        assert abs(np.mean(values) - truth) / (np.std(values) / np.sqrt(1000)) < 4.1  # false-failure rate 1e-4


def test_an_asymmetric_square_is_refused():
    with pytest.raises(ValueError, match=r"^reference has shape \(2, 2\), so it must be a covariance; it is not symm"):
        covariance_rmse(DRAWS, DRAWS[1:])
