"""Targets on which the warm-up once failed in silence: what it finds now, or says of itself."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from sivi.targets import LogDensity, ScoreFunction
from sivi.warmup.attempts import START_SCALES, START_SDS
from sivi.warmup.gaussian import warmup_with_status
from sivi.warmup.status import STATUS


@eqx.filter_jit
def warm(keys, target, num_starts=16, **settings):
    """Maps and codes for several keys."""
    return jax.lax.map(lambda key: warmup_with_status(key, target, num_starts=num_starts, **settings), keys)


def words(codes):
    return [STATUS[code] for code in np.asarray(codes)]


def sds(affines):
    return np.sqrt(np.sum(np.asarray(affines.matrix) ** 2, axis=-1))


def counts_of_a_cubic_trend():
    """40 counts, and the powers 0 to 3 of the standardised year."""
    year = np.arange(1.0, 41.0)
    counts = np.random.default_rng(1).poisson(np.exp(3.5576 - 0.0912 * year + 0.0091 * year**2 - 0.00014 * year**3))
    return np.vander((year - year.mean()) / year.std(), 4, increasing=True), counts.astype(float)


def test_poisson_regression_with_bounded_unknowns():
    """Posterior sds of .003 to .009 in free numbers, rates up to e⁹⁰ under N(0, I), and constraints that saturate."""
    powers, counts = counts_of_a_cubic_trend()
    x, y = jnp.asarray(powers, jnp.float32), jnp.asarray(counts, jnp.float32)

    def log_density(p):
        rate = p["a"] + x[:, 1:] @ p["b"]
        return jnp.sum(y * rate - jnp.exp(rate))

    target = LogDensity(log_density, like={"a": sivi.interval(-20.0, 20.0), "b": sivi.interval(-10.0, 10.0, (3,))})
    affines, codes, _ = warm(jax.random.split(jax.random.key(0), 4), target)
    # Oracle: the maximum of the likelihood by Newton's steps, and the sds there, in free numbers.
    best = np.array([np.log(counts.mean()), 0.0, 0.0, 0.0])
    for _ in range(20):
        rates = np.exp(powers @ best)
        information = powers.T @ (rates[:, None] * powers)
        best = best + np.linalg.solve(information, powers.T @ (counts - rates))
    half_width = np.array([20.0, 10.0, 10.0, 10.0])
    free = 2.0 * np.arctanh(best / half_width)
    sd = np.sqrt(np.diag(np.linalg.inv(information))) * 2.0 * half_width / (half_width**2 - best**2)
    np.testing.assert_allclose((np.asarray(affines.mean) - free) / sd, 0.0, atol=0.3)
    np.testing.assert_allclose(sds(affines) / sd, 1.0, atol=0.1)
    assert words(codes) == ["settled"] * 4


def gaussian_process(jitter=1e-5):
    """Poisson counts with a Gaussian process as log rate: in float32 the Cholesky fails at long length scales."""
    x, counts = np.arange(-10.0, 11.0, 2.0), np.array([40, 37, 29, 12, 4, 3, 9, 19, 77, 82, 33])
    squares = jnp.asarray((x[:, None] - x) ** 2)

    def log_density(p):
        kernel = p["alpha"] ** 2 * jnp.exp(-0.5 * squares / p["rho"] ** 2) + jitter * jnp.eye(11)
        f = jnp.linalg.cholesky(kernel) @ p["f"]
        prior = 24.0 * jnp.log(p["rho"]) - 4.0 * p["rho"] - p["alpha"] ** 2 / 8.0 - 0.5 * p["f"] @ p["f"]
        return prior + jnp.sum(counts * f - jnp.exp(f))

    return LogDensity(log_density, like={"f": jnp.zeros(11), "rho": sivi.positive(), "alpha": sivi.positive()})


def test_gaussian_process_whose_cholesky_fails_at_some_draws():
    keys = jax.random.split(jax.random.key(0), 1)
    affines, codes, _ = warm(keys, gaussian_process(), 4)
    with jax.enable_x64(True):
        exact = jax.device_get(warm(keys, gaussian_process(), 4)[0])
    np.testing.assert_allclose((np.asarray(affines.mean) - exact.mean) / sds(exact), 0.0, atol=0.3)
    np.testing.assert_allclose(sds(affines) / sds(exact), 1.0, atol=0.2)
    assert words(codes) == ["settled"]


@pytest.mark.parametrize(("mean", "sd", "dim"), [(1e4, 1.0, 2), (-1e5, 10.0, 3), (3e3, 0.3, 10)])
def test_a_mean_ten_thousand_sds_away(mean, sd, dim):
    target = LogDensity(lambda x: -0.5 * jnp.sum(((x - mean) / sd) ** 2), dim=dim)
    affines, codes, _ = warm(jax.random.split(jax.random.key(0), 2), target, 4)
    np.testing.assert_allclose((np.asarray(affines.mean) - mean) / sd, 0.0, atol=0.01)
    np.testing.assert_allclose(sds(affines) / sd, 1.0, atol=0.01)
    assert words(codes) == ["settled"] * 2


@pytest.mark.parametrize("knows_log_prob", [True, False])
def test_a_second_attempt_starts_nearer_to_zero(knows_log_prob):
    """Finite only within a cube that no start of the first attempt hits: P[one does] = 4 · 8 · .38⁶ = .1."""
    target = LogDensity(lambda x: jnp.where(jnp.max(jnp.abs(x)) < 1.0, -0.5 * jnp.sum((x / 0.1) ** 2), jnp.nan), dim=6)
    inside = jax.vmap(lambda x: jnp.max(jnp.abs(x)) < 1.0)
    key = jax.random.key(0)
    tries = START_SDS[0] * jax.random.normal(jax.random.split(key, 4)[0], (4, 8, 6))
    assert not bool(inside(tries.reshape(-1, 6)).any())
    if not knows_log_prob:
        target = ScoreFunction(lambda x: jnp.where(jnp.max(jnp.abs(x)) < 1.0, -100.0 * x, jnp.nan), dim=6)
    affines, codes, _ = warm(key[None], target, 4)
    np.testing.assert_allclose(affines.mean, 0.0, atol=0.02)
    np.testing.assert_allclose(sds(affines), 0.1, rtol=0.05)
    assert words(codes) == ["settled"]


@pytest.mark.parametrize("rank", [None, pytest.param(1, marks=pytest.mark.slow)])
def test_a_map_that_failed_says_so(rank):
    def word(log_density, num_steps=300):
        target = LogDensity(log_density, dim=3)
        return words(warm(jax.random.key(0)[None], target, 2, num_steps=num_steps, rank=rank)[1])[0]

    assert word(lambda x: -0.5 * jnp.sum(x**2)) == "settled"
    assert word(lambda x: -0.5 * jnp.sum((x - 1e6) ** 2), 8) == "not settled"
    assert word(lambda x: -0.5 * (x[0] ** 2 + x[2] ** 2)) == "ran away"  # an unknown that is not used
    assert word(lambda x: jnp.nan * jnp.sum(x)) == "never moved"
    assert len(START_SDS) == len(START_SCALES) == 2
