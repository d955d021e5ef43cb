import numpy as np
from scipy.spatial.distance import cdist, pdist

from oracles import bonferroni
from sivi.metrics import mmd

MEANS = np.array([0.3, -0.5]), np.array([-0.2, 0.4])
ROOTS = np.array([[1.0, 0.0], [0.4, 0.8]]), np.array([[0.6, 0.0], [-0.3, 1.2]])
BANDWIDTH = 0.9


def expected_kernel(i, j):
    """E k(x, y) for x ~ N(μ_i, Σ_i) and y ~ N(μ_j, Σ_j), independent: a Gaussian integral."""
    covariance = ROOTS[i] @ ROOTS[i].T + ROOTS[j] @ ROOTS[j].T
    offset = MEANS[i] - MEANS[j]
    exponent = offset @ np.linalg.solve(covariance + BANDWIDTH**2 * np.eye(2), offset)
    return np.exp(-0.5 * exponent) / np.sqrt(np.linalg.det(np.eye(2) + covariance / BANDWIDTH**2))


def draws(rng, i, num):
    return MEANS[i] + rng.normal(size=(num, 2)) @ ROOTS[i].T


def test_unbiased_for_the_closed_form_between_gaussians():
    """False-failure rate 1e-4: a z-score over 500 repeats."""
    rng = np.random.default_rng(0)
    exact = expected_kernel(0, 0) + expected_kernel(1, 1) - 2 * expected_kernel(0, 1)
    values = np.array([mmd(draws(rng, 0, 40), draws(rng, 1, 25), bandwidth=BANDWIDTH) for _ in range(500)])
    assert exact > 0.1
    assert abs(values.mean() - exact) / (values.std() / np.sqrt(500)) < bonferroni(1)


def test_close_to_the_closed_form_with_many_draws():
    rng = np.random.default_rng(1)
    exact = expected_kernel(0, 0) + expected_kernel(1, 1) - 2 * expected_kernel(0, 1)
    value = mmd(draws(rng, 0, 4000), draws(rng, 1, 3000), bandwidth=BANDWIDTH)
    np.testing.assert_allclose(value, exact, atol=0.02)


def test_around_zero_and_not_clipped_for_equal_distributions():
    rng = np.random.default_rng(2)
    values = np.array([mmd(draws(rng, 0, 40), draws(rng, 0, 30), bandwidth=BANDWIDTH) for _ in range(400)])
    assert (values < 0).mean() > 0.3
    assert abs(values.mean()) / (values.std() / np.sqrt(400)) < bonferroni(1)


def test_the_sum_written_out_and_the_median_bandwidth():
    rng = np.random.default_rng(3)
    p, q = draws(rng, 0, 6), draws(rng, 1, 9)
    h = np.median(pdist(np.concatenate([p, q])))

    def kernel(a, b):
        return np.exp(-(cdist(a, b) ** 2) / (2 * h**2))

    within = [(kernel(a, a).sum() - len(a)) / (len(a) * (len(a) - 1)) for a in (p, q)]
    np.testing.assert_allclose(mmd(p, q), sum(within) - 2 * kernel(p, q).mean(), rtol=1e-12)


def test_median_bandwidth_of_a_share_of_many_draws_is_close_to_that_of_all():
    rng = np.random.default_rng(4)
    p, q = rng.normal(size=(1500, 1)), rng.normal(5.0, 1.0, size=(2500, 1))
    value = mmd(p, q)
    np.testing.assert_allclose(value, mmd(p, q, bandwidth=np.median(pdist(np.concatenate([p, q])))), rtol=0.05)
    assert abs(value - mmd(p, q, bandwidth=np.median(pdist(p)))) > 0.2  # that of one set alone would differ
