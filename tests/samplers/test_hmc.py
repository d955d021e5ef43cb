import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_sgld import TRACES, Watched

from oracles import bonferroni, gaussian_target, linear_gaussian_model
from sivi.samplers import hmc
from sivi.samplers.adaptation import AdaptationState, warmup_windows
from sivi.targets import GaussianMixture, IsotropicGaussian

QUIET = {"progress": False}


def test_posterior_of_a_conjugate_model(x64):
    model = linear_gaussian_model()
    mean, covariance = model.posterior()
    run = hmc(model, num_chains=50, num_samples=400, num_warmup=300, key=1, **QUIET)
    assert run.draws.shape == (50, 400, 3)
    assert run.draws.dtype == np.float64
    assert run.divergences == 0
    assert (run.rhat < 1.01).all()
    error = np.sqrt(np.diag(covariance) / run.ess)
    assert (np.abs(run.flat().mean(0) - mean) / error).max() < bonferroni(3)
    np.testing.assert_allclose(np.cov(run.flat().T), covariance, atol=0.06 * np.diag(covariance).max())


def test_step_size_is_tuned_to_the_acceptance_asked_for():
    # In 20 dimensions acceptance falls smoothly; in a few it drops at once where the integrator turns unstable.
    target = IsotropicGaussian(20)
    for wanted, key in itertools.product((0.7, 0.95), (0, 1, 2)):
        run = hmc(target, num_chains=20, num_samples=200, num_warmup=500, target_acceptance=wanted, key=key, **QUIET)
        assert abs(run.acceptance.mean() - wanted) < 0.06
        assert run.acceptance.shape == (20,)


def test_mass_is_learnt_from_scales_far_apart():
    scales = np.array([1e-3, 1.0, 1e3])
    run = hmc(GaussianMixture(np.zeros((1, 3)), [np.diag(scales**2)]), num_chains=20, num_samples=500, key=3, **QUIET)
    assert (run.ess > 0.2 * 10_000).all()
    np.testing.assert_allclose(run.flat().std(0), scales, rtol=0.05)
    assert 0.5 < run.step_size < 3.0  # in units of the scales


def test_periodic_orbits_do_not_trap_the_chains():
    """At this step size 20 leapfrog steps are one full period of every direction: a fixed length would never move."""
    step_size = 2 * np.sin(np.pi / 20)
    run = hmc(
        lambda x: -0.5 * jnp.sum(x**2), dim=2, num_chains=50, num_samples=200, num_warmup=0, num_leapfrog=20,
        step_size=step_size, init=np.full((50, 2), 3.0), key=4, **QUIET,
    )  # fmt: skip
    assert run.step_size == pytest.approx(step_size)
    assert (run.ess > 2000).all()
    late = run.draws[:, 100:].reshape(-1, 2)
    assert (np.abs(late.mean(0)) < 0.1).all()
    np.testing.assert_allclose(late.var(0), 1.0, atol=0.15)


def test_first_draw_follows_the_warmup_without_a_gap():
    """With everything fixed, more warm-up only moves the window: the draws of one run are those of the other, later."""
    arguments = {"num_chains": 3, "step_size": 0.3, "key": 5, **QUIET}
    early = hmc(gaussian_target(), num_warmup=0, num_samples=10, **arguments).draws
    late = hmc(gaussian_target(), num_warmup=4, num_samples=10, **arguments).draws
    np.testing.assert_array_equal(early[:, 4:], late[:, :6])


def test_chunks_do_not_matter_and_compile_once():
    arguments = {"num_chains": 3, "num_warmup": 40, "num_samples": 15, "key": 6, **QUIET}
    runs = [hmc(Watched(tag), chunk_size=size, **arguments) for tag, size in ((11, 7), (12, 100))]
    np.testing.assert_array_equal(runs[0].draws, runs[1].draws)
    assert runs[0].step_size == runs[1].step_size
    assert TRACES.count(11) == TRACES.count(12)
    other = hmc(Watched(12), **{**arguments, "key": 7})
    assert (other.draws != runs[0].draws).any()


