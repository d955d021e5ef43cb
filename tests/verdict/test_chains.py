"""The one program of the chains: exact evaluation, invariance, temperature, scores alone, one compilation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sivi import _programs
from sivi.coordinates import DenseMap
from sivi.targets import ScoreFunction
from sivi.targets.functional import as_target
from sivi.verdict.chains import advance, evaluate
from sivi.verdict.tuning import tune

SD = np.array([0.5, 2.0])
AFFINE = DenseMap(jnp.array([0.5, -1.0]), jnp.diag(jnp.asarray(SD, jnp.float32)))


def density():
    return as_target(lambda x: -0.5 * jnp.sum(((x - jnp.array([0.5, -1.0])) / jnp.array([0.5, 2.0])) ** 2), dim=2)


def starts(num, seed=0):
    return (np.array([0.5, -1.0]) + SD * np.random.default_rng(seed).normal(size=(num, 2))).astype(np.float32)


def test_evaluation_is_exact_and_moves_nothing():
    target, x = density(), starts(700)
    found = evaluate(target, x, AFFINE)
    np.testing.assert_array_equal(found.positions, x)
    np.testing.assert_allclose(found.log_prob, jax.vmap(target.log_prob)(x), rtol=1e-5)
    np.testing.assert_allclose(found.grad, jax.vmap(target.score)(x), rtol=1e-4, atol=1e-6)
    assert found.num_gradients == 700
    assert found.snapshots.shape == (0, 700, 2)


@pytest.mark.parametrize("scored", [False, True], ids=["density", "score alone"])
def test_draws_of_the_target_stay_draws_of_it(scored):
    target = ScoreFunction(density().score, dim=2) if scored else density()
    moved = advance(
        jax.random.key(1), target, starts(4096), AFFINE, step_size=1.2, num_transitions=32, max_leapfrog=3, fine_every=3
    )
    z = (moved.positions - np.array([0.5, -1.0])) / SD
    assert (np.abs(z.mean(0)) < 4.0 / np.sqrt(4096)).all()
    assert (np.abs(z.std(0) - 1.0) < 4.0 / np.sqrt(2 * 4096)).all()
    assert moved.snapshots.shape == (16, 4096, 2)
    np.testing.assert_array_equal(moved.snapshots[-1], moved.positions)
    assert 0.5 < moved.acceptance.mean() < 0.99


def test_chains_forget_a_wrong_start_and_temperature_widens_them():
    target = density()
    settings = {"step_size": 1.0, "num_transitions": 60, "max_leapfrog": 4}
    moved = advance(jax.random.key(2), target, starts(2048) * 0.1, AFFINE, **settings)
    np.testing.assert_allclose(moved.positions.std(0) / SD, 1.0, atol=0.07)
    beta = np.where(np.arange(2048) < 1024, 0.25, 1.0)
    hot = advance(jax.random.key(3), target, starts(2048), AFFINE, beta=beta, **settings)
    np.testing.assert_allclose(hot.positions[:1024].std(0) / SD, 2.0, atol=0.2)
    np.testing.assert_allclose(hot.positions[1024:].std(0) / SD, 1.0, atol=0.1)
    np.testing.assert_allclose(hot.log_prob, jax.vmap(target.log_prob)(hot.positions), rtol=1e-4, atol=1e-5)


def test_a_chain_from_where_the_density_is_zero_moves_on():
    target = as_target(lambda x: jnp.where(x[0] > 0.0, -x[0], -jnp.inf), dim=1)
    affine = DenseMap(jnp.zeros(1), jnp.eye(1))
    moved = advance(
        jax.random.key(0), target, np.full((64, 1), -0.5), affine, step_size=0.7, num_transitions=40, max_leapfrog=3
    )
    assert (moved.positions > 0.0).all()


def test_one_compilation_whatever_the_number_of_starts():
    target = density()
    evaluate(target, starts(10), AFFINE)
    before = len(_programs.PROGRAMS)
    for num in (3, 700, 1500):
        advance(jax.random.key(0), target, starts(num), AFFINE, step_size=0.3, num_transitions=num % 7, max_leapfrog=2)
    other = DenseMap(jnp.ones(2), 3.0 * jnp.eye(2))
    advance(jax.random.key(0), target, starts(5), other, step_size=0.1, num_transitions=2, max_leapfrog=9, beta=0.5)
    assert len(_programs.PROGRAMS) == before


def test_tuned_acceptance():
    tuned = tune(jax.random.key(0), density(), starts(512), AFFINE)
    found = advance(
        jax.random.key(1),
        density(),
        starts(2048),
        AFFINE,
        step_size=tuned.step_size,
        num_transitions=10,
        max_leapfrog=tuned.max_leapfrog,
        small_share=0.0,
    )
    assert abs(found.acceptance.mean() - 0.8) < 0.06
