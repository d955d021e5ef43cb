"""Bridge sampling against a mixture whose masses are known."""

import numpy as np
import pytest

from sivi.verdict import masses

MEANS = np.array([[-4.0, 0.0, 1.0], [4.0, 0.0, 0.0], [0.0, 9.0, 0.0]])
SCALES = np.array([[1.0, 1.0, 0.5], [0.5, 2.0, 1.0], [1.5, 0.7, 1.0]])
WEIGHTS = np.array([0.5, 0.3, 0.2])


def log_mixture(x):
    u = (x[:, None, :] - MEANS) / SCALES
    terms = np.log(WEIGHTS) - 0.5 * (u**2).sum(-1) - np.log(SCALES).sum(-1)
    return np.logaddexp.reduce(terms, axis=1)


def discriminants(x):
    u = (x[None] - MEANS[:, None]) / SCALES[:, None]
    return -0.5 * (u**2).sum(-1) - np.log(SCALES).sum(-1)[:, None]


def chains_of(rng, mode, num_chains, num_snapshots, correlation):
    """AR(1) chains of one component: each draw has exactly its distribution, and remembers the draw before it."""
    state = rng.standard_normal((num_chains, 3))
    draws = []
    for _ in range(num_snapshots):
        noise = rng.standard_normal(state.shape)
        state = correlation * state + np.sqrt(1.0 - correlation**2) * noise
        draws.append(MEANS[mode] + SCALES[mode] * state)
    return np.stack(draws, axis=1)


def estimate(seed, correlation):
    rng = np.random.default_rng(seed)
    rows, labels = [], []
    for mode in range(3):
        draws = chains_of(rng, mode, 64, 8, correlation)
        label = masses.regions(discriminants(draws.reshape(-1, 3))).reshape(64, 8)
        values = masses.inside_region(label, mode, log_mixture(draws.reshape(-1, 3)).reshape(64, 8))
        log_det = np.log(SCALES[mode]).sum()

        def density(u, mode=mode, log_det=log_det):
            x = MEANS[mode] + SCALES[mode] * u
            return masses.inside_region(masses.regions(discriminants(x)), mode, log_mixture(x) + log_det)

        u = (draws - MEANS[mode]) / SCALES[mode]
        rows.append(masses.bridge_log_masses(rng, u, values + log_det, density))
        labels.append(label)
    return masses.normalised(np.stack(rows), masses.crossing_shares(labels, 3))


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_two_errors_cover_the_masses_of_a_known_mixture(correlation):
    found = [estimate(seed, correlation) for seed in range(100)]
    covered = np.mean([np.abs(each.mass - WEIGHTS) <= 2.0 * each.error for each in found], axis=0)
    assert (covered >= 0.90).all()
    assert (covered <= 0.99).all()
    # The errors are small enough to be of use, and their mean has no bias that they hide.
    assert np.mean([each.error for each in found]) < 0.02
    bias = np.mean([each.mass for each in found], axis=0) - WEIGHTS
    assert (np.abs(bias) < 4.0 * np.mean([each.error for each in found], axis=0) / 10.0).all()


def test_the_bridge_of_two_gaussians_is_their_ratio():
    # p = 5 N(1, 2²) against g = N(0, 1): the standard error of log 5 is about .02 with 10,000 draws of each.
    rng = np.random.default_rng(0)
    draws, proposals = 1.0 + 2.0 * rng.standard_normal(10_000), rng.standard_normal(10_000)

    def log_ratio(x):
        return np.log(5.0 / 2.0) - 0.5 * ((x - 1.0) / 2.0) ** 2 + 0.5 * x**2

    assert abs(masses.bridge(log_ratio(draws), log_ratio(proposals)) - np.log(5.0)) < 0.08


def test_a_mode_without_draws_inside_its_region_is_not_weighed():
    rows = np.array([np.zeros(8), np.full(8, -np.inf)])
    found = masses.normalised(rows)
    assert found.mass.tolist() == [1.0, 0.0]
    assert found.error.tolist() == [0.0, 1.0]


def test_flows_that_do_not_balance_count_as_error():
    rows = np.log(np.array([np.full(8, 0.8), np.full(8, 0.2)]))
    # 10 % of mode 0 crosses and 40 % of mode 1: 0.8 × 0.1 = 0.2 × 0.4, as chains that keep p do.
    balanced = masses.normalised(rows, np.array([[0.9, 0.1], [0.4, 0.6]]))
    np.testing.assert_allclose(balanced.error, 0.0, atol=1e-12)
    tail = masses.normalised(rows, np.array([[0.9, 0.1], [0.0, 1.0]]))
    np.testing.assert_allclose(tail.error, 0.08)


def test_shares_of_draws():
    share, error = masses.shares(np.array([0, 0, 0, 2]), 3)
    assert share.tolist() == [0.75, 0.0, 0.25]
    assert (error > 0.1).all()


def test_chains_that_still_climb_make_a_mass_uncertain():
    rng = np.random.default_rng(0)
    values = rng.standard_normal((200, 16))
    assert masses.trend(values) < 0.02
    values[:, 8:] += 3.0
    values[:50, :4] = -np.inf
    assert abs(masses.trend(values) - 3.0) < 0.2
    rows = np.log(np.array([np.full(8, 0.75), np.full(8, 0.25)]))
    np.testing.assert_allclose(masses.normalised(rows, trends=np.array([0.0, 3.0])).error, 0.75 * 0.25 * 3.0)


def test_chains_of_one_origin_are_in_one_group():
    origin = np.arange(512) % 50
    group = masses._groups(np.random.default_rng(0), origin)
    assert all(len(set(group[origin == place])) == 1 for place in range(50))
    assert set(group) == set(range(masses.NUM_GROUPS))
    assert set(masses._groups(np.random.default_rng(0), np.zeros(64, int))) == set(range(masses.NUM_GROUPS))
