"""One HMC transition: against BlackJAX's integrator, and by what it must leave unchanged."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oracles import bonferroni, gaussian_target
from sivi.samplers.transition import ChainState, hmc_transition, start_chain
from sivi.targets import Banana

INVERSE_MASS = jnp.array([0.5, 1.5, 0.8])


def transitions(target, draws, step_size, num_leapfrog, inverse_mass, seed=1):
    """One transition from each of many points; its settings are traced, so that all calls share a program."""
    keys = jax.random.split(jax.random.key(seed), len(draws))
    return _transitions(target, keys, draws, jnp.asarray(step_size), jnp.int32(num_leapfrog), inverse_mass)


@eqx.filter_jit
def _transitions(target, keys, draws, *settings):
    def one(key, x):
        return hmc_transition(key, start_chain(target.log_prob, x), target.log_prob, *settings)

    return jax.vmap(one)(keys, draws)


def exact_draws(target, num, seed=0):
    return jax.vmap(target.sample)(jax.random.split(jax.random.key(seed), num))


def features(x):
    """Moments up to the third, sensitive to location, scale, shape and dependence."""
    products = [x[:, i] * x[:, j] for i in range(x.shape[1]) for j in range(i + 1)]
    return np.asarray(jnp.stack([*x.T, *products, *(x**3).T], axis=1), float)


def z_scores(differences):
    return np.abs(differences.mean(0)) / (differences.std(0) / np.sqrt(len(differences)))


@pytest.mark.parametrize(
    ("target", "step_size", "num_leapfrog", "inverse_mass"),
    [(gaussian_target(), 0.9, 3, INVERSE_MASS), (Banana(), 0.4, 9, jnp.array([0.6, 1.7]))],
    ids=["gaussian", "banana"],
)
def test_leaves_the_target_unchanged_and_is_reversible(target, step_size, num_leapfrog, inverse_mass):
    draws = exact_draws(target, 50_000)
    after, info = transitions(target, draws, step_size, num_leapfrog, inverse_mass)
    # A rough integrator, so that refusing matters; and one that moves.
    assert 0.3 < float(info.acceptance.mean()) < 0.9
    # The state that is carried on is that of where the chain is.
    np.testing.assert_allclose(after.log_prob, jax.vmap(target.log_prob)(after.position), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(after.grad, jax.vmap(target.score)(after.position), rtol=1e-3, atol=1e-3)
    before_features, after_features = features(draws), features(after.position)
    assert np.corrcoef(before_features[:, 0], after_features[:, 0])[0, 1] < 0.9
    scores = z_scores(after_features - before_features)
    assert scores.max() < bonferroni(scores.size)
    # Detailed balance: (x, x') and (x', x) have the same distribution.
    scale = before_features.std(0)
    f, g = before_features / scale, after_features / scale
    pairs = [(i, j) for i in range(f.shape[1]) for j in range(i)]
    swapped = np.stack([f[:, i] * g[:, j] - f[:, j] * g[:, i] for i, j in pairs], axis=1)
    assert z_scores(swapped).max() < bonferroni(len(pairs))
    # The test has power: draws 25 % too wide are seen to shrink.
    wide = draws * 1.25
    after, _ = transitions(target, wide, step_size, num_leapfrog, inverse_mass)
    assert z_scores(features(after.position) - features(wide)).max() > 10


def test_same_trajectory_and_acceptance_as_blackjax(x64):
    integrators = pytest.importorskip("blackjax.mcmc.integrators")
    target, key, x = gaussian_target(), jax.random.key(3), jnp.array([0.3, -0.2, 1.1])
    inverse_mass, step_size, num_leapfrog = jnp.array([0.5, 1.5, 0.8]), 0.7, 5
    momentum = jax.random.normal(jax.random.split(key)[0], (3,)) / jnp.sqrt(inverse_mass)

    def kinetic(momentum, position=None):
        return 0.5 * jnp.sum(inverse_mass * momentum**2)

    step = jax.jit(integrators.velocity_verlet(target.log_prob, kinetic))
    start = integrators.IntegratorState(x, momentum, target.log_prob(x), target.score(x))
    state = start
    for _ in range(num_leapfrog):
        state = step(state, step_size)
    energy = -start.logdensity + kinetic(start.momentum), -state.logdensity + kinetic(state.momentum)
    expected = jnp.exp(jnp.minimum(0.0, energy[0] - energy[1]))

    chain = start_chain(target.log_prob, x)
    traced = jax.jit(lambda n: hmc_transition(key, chain, target.log_prob, jnp.asarray(step_size), n, inverse_mass))
    new, info = traced(jnp.int32(num_leapfrog))
    np.testing.assert_allclose(info.acceptance, expected, rtol=1e-12)
    assert bool(info.accepted)
    np.testing.assert_allclose(new.position, state.position, rtol=1e-12)


def test_energy_error_is_of_second_order(x64):
    """Over a fixed length, ΔH ~ ε², so the acceptance lost in equilibrium, E|ΔH|/2 to first order, falls by 4."""
    target = gaussian_target()
    draws = exact_draws(target, 10_000)
    lost = [float(1 - transitions(target, draws, 0.4 / n, 4 * n, jnp.ones(3))[1].acceptance.mean()) for n in (1, 2, 4)]
    np.testing.assert_allclose([lost[0] / lost[1], lost[1] / lost[2]], 4.0, rtol=0.1)


def test_a_trajectory_that_blows_up_is_refused_and_counted():
    target, x = Banana(), jnp.array([[3.0, 5.0]])
    after, info = transitions(target, x, 50.0, 10, 1.0)
    np.testing.assert_array_equal(after.position, x)
    assert bool(info.diverged[0])
    assert not bool(info.accepted[0])
    assert isinstance(after, ChainState)
