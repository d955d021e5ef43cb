"""Newton steps for the mean of the low-rank warm-up."""

import jax
import jax.numpy as jnp
import numpy as np

from sivi._batches import BatchWindows
from sivi.coordinates import LowRankMap
from sivi.targets import GaussianMixture, MultinomialRegression, ScoreFunction, Whitened
from sivi.warmup.newton_mean import conjugate_gradients, refine_mean


def diagonal_map(mean, scale, rank=2):
    dim = len(mean)
    return LowRankMap(jnp.asarray(mean), jnp.asarray(scale), jnp.eye(dim)[:, :rank], jnp.ones(rank))


def test_conjugate_gradients_solve_as_numpy_does():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(12, 12))
    matrix, right = root @ root.T + np.eye(12), rng.normal(size=12)
    with jax.enable_x64(True):
        found = conjugate_gradients(lambda v: jnp.asarray(matrix) @ v, jnp.asarray(right), 20)
    np.testing.assert_allclose(found, np.linalg.solve(matrix, right), rtol=1e-7)


def test_conjugate_gradients_stop_where_the_curvature_is_negative():
    """The first product is along the right side, (1, 1) / √2: curvature 3/2. The second would be along (1, −5)."""
    sizes, right = jnp.array([4.0, -1.0]), jnp.ones(2)
    once = conjugate_gradients(lambda v: sizes * v, right, 1)
    np.testing.assert_allclose(once, 2.0 / 3.0 * np.ones(2), rtol=1e-6)
    np.testing.assert_array_equal(conjugate_gradients(lambda v: sizes * v, right, 5), once)
    np.testing.assert_array_equal(conjugate_gradients(lambda v: -v, right, 5), np.zeros(2))
    np.testing.assert_array_equal(conjugate_gradients(lambda v: v, jnp.zeros(2), 5), np.zeros(2))


def test_the_mean_of_a_gaussian_is_found_whatever_the_scales():
    """In units of the scales, the curvature has condition number about 30."""
    rng = np.random.default_rng(1)
    dim = 40
    frame = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    sds = np.geomspace(0.5, 3.0, dim)
    covariance = (frame * sds**2) @ frame.T
    mean = rng.normal(size=dim)
    target = GaussianMixture([mean], [covariance])
    start = diagonal_map(jnp.zeros(dim), 1.0 / np.sqrt(np.diag(np.linalg.inv(covariance))))
    result = refine_mean(jax.random.key(0), target, start, None)
    whitened = (frame.T @ (np.asarray(result.mean) - mean)) / sds
    assert np.abs(whitened).max() < 0.02 < 0.3 < np.abs(frame.T @ mean / sds).max()
    np.testing.assert_array_equal(result.scale, start.scale)
    np.testing.assert_array_equal(result.directions, start.directions)


def test_with_minibatches_the_expected_score_is_zero_on_all_data():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(3000, 5)) * [1.0, 0.2, 3.0, 1.0, 0.5]
    model = MultinomialRegression(x, rng.integers(0, 3, size=3000))
    start = diagonal_map(0.05 * rng.normal(size=15), np.full(15, 0.05))
    result = refine_mean(jax.random.key(3), model, start, BatchWindows.for_run(jax.random.key(4), 3000, 100, 60))
    half = jax.random.normal(jax.random.key(5), (2000, 15))
    u = jnp.concatenate([half, -half])

    def expected_score(affine):
        return np.asarray(jnp.mean(jax.vmap(Whitened(model, affine).score)(u), axis=0))

    assert np.linalg.norm(expected_score(result)) < 0.1 < 2.0 < np.linalg.norm(expected_score(start))


def test_where_the_score_is_flat_steps_are_bounded():
    """Of S(x) = −tanh 20x, from two sds away the Newton step would lead five sds further on the other side."""
    target = ScoreFunction(lambda x: -jnp.tanh(20.0 * x), dim=200)
    start = diagonal_map(jnp.full(200, 0.6), jnp.full(200, 0.3))
    result = refine_mean(jax.random.key(0), target, start, None)
    mean = np.asarray(result.mean)
    assert np.abs(mean).max() < 0.65
    assert np.sqrt(np.mean(mean**2)) < 0.45


def test_one_coordinate_with_heavy_tails_does_not_fly_off():
    """Standard normal but for the first, a Cauchy: in its tail, too, the score is small."""
    target = ScoreFunction(lambda x: (-x).at[0].set(-2.0 * x[0] / (1.0 + x[0] ** 2)), dim=200)
    for mean, sd in [(1.2, 0.5), (0.8, 0.2)]:
        start = diagonal_map(jnp.zeros(200).at[0].set(mean), jnp.ones(200).at[0].set(sd))
        result = refine_mean(jax.random.key(0), target, start, None)
        assert -0.7 * mean < float(result.mean[0]) <= mean * (1 + 1e-5)


def test_a_step_to_where_scores_are_not_finite_is_halved():
    """The first step is of two sds, after which one draw in fifty would have no score."""
    target = ScoreFunction(lambda x: jnp.where(x[0] > 4.0, jnp.nan, (-x).at[0].set(1.0 - 0.05 * x[0])), dim=400)
    start = diagonal_map(jnp.zeros(400), jnp.ones(400))
    result = refine_mean(jax.random.key(0), target, start, None)
    assert 0.2 < float(result.mean[0]) < 2.0


def test_without_finite_scores_the_mean_stays():
    target = ScoreFunction(lambda x: x * jnp.nan, dim=3)
    start = diagonal_map(jnp.arange(3.0), jnp.ones(3))
    result = refine_mean(jax.random.key(0), target, start, None)
    np.testing.assert_array_equal(result.mean, start.mean)
