"""The warm-up with a full covariance: its fixed point, its rate, and what it does where the target is difficult."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oracles import gaussian_target, linear_gaussian_model
from sivi._random import BalancedNoise
from sivi.coordinates import DenseMap
from sivi.targets import GaussianMixture, LogDensity, ScoreFunction
from sivi.warmup import gaussian_warmup
from sivi.warmup.dense import moments, update


@eqx.filter_jit
def warm(key, target, num_starts=4, **settings):
    return gaussian_warmup(key, target, num_starts=num_starts, **settings)


def covariance(affine):
    return np.asarray(affine.matrix @ affine.matrix.T)


def residuals(target, mean, root, u):
    return jax.vmap(lambda v: root.T @ target.score(mean + root @ v) + v)(u)


def test_the_gaussian_itself_is_a_fixed_point_without_noise(x64):
    target = gaussian_target()
    mean, root = target.means[0], target.cholesky[0]
    u = BalancedNoise(jax.random.key(0), 3, 3).draw(jax.random.key(1))
    r = residuals(target, mean, root, u)
    np.testing.assert_allclose(r, 0.0, atol=1e-13)
    new_mean, new_root = update(mean, root, *moments(r, u), jnp.asarray(0.3), jnp.asarray(0.3))
    np.testing.assert_allclose(new_mean, mean, atol=1e-13)
    np.testing.assert_allclose(new_root, root, atol=1e-13)


@pytest.mark.parametrize("dim", [3, 70])
def test_one_step_is_the_natural_gradient_of_kl(x64, dim):
    """m ← m + ρ Σ E[S] and Σ⁻¹ ← (1 − ρ) Σ⁻¹ + ρ P to first order in ρ: exact expectations, from a whole block."""
    rng = np.random.default_rng(0)
    half = 0.2 * rng.normal(size=(dim, dim)) / np.sqrt(dim) + np.eye(dim)
    target = GaussianMixture([rng.normal(size=dim)], [half @ half.T])
    mean, root = (
        jnp.asarray(rng.normal(size=dim)),
        jnp.asarray(np.eye(dim) + 0.2 * rng.normal(size=(dim, dim)) / np.sqrt(dim)),
    )
    # A whole block of length √dim: the mean of u uᵀ is I.
    block = np.sqrt(dim) * jnp.eye(dim)
    u = jnp.concatenate([block, -block])
    rho = 1e-5
    found = moments(residuals(target, mean, root, u), u)
    new_mean, new_root = update(mean, root, *found, jnp.asarray(rho), jnp.asarray(rho))
    precision = np.linalg.inv(half @ half.T)
    sigma = root @ root.T
    np.testing.assert_allclose((new_mean - mean) / rho, sigma @ precision @ (target.means[0] - mean), rtol=1e-6)
    change = (np.linalg.inv(new_root @ new_root.T) - np.linalg.inv(sigma)) / rho
    expected = precision - np.linalg.inv(sigma)
    np.testing.assert_allclose(change, expected, atol=1e-3 * np.abs(expected).max())


def ill_conditioned(dim, condition, distance):
    """A mean `distance` standard deviations away from 0, and a covariance with that condition number."""
    rng = np.random.default_rng(3)
    frame = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    root = frame * np.sqrt(np.geomspace(condition**-0.5, condition**0.5, dim))
    direction = rng.normal(size=dim)
    return GaussianMixture([distance * root @ direction / np.linalg.norm(direction)], [root @ root.T])


@pytest.mark.parametrize(("dim", "condition"), [(50, 1e3), (50, 1e6), (80, 1e3)])
def test_ill_conditioned_gaussians_are_recovered(dim, condition):
    target = ill_conditioned(dim, condition, 20.0)
    affine = warm(jax.random.key(0), target)
    assert isinstance(affine, DenseMap)
    # In the target's own coordinates the map is the identity: in every direction, not only along the axes.
    whitened = np.asarray(target.whitener[0], float)
    np.testing.assert_allclose(whitened @ (affine.mean - target.means[0]), 0.0, atol=2e-3)
    singular = np.linalg.svd(whitened @ np.asarray(affine.matrix, float))[1]
    np.testing.assert_allclose(singular, 1.0, atol=2e-3)


def test_separated_modes_are_both_covered():
    """Equal modes at ±6 in the first coordinate: the pooled moments are those of the target, however often each was
    found."""
    target = GaussianMixture([[-6.0, 1.0], [6.0, 1.0]], [np.diag([1.0, 0.25])] * 2)
    for key in range(3):
        affine = warm(jax.random.key(key), target, 16)  # P[no start finds one of them] = 3e-5
        np.testing.assert_allclose(affine.mean, [0.0, 1.0], atol=0.02)
        np.testing.assert_allclose(covariance(affine), np.diag([37.0, 0.25]), atol=0.02)
        np.testing.assert_allclose(affine.inverse_matrix @ affine.matrix, np.eye(2), atol=1e-5)
        np.testing.assert_allclose(affine.log_det, np.linalg.slogdet(affine.matrix)[1], atol=1e-5)


def test_modes_weigh_what_they_hold():
    """Weights 9 : 1, each mode found by some of the starts: mean and variance of the mixture itself."""
    target = GaussianMixture([[-6.0], [6.0]], [[[1.0]]] * 2, [9.0, 1.0])
    for key in range(3):
        affine = warm(jax.random.key(key), target, 16)
        np.testing.assert_allclose(affine.mean, [-6.0 + 12.0 * 0.1], atol=0.01)
        np.testing.assert_allclose(covariance(affine), [[1.0 + 144.0 * 0.09]], rtol=0.01)


def test_a_score_alone_weighs_the_starts_equally():
    mixture = GaussianMixture([[-6.0], [6.0]], [[[1.0]]] * 2, [9.0, 1.0])
    affine = warm(jax.random.key(0), ScoreFunction(mixture.score, dim=1), 16)
    share = 16 * (float(affine.mean[0]) + 6.0) / 12.0
    assert 1 <= round(share) <= 15
    np.testing.assert_allclose(share, round(share), atol=0.02)


def test_minibatches():
    """A conjugate model with 40 rows a step of 400: one pass of the last half averages the noise of the rows away."""
    model = linear_gaussian_model(400)
    mean, exact = model.posterior()
    sd = np.sqrt(np.diag(exact))
    affine = warm(jax.random.key(0), model, batch_size=40)
    # A single batch would be off by √10 standard deviations.
    np.testing.assert_allclose((affine.mean - mean) / sd, 0.0, atol=0.1)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance(affine))) / sd, 1.0, atol=0.03)
    whole = warm(jax.random.key(0), model)
    np.testing.assert_allclose((whole.mean - mean) / sd, 0.0, atol=1e-3)


def test_a_region_without_a_score_is_left():
    """log p = a log x − x for x > 0, NaN elsewhere: about half of all starts, and of the first draws, are there."""
    target = LogDensity(lambda x: 30.0 * jnp.log(x[0]) - x[0] - 0.5 * (x[1] - 3.0) ** 2, dim=2)
    affine = warm(jax.random.key(1), target, 8)
    # Gamma(31, 1) has mode 30, mean 31 and sd 5.6.
    assert 29.0 < float(affine.mean[0]) < 32.0
    np.testing.assert_allclose(np.sqrt(np.diag(covariance(affine))), [5.5, 1.0], rtol=0.05)


def test_starts_that_all_fail_leave_the_identity():
    target = LogDensity(lambda x: jnp.nan * jnp.sum(x), dim=2)
    affine = warm(jax.random.key(0), target)
    np.testing.assert_array_equal(affine.matrix, np.eye(2))
    np.testing.assert_array_equal(affine.inverse_matrix, np.eye(2))
    assert float(affine.log_det) == 0.0
    assert float(jnp.abs(affine.mean).max()) < 10.0


def test_a_raw_key():
    target = gaussian_target()
    raw, typed = (warm(key, target, 2, num_steps=5) for key in (jax.random.PRNGKey(3), jax.random.key(3)))
    np.testing.assert_array_equal(raw.matrix, typed.matrix)


def test_vmap_over_keys_is_each_key_by_itself():
    target = gaussian_target()
    keys = jax.random.split(jax.random.key(0), 2)
    together = eqx.filter_jit(jax.vmap(lambda k: gaussian_warmup(k, target, num_starts=2, num_steps=40)))(keys)
    alone = [warm(k, target, 2, num_steps=40) for k in keys]
    np.testing.assert_allclose(together.matrix, jnp.stack([a.matrix for a in alone]), atol=1e-4)
    assert float(jnp.abs(together.mean[0] - together.mean[1]).max()) > 0.0


def test_bad_input(as_a_user):
    key, target = jax.random.key(0), gaussian_target()
    with pytest.raises(ValueError, match="num_starts must be at least 1; got 0"):
        gaussian_warmup(key, target, num_starts=0)
    with pytest.raises(ValueError, match="num_steps must be at least 1"):
        gaussian_warmup(key, target, num_starts=1, num_steps=0)
    with pytest.raises(ValueError, match="rank must be below the target's dim, 3; got 3"):
        gaussian_warmup(key, target, num_starts=1, rank=3)
    with pytest.raises(ValueError, match="batch_size needs a target with data"):
        gaussian_warmup(key, target, num_starts=1, batch_size=4)
