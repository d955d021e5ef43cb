import arviz_stats.base
import numpy as np
import pytest

from sivi._pareto import k_hat


@pytest.mark.parametrize("shape", [0.2, 0.5, 0.7, 1.2])
@pytest.mark.parametrize("num", [100, 5000])
def test_is_that_of_arviz(shape, num):
    log_weights = -shape * np.log(np.random.default_rng(int(10 * shape)).uniform(size=num)) + 300.0
    theirs = arviz_stats.base.array_stats.psislw(-log_weights)[1]
    np.testing.assert_allclose(k_hat(log_weights), theirs, rtol=1e-6)


def test_of_a_pareto_distribution():
    """Its index, up to the noise of 3·√num excesses, for which sd(k̂) ≈ (1 + k)/√num_excesses."""
    log_weights = -0.6 * np.log(np.random.default_rng(1).uniform(size=100_000))
    assert abs(k_hat(log_weights) - 0.6) < 4 * 1.6 / np.sqrt(3 * np.sqrt(100_000))


def test_where_there_is_no_tail():
    assert k_hat(np.zeros(1000)) == -np.inf
    assert np.isnan(k_hat(np.zeros(10)))
    assert np.isnan(k_hat(np.full(1000, -np.inf)))


def test_weights_of_zero_count_as_draws():
    log_weights = -0.3 * np.log(np.random.default_rng(2).uniform(size=4000))
    padded = np.concatenate([log_weights, np.full(1000, -np.inf)])
    assert abs(k_hat(padded) - k_hat(log_weights)) < 0.1
