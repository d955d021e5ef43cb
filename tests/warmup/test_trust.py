"""How far a start may go, the weights of starts, and what it makes of draws that are not finite."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sivi.targets import LogDensity
from sivi.warmup.dense import even_and_odd, moments
from sivi.warmup.mixture_moments import DenseGaussians, DiagonalGaussians, start_weights
from sivi.warmup.status import Evidence, pooled_code
from sivi.warmup.trust import DECAY, GROWTH, MAX_RESIDUAL, SHRINK, Trust, unit


def step_from(trust, old, new, share=1.0, limited=True):
    return trust.advanced(old, new, jnp.asarray(share), jnp.asarray(limited))


def test_reach_grows_along_a_straight_way_and_falls_back_at_a_turn():
    root = jnp.eye(2)
    at = [jnp.array(p) for p in ([0.0, 0.0], [1.0, 0.0], [3.0, 0.1], [2.0, 0.1])]
    trust, reaches = Trust.at(at[0], root), []
    for old, new in zip(at[:-1], at[1:], strict=True):
        mean, _, trust = step_from(trust, (old, root), (new, root))
        np.testing.assert_array_equal(mean, new)
        reaches.append(float(trust.reach))
    assert reaches == [1.0, GROWTH, max(1.0, GROWTH / DECAY)]


def test_only_a_step_that_is_clipped_and_not_too_wide_is_limited():
    trust = Trust.at(jnp.zeros(4), jnp.eye(4))
    long, short = jnp.array([40.0, 0.0, 0.0, 0.0]), jnp.array([10.0, 0.0, 0.0, 0.0])
    assert MAX_RESIDUAL == 20.0
    found = [bool(trust.is_limited(d, jnp.asarray(g))) for d, g in ((long, 0.0), (short, 0.0), (long, -10.0))]
    assert found == [True, False, False]


def test_a_step_to_where_scores_end_is_taken_back():
    first, second, third = (jnp.full(2, v) for v in (0.0, 1.0, 2.0))
    root = jnp.eye(2)
    mean, _, trust = step_from(Trust.at(first, root), (first, root), (second, root))
    mean, narrower, trust = step_from(trust, (mean, 2.0 * root), (third, root), share=0.1)
    np.testing.assert_array_equal(mean, first)
    np.testing.assert_array_equal(narrower, SHRINK * root)
    # Once more, from a still narrower place; and on as soon as scores are finite again.
    mean, narrower, trust = step_from(trust, (mean, narrower), (third, root), share=0.1)
    np.testing.assert_array_equal(narrower, SHRINK**2 * root)
    mean, _, _ = step_from(trust, (mean, narrower), (second, root), share=0.9)
    np.testing.assert_array_equal(mean, second)


def test_a_direction_of_numbers_whose_squares_overflow():
    np.testing.assert_allclose(unit(jnp.array([3e30, -4e30])), [0.6, -0.8], rtol=1e-6)
    np.testing.assert_array_equal(unit(jnp.zeros(2)), np.zeros(2))


def test_draws_that_are_not_finite_are_left_out(x64):
    """The moments are means over the finite draws."""
    rng = np.random.default_rng(0)
    half = rng.normal(size=(6, 3))
    u, residuals = np.concatenate([half, -half]), rng.normal(size=(12, 3))
    bad = [1, 4, 9]
    good = np.setdiff1d(np.arange(12), bad)
    residuals[bad] = [[np.nan, 0.0, 0.0], [np.inf, 1.0, 1.0], [0.0, 0.0, -np.inf]]
    drift, gap = moments(jnp.asarray(residuals), jnp.asarray(u))
    expected = residuals[good].T @ u[good] / len(good)
    np.testing.assert_allclose(drift, residuals[good].mean(0), rtol=1e-12)
    np.testing.assert_allclose(gap, 0.5 * (expected + expected.T), rtol=1e-12)


def test_residuals_near_the_largest_number_are_clipped_not_lost():
    even, odd = even_and_odd(jnp.array([[3e38, -3e38], [3e38, 1e38]]), 2.0)
    np.testing.assert_allclose(jnp.linalg.norm(even), 2.0 * MAX_RESIDUAL * np.sqrt(2.0), rtol=1e-5)
    np.testing.assert_allclose(jnp.linalg.norm(odd), 2.0 * MAX_RESIDUAL * np.sqrt(2.0), rtol=1e-5)


@pytest.mark.parametrize("size", [1.0, 1e8, 1e30, 1e36])
@pytest.mark.parametrize("kind", [DenseGaussians, DiagonalGaussians])
def test_a_start_with_a_far_lower_log_density_never_wins(size, kind):
    """log p = −size ‖x‖², starts at distances 1 to 4: whatever their order, all weight to the nearest where they
    differ by much; and never more weight for a lower log density."""
    target = LogDensity(lambda x: -size * jnp.sum(x**2), dim=2)
    half = jax.random.normal(jax.random.key(0), (128, 2))
    u = jnp.concatenate([half, -half])
    for order in ([1.0, 2.0, 3.0, 4.0], [3.0, 1.0, 4.0, 2.0], [4.0, 3.0, 2.0, 1.0]):
        means = jnp.stack([jnp.array([d, 0.0]) for d in order])
        ones = jnp.full((4, 2), 1e-3)
        roots = jax.vmap(jnp.diag)(ones) if kind is DenseGaussians else ones
        weights, log_mass = start_weights(u, target, kind(means, roots))
        assert bool(jnp.isfinite(log_mass))
        np.testing.assert_allclose(jnp.sum(weights), 1.0, rtol=1e-5)
        nearest_first = np.asarray(weights)[np.argsort(order)]
        assert (np.diff(nearest_first) <= 0).all()
        np.testing.assert_allclose(nearest_first[0], 1.0, atol=0.06 if size == 1.0 else 1e-6)


def test_evidence_is_the_mean_of_the_last_quarter():
    evidence = Evidence.none(jnp.eye(2))
    for t in range(8):
        evidence = evidence.add(jnp.full(2, float(t)), jnp.full((2, 2), 2.0 * t), jnp.asarray(t), 8)
    np.testing.assert_allclose(evidence.drift, 6.5)
    np.testing.assert_allclose(evidence.gap, 13.0)


def test_the_status_of_a_mixture_is_the_worst_that_counts():
    codes, yes = jnp.array([0, 2, 1]), jnp.asarray(True)
    assert int(pooled_code(codes, jnp.array([1.0, 0.0, 0.0]), yes)) == 0
    assert int(pooled_code(codes, jnp.array([0.9, 0.0, 0.1]), yes)) == 1
    assert int(pooled_code(codes, jnp.array([0.5, 0.5, 0.0]), yes)) == 2
    assert int(pooled_code(codes, jnp.zeros(3), jnp.asarray(False))) == 3