def test_acceptance_and_divergences_count_the_draws_alone():
    calm = hmc(gaussian_target(), num_warmup=0, num_samples=50, step_size=0.05, key=8, **QUIET)
    assert (calm.acceptance > 0.98).all()
    assert calm.divergences == 0
    wild = hmc(gaussian_target(), num_warmup=30, num_samples=50, step_size=30.0, key=8, **QUIET)
    assert (wild.acceptance < 0.01).all()
    assert 150 < wild.divergences <= 200
    assert wild.diverging.shape == (4, 50)
    assert wild.divergences == wild.diverging.sum()
    assert wild.max_depth_hits is None
    np.testing.assert_array_equal(wild.draws[:, 0], wild.draws[:, -1])


def test_divergent_transitions_are_marked_where_they_happen():
    """A wall of height 10⁶ at x = 0, on which no trajectory ends: those that enter it diverge, and the chain stays."""

    def log_density(x):
        return -0.5 * jnp.sum((x - 1.0) ** 2) - jnp.where(x[0] < 0, 1e6, 0.0)

    arguments = {"num_chains": 6, "step_size": 0.3, "num_leapfrog": 8, "init": np.ones((6, 1)), "key": 9, **QUIET}
    run = hmc(log_density, dim=1, num_warmup=0, num_samples=200, **arguments)
    assert run.diverging.dtype == bool
    assert run.diverging.sum(1).min() > 0
    assert run.divergences < 600
    before = np.concatenate([np.ones((6, 1, 1)), run.draws[:, :-1]], axis=1)
    assert (run.draws == before)[run.diverging].all()
    assert (run.draws != before)[~run.diverging].mean() > 0.9
    # The mask follows the draws: more warm-up moves both, and chunks change neither.
    later = hmc(log_density, dim=1, num_warmup=50, num_samples=150, chunk_size=7, **arguments)
    np.testing.assert_array_equal(later.diverging, run.diverging[:, 50:])


def test_windows_of_the_warmup():
    collect, close = warmup_windows(1000)
    ends = np.flatnonzero(close) + 1
    np.testing.assert_array_equal(np.diff([75, *ends]), [25, 50, 100, 200, 500])
    np.testing.assert_array_equal(np.flatnonzero(collect), np.arange(75, 950))
    collect, close = warmup_windows(20)
    np.testing.assert_array_equal(np.flatnonzero(collect), np.arange(3, 18))
    np.testing.assert_array_equal(np.flatnonzero(close), [17])


def test_dual_averaging_finds_the_step_size():
    """With acceptance exp(−ε) the answer is ε = −log(target), from far off on either side."""
    no = jnp.array(False)

    def update(_, state):
        acceptance = jnp.full(2, jnp.exp(-jnp.exp(state.log_step)))
        return state.update(jnp.zeros((2, 1)), acceptance, 0.8, no, no)

    run = jax.jit(lambda state: jax.lax.fori_loop(0, 2000, update, state))
    for start in (1e-4, 1e3):
        state = run(AdaptationState.start(1, start))
        np.testing.assert_allclose(jnp.exp(state.log_step_mean), -np.log(0.8), rtol=0.05)


def test_mass_is_the_pooled_variance_of_the_window(x64):
    positions = np.random.default_rng(0).normal([[[5.0, -3.0]]], [[[0.1, 20.0]]], size=(30, 4, 2))
    state = AdaptationState.start(2, 0.3)
    update = jax.jit(lambda state, x, step: state.update(x, jnp.ones(4), 0.8, step > 0, step == 29))
    for step, position in enumerate(positions):
        state = update(state, jnp.asarray(position), jnp.int32(step))
    seen = positions[1:].reshape(-1, 2)
    weight = len(seen) / (len(seen) + 5)
    np.testing.assert_allclose(state.inverse_mass, weight * seen.var(0, ddof=1) + (1 - weight) * 1e-3, rtol=1e-10)
    assert float(state.seen) == float(state.updates) == 0.0
