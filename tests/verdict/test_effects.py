"""Slope, extrapolation and error of `effects.estimate`, against closed forms of an AR(1) chain."""

import numpy as np
import pytest
from scipy import stats

from sivi.verdict.effects import bonferroni, estimate

RHO, LATE = 0.9, np.arange(8, 16)


def ar1(rng, num, mean=0.0, sd=1.0, columns=1):
    """Starts of N(mean, sd²), and means over late states of x' = ρ x + √(1 − ρ²) ε, whose law is N(0, 1)."""
    x = start = mean + sd * rng.normal(size=(num, columns))
    late = np.zeros_like(x)
    for step in range(1, 16):
        x = RHO * x + np.sqrt(1.0 - RHO**2) * rng.normal(size=x.shape)
        late += x / len(LATE) if step in LATE else 0.0
    return start, late


def closed_forms():
    """The slope, and the variance of the late mean given the start."""
    slope = np.mean(RHO**LATE)
    gaps = np.abs(LATE[:, None] - LATE[None, :])
    covariance = RHO**gaps - RHO ** (LATE[:, None] + LATE[None, :])
    return slope, covariance.mean()


def test_slope_and_extrapolation_of_a_shifted_start():
    rng = np.random.default_rng(0)
    start, late = ar1(rng, 100_000, mean=0.7, columns=3)
    effects = estimate(start, late, np.full(3, 0.7), np.inf)
    slope, _ = closed_forms()
    np.testing.assert_allclose(effects.slope, slope, atol=0.005)
    assert (np.abs(effects.effect + 0.7) < 4.0 * effects.error).all()  # 1 in 5,000 fails


def test_error_is_the_closed_form_and_the_spread_of_effects():
    rng = np.random.default_rng(1)
    slope, variance = closed_forms()
    num, size, columns = 1024, 10_000, 400
    start, late = ar1(rng, num, columns=columns)
    mean = rng.normal(size=columns) / np.sqrt(size)
    effects = estimate(start, late, mean, float(size), influence_guard=False)
    expected = np.sqrt(variance / num / (1.0 - slope) ** 2 + 1.0 / size)
    np.testing.assert_allclose(effects.error.mean(), expected, rtol=0.02)
    assert abs(effects.effect.std() / expected - 1.0) < 0.12  # 400 effects: its error is 3.5 %
    assert abs(effects.effect.mean()) < 4.0 * expected / np.sqrt(columns)


def test_the_starts_are_a_control_variate():
    """Chains that remember their starts, y = 0.9 f + √0.19 ε, have the noise of ε alone, over 1 − 0.9."""
    rng = np.random.default_rng(2)
    start, noise = rng.normal(size=(2, 1024, 200))
    slope = 0.85
    late = slope * start + np.sqrt(1.0 - slope**2) * noise
    effects = estimate(start, late, np.zeros(200), np.inf, influence_guard=False)
    expected = np.sqrt(1.0 - slope**2) / (1.0 - slope) / 32.0
    assert abs(effects.effect.std() / expected - 1.0) < 0.2
    assert late.mean(0).std() / (1.0 - slope) > 1.5 * expected


def test_reference_draws_may_contain_the_starts():
    rng = np.random.default_rng(3)
    columns, size = 400, 2048
    start, late = ar1(rng, 1024, columns=columns)
    mean = (start.sum(0) + rng.normal(size=(size - 1024, columns)).sum(0)) / size
    effects = estimate(start, late, mean, float(size), influence_guard=False)
    assert abs(effects.z.std() - 1.0) < 0.15
    assert stats.kstest(effects.p_values, "uniform").pvalue > 1e-3


def p_values(seed, influence_guard, statistic=lambda x: x):
    rng = np.random.default_rng(seed)
    start, late = ar1(rng, 512)
    mean = np.atleast_1d(statistic(rng.normal(size=10_000)).mean())
    return estimate(statistic(start), late, mean, 1e4, influence_guard=influence_guard).p_values[0]


def test_p_values_of_the_invariant_case():
    """200 seeds: uniform without the guard, and stochastically no smaller with it. Both fail 1 time in 1,000."""
    free = [p_values(seed, False) for seed in range(200)]
    guarded = [p_values(seed, True) for seed in range(200)]
    assert stats.kstest(free, "uniform").pvalue > 1e-3
    assert stats.kstest(guarded, "uniform", alternative="greater").pvalue > 1e-3
    assert (np.array(guarded) >= np.array(free) - 1e-12).all()


def test_p_values_of_a_rare_event():
    """The mean of a tail indicator is not normal; with the guard its p-values are no smaller than uniform."""
    rng = np.random.default_rng(4)
    level, found = 0.005, []
    for _ in range(200):
        start, late = np.zeros((512, 1)), np.zeros((512, 1))
        x = rng.normal(size=(512, 1))
        start = (x < stats.norm.ppf(level)).astype(float)
        for _ in range(8):
            x = 0.5 * x + np.sqrt(0.75) * rng.normal(size=x.shape)
            late = late + (x < stats.norm.ppf(level)) / 8
        mean = np.array([rng.binomial(10_000, level) / 10_000])
        found.append(estimate(start, late, mean, 1e4).p_values[0])
    assert stats.kstest(found, "uniform", alternative="greater").pvalue > 1e-3


def test_few_chains_alone_are_no_finding():
    rng = np.random.default_rng(5)
    start, late = ar1(rng, 1024)
    late[:4] += 60.0  # four chains that went far
    free = estimate(start, late, np.zeros(1), np.inf, influence_guard=False)
    guarded = estimate(start, late, np.zeros(1), np.inf)
    assert guarded.error[0] > 0.99 * free.error[0]
    assert abs(guarded.z[0]) < bonferroni(100)


def test_a_constant_statistic_has_no_effect():
    effects = estimate(np.ones((64, 1)), np.ones((64, 1)), np.ones(1), 1e4)
    assert (effects.effect[0], effects.z[0], effects.slope[0]) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("num", [1, 20, 5000])
def test_bonferroni_bound(num):
    rate = 2.0 * stats.norm.sf(bonferroni(num, alpha=0.01))
    np.testing.assert_allclose(num * rate, 0.01, rtol=1e-6)
