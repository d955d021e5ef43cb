"""MixtureKL against naive loops, closed forms of the linear-Gaussian family, and the bound of SIVI."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from contracts.plugins import CONDITIONALS, MIXINGS
from oracles import (
    bonferroni,
    elbo,
    elbo_gradient,
    flat,
    gaussian_target,
    gradient_of,
    linear_gaussian_family,
    linear_gaussian_model,
    monte_carlo,
    paired_z,
    quadrature_family,
)
from sivi.critics import MLPCritic
from sivi.families.diagonal_gaussian import GaussianAt
from sivi.families.starting import diagonal_start
from sivi.objectives import Annealed, MixtureKL, PathKL, SurrogateELBO
from sivi.targets import BayesianNeuralNetwork, LogDensity, Multimodal, ScoreFunction, evaluate


def groups(family, seed, num, size):
    """Noise of `num` updates of `size` draws each."""
    return family.sample_noise(jax.random.key(seed), (num, size))


def gradient(objective, family, target, noise, batch=None):
    return eqx.filter_grad(objective.surrogate, has_aux=True)(family, target, batch, noise)


def naive(family, target, noise, num_particles):
    """−ELBO, own weight, and the two gradients of one update, by loops over draws and components."""

    def log_mixture(family, x, others):
        terms = [family.conditional.at(family.mixing.transform(z)).log_prob(x) for z in others]
        return jax.nn.logsumexp(jnp.stack(terms)) - jnp.log(len(terms))

    def value(family, i):
        x = family.joint(noise[0][i], noise[1][i]).x
        return log_mixture(family, x, noise[0]) - target.log_prob(x)

    def path(family, i):
        x = family.joint(noise[0][i], noise[1][i]).x
        score = target.score(x) - jax.grad(lambda x: log_mixture(fixed, x, noise[0]))(jax.lax.stop_gradient(x))
        return -jnp.sum(jax.lax.stop_gradient(score) * x)

    fixed, draws = family, range(num_particles)
    total = lambda f, one: sum(one(f, i) for i in draws) / num_particles  # noqa: E731
    loss, full = eqx.filter_value_and_grad(total)(family, value)
    x = [family.joint(noise[0][i], noise[1][i]).x for i in draws]
    own = [
        jnp.exp(family.conditional.at(family.mixing.transform(noise[0][i])).log_prob(x[i]))
        / (len(noise[0]) * jnp.exp(log_mixture(family, x[i], noise[0])))
        for i in draws
    ]
    return loss, sum(own) / num_particles, full, eqx.filter_grad(total)(family, path)


@pytest.mark.parametrize("conditional", ["DiagonalGaussian-network", "DenseGaussian-network", "StudentT-network"])
@pytest.mark.parametrize("num_aux", [0, pytest.param(3, marks=pytest.mark.slow)])
def test_is_what_loops_over_draws_and_components_give(x64, conditional, num_aux):
    key = jax.random.key(2)
    family, target = sivi.SemiImplicit(MIXINGS["ImplicitMixing"](key), CONDITIONALS[conditional](key)), Multimodal()
    noise = family.sample_noise(jax.random.key(0), (4 + num_aux,))
    loss, own, full, path = naive(family, target, noise, 4)
    for name, expected in (("full", full), ("path", path)):
        objective = MixtureKL(num_particles=4, num_aux=num_aux, gradient=name, clip=None)
        found, metrics = gradient(objective, family, target, noise)
        np.testing.assert_allclose(metrics["loss"], loss, rtol=1e-10)
        np.testing.assert_allclose(metrics["negative_elbo"], loss, rtol=1e-10)
        np.testing.assert_allclose(metrics["own_weight"], own, rtol=1e-10)
        np.testing.assert_allclose(flat(found), flat(expected), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("num_aux", [0, 2])
def test_both_gradients_have_one_mean(x64, num_aux):
    """Draw for draw they differ by the derivative of log q̂ at fixed points, whose mean is zero."""
    family, target = quadrature_family("implicit"), Multimodal()

    def difference(*noise):
        both = [
            gradient(MixtureKL(num_particles=3, num_aux=num_aux, gradient=name, clip=None), family, target, noise)[0]
            for name in ("full", "path")
        ]
        return flat(both[0]) - flat(both[1])

    result = monte_carlo(difference, groups(family, 0, 20_000, 3 + num_aux), block=2000)
    assert float(jnp.abs(paired_z(result)).max()) < bonferroni(result.mean.size)


def test_loss_and_gradient_are_those_of_the_bound_of_sivi(x64):
    """With m components the bound is that of m − 1 auxiliary draws: another estimator of the same two numbers."""
    family, target, size = linear_gaussian_family(), gaussian_target(), 3
    objective = MixtureKL(num_particles=size, clip=None)
    other = SurrogateELBO(num_particles=1, num_aux=size - 1)

    def difference(noise, eps, key):
        grads, metrics = gradient(objective, family, target, (noise, eps))
        one = noise[:1], eps[:1]

        def bound(family):
            return -jnp.mean(other.bounds(family, target, None, one, key, size - 1))

        value, sivi_grads = eqx.filter_value_and_grad(bound)(family)
        return {"loss": metrics["loss"] - value, "grad": flat(gradient_of(grads)) - flat(gradient_of(sivi_grads))}

    noise = (*groups(family, 1, 40_000, size), jax.random.split(jax.random.key(2), 40_000))
    result = monte_carlo(difference, noise, block=4000)
    scores = flat(jax.tree.map(jnp.divide, result.mean, result.error))
    assert float(jnp.abs(scores).max()) < bonferroni(scores.size), scores


@pytest.mark.parametrize("name", ["path", "full"])
def test_with_many_components_it_is_the_elbo(x64, name):
    family, target = linear_gaussian_family(), gaussian_target()
    objective = MixtureKL(num_particles=500, gradient=name, clip=None)
    grads = []
    losses = []
    run = eqx.filter_jit(lambda noise: gradient(objective, family, target, noise))
    for i in range(40):
        found, metrics = run(family.sample_noise(jax.random.key(i), (500,)))
        grads.append(flat(gradient_of(found)))
        losses.append(metrics["loss"])
    # The bound lies above by a little: a few over m.
    error = np.std(losses) / np.sqrt(len(losses))
    gap = np.mean(losses) + float(elbo(family.conditional, target))
    assert -4 * error < gap < 0.02 + 4 * error
    exact, errors = -flat(elbo_gradient(family.conditional, target)), np.std(grads, axis=0) / np.sqrt(len(grads))
    assert (np.abs(np.mean(grads, axis=0) - exact) < 0.02 + 4.5 * errors).all()


def test_the_path_gradient_is_zero_where_the_mixture_is_the_target(x64):
    """One component, N(mean, σ²), and a target that is the same."""
    family = linear_gaussian_family()
    still = eqx.tree_at(lambda f: f.conditional.A, family, jnp.zeros((3, 2)))
    sigma, b = jnp.exp(still.conditional.log_sigma), still.conditional.b
    target = LogDensity(lambda x: jnp.sum(jax.scipy.stats.norm.logpdf(x, b, sigma)), 3)
    found, metrics = gradient(MixtureKL(num_particles=8), still, target, still.sample_noise(jax.random.key(0), (8,)))
    np.testing.assert_allclose(flat(gradient_of(found)), 0.0, atol=1e-12)
    np.testing.assert_allclose(metrics["loss"], 0.0, atol=1e-12)
    np.testing.assert_allclose(metrics["own_weight"], 1 / 8, rtol=1e-12)


@pytest.mark.parametrize("sigma", [1e-3, 0.03, 1.0])
def test_pairs_are_right_down_to_the_floor_of_sigma(sigma):
    """In float32, beside float64: neighbours a few σ apart, at a distance of several from the centre."""
    rng = np.random.default_rng(0)
    mean = 5.0 + rng.normal(size=(20, 3)) * [1.0, 3 * sigma, 3 * sigma]
    mean[:, 0] = 5.0
    x = mean[:6] + sigma * rng.normal(size=(6, 3))
    exact = -0.5 * (((x[:, None] - mean) / sigma) ** 2).sum(-1) - 3 * np.log(sigma) - 1.5 * np.log(2 * np.pi)
    at = jax.vmap(GaussianAt)(jnp.asarray(mean, jnp.float32), jnp.full((20, 3), sigma, jnp.float32))
    found = at.log_prob_pairs(jnp.asarray(x, jnp.float32))
    # Points themselves are rounded: by 2e-7 · 5, which moves a density by that over σ.
    np.testing.assert_allclose(found, exact, atol=2e-3 + 2e-6 / sigma * np.sqrt(-exact.min() + 10))
    slope = jax.grad(lambda x: jax.nn.logsumexp(at.log_prob_pairs(x), axis=1).sum())(jnp.asarray(x, jnp.float32))
    weights = np.exp(exact - exact.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    exact_slope = (weights[:, :, None] * (mean - x[:, None]) / sigma**2).sum(1)
    np.testing.assert_allclose(slope * sigma, exact_slope * sigma, atol=0.02)


@pytest.mark.parametrize("distance", [3.0, 50.0, 100.0])
def test_pairs_are_right_with_many_unknowns(distance):
    """In float32: the errors of many terms add up, though each is small."""
    rng = np.random.default_rng(0)
    mean = np.float32(rng.normal(size=(12, 751)) * 0.5 + distance * np.sign(rng.normal(size=751)))
    mean[6:] = -mean[:6]
    x = np.float32(mean[:6] + rng.normal(size=(6, 751)))
    exact = -0.5 * ((x[:, None].astype(float) - mean) ** 2).sum(-1) - 751 * 0.5 * np.log(2 * np.pi)
    at = jax.vmap(GaussianAt)(jnp.asarray(mean), jnp.ones((12, 751), jnp.float32))
    near = exact > exact.max() - 300.0
    assert near.sum() >= 6
    np.testing.assert_allclose(np.asarray(at.log_prob_pairs(jnp.asarray(x)))[near], exact[near], atol=0.01)


@pytest.mark.slow
def test_points_of_a_network_in_blocks_are_points_side_by_side(monkeypatch, x64):
    x = np.linspace(-1.0, 1.0, 9)[:, None]
    model = BayesianNeuralNetwork(x, np.sin(3.0 * x[:, 0]), (4,), "tanh", noise_precision=9.0, weight_precision=1.0)
    family = diagonal_start(jax.random.key(0), model.dim, model.dim, (8,), 0.5)
    rows = jnp.array([0, 3, 4, 8])
    for objective in (MixtureKL(num_particles=7), PathKL(num_particles=7, critic=MLPCritic((8,)))):
        objective = objective.bind(10)
        state = objective.init(jax.random.key(1), family, model)
        whole = objective.step(jax.random.key(2), family, state, model, rows)
        monkeypatch.setattr(evaluate, "numbers_in_cache", lambda: 3 * 4 * 4)
        blocks = objective.step(jax.random.key(2), family, state, model, rows)
        monkeypatch.undo()
        for a, b in zip(
            jax.tree.leaves(eqx.filter(whole, eqx.is_array)),
            jax.tree.leaves(eqx.filter(blocks, eqx.is_array)),
            strict=True,
        ):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


def test_draws_that_are_not_finite_are_left_out(x64):
    family, noise = linear_gaussian_family(), linear_gaussian_family().sample_noise(jax.random.key(3), (64,))
    x = jax.vmap(family.joint)(*noise).x
    inside = np.asarray(x[:, 0] > -0.5)
    assert 0.6 < inside.mean() < 0.95
    whole = LogDensity(lambda x: -0.5 * jnp.sum(x**2), 3)
    cut = LogDensity(lambda x: jnp.where(x[0] > -0.5, -0.5 * jnp.sum(x**2), -jnp.inf), 3)
    broken = ScoreFunction(lambda x: jnp.where(x[0] > -0.5, -x, jnp.nan), 3)
    objective = MixtureKL(num_particles=64, clip=None)
    found, metrics = gradient(objective, family, cut, noise)
    log_q = metrics["loss"] + jnp.mean(jax.vmap(whole.log_prob)(x)[inside])
    assert np.isfinite(float(log_q))
    other, fisher = gradient(objective, family, broken, noise)
    np.testing.assert_allclose(flat(found), flat(other), rtol=1e-10)
    assert set(fisher) == {"loss", "own_weight"}
    assert np.isfinite(flat(found)).all()
    nowhere = LogDensity(lambda x: jnp.where(x[0] > 100.0, -0.5 * jnp.sum(x**2), -jnp.inf), 3)
    assert np.isnan(gradient(objective, family, nowhere, noise)[1]["loss"])


def test_without_a_log_density_the_loss_is_the_fisher_divergence_to_the_mixture(x64):
    family, target = linear_gaussian_family(), gaussian_target()
    noise = family.sample_noise(jax.random.key(0), (16,))
    alone = ScoreFunction(target.score, 3)
    (found, metrics), (same, _) = (gradient(MixtureKL(num_particles=16), family, t, noise) for t in (alone, target))
    np.testing.assert_allclose(flat(found), flat(same), rtol=1e-10)
    x = jax.vmap(family.joint)(*noise).x
    components = family.conditional.at_each(noise[0])
    score = jax.grad(lambda x: jax.nn.logsumexp(components.log_prob_pairs(x), axis=1).sum())(x)
    expected = jnp.mean(jnp.sum((jax.vmap(target.score)(x) - score) ** 2, axis=-1))
    np.testing.assert_allclose(metrics["loss"], expected, rtol=1e-10)


def test_minibatches_have_the_gradient_of_all_data_on_average(x64):
    model, family = linear_gaussian_model(), linear_gaussian_family()
    noise = family.sample_noise(jax.random.key(0), (8,))
    rows = jnp.arange(24).reshape(6, 4)
    objective = MixtureKL(num_particles=8, clip=None)
    whole, metrics = gradient(objective, family, model, noise)
    parts = [gradient(objective, family, model, noise, batch) for batch in rows]
    np.testing.assert_allclose(np.mean([flat(g) for g, _ in parts], axis=0), flat(whole), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(np.mean([m["loss"] for _, m in parts]), metrics["loss"], rtol=1e-10)


def test_clipping_shortens_only_what_is_long(x64):
    family, target = linear_gaussian_family(), gaussian_target()
    noise = family.sample_noise(jax.random.key(0), (32,))
    none, loose, tight = (
        flat(gradient(MixtureKL(num_particles=32, clip=clip), family, target, noise)[0]) for clip in (None, 1e6, 0.1)
    )
    np.testing.assert_allclose(loose, none, rtol=1e-10)
    assert float(jnp.linalg.norm(tight)) < 0.5 * float(jnp.linalg.norm(none))


def test_the_bound_is_not_recorded_on_the_way_to_the_target():
    posterior = sivi.fit(
        Multimodal(), objective=Annealed(MixtureKL(num_particles=16)), num_steps=20, whiten=None, progress=False
    )
    beta, bound = posterior.history["beta"], posterior.history["negative_elbo"]
    assert (np.isnan(bound) == (beta < 1.0)).all()
    assert np.isfinite(posterior.history["loss"]).all()


def test_the_bound_is_in_nats_of_x():
    """A Gaussian in thousandths: minus the ELBO is KL − log Z, the same in u and in x."""
    target = LogDensity(lambda x: -0.5 * jnp.sum((x / 1e-3) ** 2), 2)
    family = sivi.defaults.recipe(2).family(jax.random.key(0))
    posterior = sivi.fit(
        target,
        family=family,
        objective=MixtureKL(num_particles=256),
        whiten=([0.0, 0.0], [1e-3, 1e-3]),
        num_steps=60,
        progress=False,
    )
    log_z = 2 * np.log(1e-3) + np.log(2 * np.pi)
    assert posterior.history["negative_elbo"][-20:].mean() == pytest.approx(-log_z, abs=0.1)


def test_bad_settings():
    with pytest.raises(ValueError, match="gradient must be 'path' or 'full'; got 'both'"):
        MixtureKL(gradient="both")
