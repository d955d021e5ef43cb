"""Bridged against closed forms: the mixture's score, the base's share at equilibrium, the odds it settles at."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from contracts.plugins import small_family
from sivi.critics import MLPCritic
from sivi.families import Family
from sivi.objectives import Annealed, Bridged, Objective, PathKL
from sivi.schedules import Ramp
from sivi.targets import (
    Banana,
    BridgedTarget,
    GaussianMixture,
    IsotropicGaussian,
    LinearRegression,
    LogDensity,
    Multimodal,
    ScoreFunction,
)

LOG_Z = 3.7
SHARE = 0.3
BASE = IsotropicGaussian(2, 2.5)
LOG_ODDS = LOG_Z + np.log(SHARE / (1 - SHARE))
MEANS, COVARIANCES, WEIGHTS = [[-3.0, 0.0], [2.0, 1.0]], [0.3 * np.eye(2), np.diag([0.5, 0.2])], [0.3, 0.7]


def density():
    """Two separated modes."""
    return GaussianMixture(MEANS, COVARIANCES, WEIGHTS)


def target():
    """The same with a known constant, Z = e^LOG_Z."""
    modes = density()
    return LogDensity(lambda x: modes.log_prob(x) + LOG_Z, dim=2)


class Equilibrium(Family):
    """Exact draws of (1 − δ) p/Z + δ base."""

    mixture: GaussianMixture
    dim: int = eqx.field(static=True, default=2)

    def sample(self, key):
        return self.mixture.sample(key)

    def log_prob(self, key, x, num_aux):
        return self.mixture.log_prob(x), jnp.zeros(())


def equilibrium():
    weights = [*((1 - SHARE) * np.array(WEIGHTS)), SHARE]
    return Equilibrium(GaussianMixture([*MEANS, [0.0, 0.0]], [*COVARIANCES, BASE.sd**2 * np.eye(2)], weights))


class Still(Objective):
    """Leaves the family where it is."""

    def init(self, key, family, target):
        return jnp.zeros(())

    def step(self, key, family, state, target, batch):
        return family, state, {"loss": jnp.zeros(())}


def leaves(tree):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array))]


def assert_same_bits(one, other):
    for a, b in zip(leaves(one), leaves(other), strict=True):
        np.testing.assert_array_equal(a, b)


def moments_of_share(num=200_000):
    """Mean, standard deviation and slope in c of the base's share over exact draws, at the exact c."""
    draws = jax.vmap(equilibrium().sample)(jax.random.split(jax.random.key(9), num))
    shares = np.asarray(jax.vmap(BridgedTarget(target(), BASE, jnp.asarray(LOG_ODDS, float)).base_share)(draws))
    return shares.mean(), shares.std(), (shares * (1 - shares)).mean()


@pytest.mark.parametrize("log_odds", [-40.0, -1.0, 2.0, 40.0])
def test_the_score_is_the_gradient_of_the_log_sum_of_both_densities(x64, log_odds):
    bridge = BridgedTarget(target(), BASE, jnp.asarray(log_odds))
    points = 3.0 * jax.random.normal(jax.random.key(0), (50, 2))

    def log_mixture(x):
        return jax.nn.logsumexp(jnp.stack([target().log_prob(x), log_odds + BASE.log_prob(x)]))

    np.testing.assert_allclose(jax.vmap(bridge.score)(points), jax.vmap(jax.grad(log_mixture))(points), rtol=1e-9)
    np.testing.assert_allclose(jax.vmap(bridge.log_prob)(points), jax.vmap(log_mixture)(points), rtol=1e-12)


def test_without_odds_the_bridge_is_the_target_to_the_bit():
    bridge, points = BridgedTarget(target(), BASE, jnp.asarray(-jnp.inf)), jax.random.normal(jax.random.key(0), (50, 2))
    np.testing.assert_array_equal(jax.vmap(bridge.score)(points), jax.vmap(target().score)(points))
    np.testing.assert_array_equal(jax.vmap(bridge.log_prob)(points), jax.vmap(target().log_prob)(points))


def test_a_bridge_refuses_a_minibatch():
    bridge = BridgedTarget(LinearRegression(np.eye(3)[:, :1], np.ones(3)), BASE, jnp.zeros(()))
    assert bridge.num_data is None
    for function in (bridge.log_prob, bridge.score):
        with pytest.raises(ValueError, match=r"batch must be None; got 2 rows"):
            function(jnp.zeros(2), jnp.arange(2))


def test_at_equilibrium_the_mean_share_is_the_bases_share_of_the_mass():
    """Five standard errors: fails once in 10⁶ seeds."""
    mean, sd, _ = moments_of_share()
    assert abs(mean - SHARE) < 5 * sd / np.sqrt(200_000)


def test_the_odds_are_where_the_target_constant_puts_them():
    """At q = p̃ the only c with the wanted mean share is log Z + log δ/(1 − δ).

    Errors of the mean share carry over to c by the slope E[s(1 − s)]; five standard errors (one failure in 10⁶ seeds),
    and two hundredths of a nat for the curvature of the share in c.
    """
    _, sd, slope = moments_of_share()
    objective, family, whole = Bridged(Still(), SHARE, base=BASE, num_samples=512), equilibrium(), target()
    state = objective.init(jax.random.key(0), family, whole)

    def update(state, key):
        _, state, _ = objective.step(key, family, state, whole, None)
        return state, state.log_odds

    _, log_odds = jax.jit(lambda s, k: jax.lax.scan(update, s, k))(state, jax.random.split(jax.random.key(1), 200))
    np.testing.assert_allclose(log_odds.mean(), LOG_ODDS, atol=5 * sd / slope / np.sqrt(512 * 200) + 0.02)


@pytest.mark.parametrize(
    "constant", [-1e4, pytest.param(300.0, marks=pytest.mark.slow), pytest.param(1e4, marks=pytest.mark.slow)]
)
def test_a_constant_of_the_log_density_changes_nothing(x64, constant):
    """Not even while the density is tempered, when the constant that counts is β times it."""
    inner = PathKL(num_particles=16, critic_warmup=0, critic=MLPCritic((8,)))
    objective = Annealed(Bridged(inner, 0.4, base=BASE), base=IsotropicGaussian(2)).bind(10)
    family, histories = small_family(), []
    for shift in (0.0, constant):
        shifted = LogDensity(lambda x, shift=shift: target().log_prob(x) + shift, dim=2)
        now, state, losses = family, objective.init(jax.random.key(0), family, shifted), []
        step = eqx.filter_jit(objective.step)
        for i in range(10):
            now, state, metrics = step(jax.random.key(i), now, state, shifted, None)
            losses.append(float(metrics["loss"]))
        histories.append(losses)
    np.testing.assert_allclose(histories[1], histories[0], rtol=1e-4)


@pytest.mark.parametrize("minibatch", [False, True])
def test_without_a_share_or_with_minibatches_an_update_is_the_plain_one(minibatch):
    data = np.random.default_rng(0).normal(size=(10, 2))
    whole, family = LinearRegression(data[:, :1], data[:, 1]), small_family()
    plain = PathKL(num_particles=16, critic_warmup=0, critic=MLPCritic((8,))).bind(10)
    bridged = Bridged(plain, 0.4 if minibatch else 0.0, base=BASE)
    batch = jnp.arange(4) if minibatch else None
    key = jax.random.key(0)
    state, bridged_state = plain.init(key, family, whole), bridged.init(key, family, whole)
    assert_same_bits(state, bridged_state.inner)
    one = eqx.filter_jit(plain.step)(key, family, state, whole, batch)
    other, after, metrics = eqx.filter_jit(bridged.step)(key, family, bridged_state, whole, batch)
    assert metrics["bridge"] == after.share == 0.0
    for a, b in zip(leaves(one[:2]), leaves((other, after.inner)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)  # two programs, rounded each in its own way


def test_the_field_of_a_state_is_that_of_the_bridge_while_it_stands_and_of_the_target_after():
    family, key = small_family(), jax.random.key(0)
    plain = PathKL(num_particles=16, critic_warmup=0, critic=MLPCritic((8,))).bind(10)
    bridged = Bridged(plain, 0.4, base=BASE)
    state = bridged.init(key, family, target())
    x = jnp.array([0.0, -4.0])  # far from both modes
    score = BridgedTarget(target(), BASE, state.log_odds).score(x)
    field = bridged.critic_function(state, target())
    assert field is not None
    np.testing.assert_allclose(field(x), score + state.inner.critic(x), rtol=1e-5)
    assert np.abs(score - target().score(x)).max() > 1.0
    gone = bridged.critic_function(eqx.tree_at(lambda s: s.share, state, jnp.zeros_like(state.share)), target())
    assert gone is not None
    np.testing.assert_allclose(gone(x), plain.critic_function(state.inner, target())(x), rtol=1e-6)


def test_the_share_follows_its_schedule_and_never_rises_again():
    objective, family = Bridged(Still(), Ramp(0.4, 0.0, 0.5), base=BASE), equilibrium()
    short, long = objective.bind(8), objective.bind(80)
    state, seen = short.init(jax.random.key(0), family, target()), []
    for _ in range(8):
        _, state, metrics = short.step(jax.random.key(1), family, state, target(), None)
        seen.append(float(metrics["bridge"]))
    np.testing.assert_allclose(seen, [0.4, 0.3, 0.2, 0.1, 0, 0, 0, 0], atol=1e-6)
    _, state, metrics = long.step(jax.random.key(1), family, state, target(), None)
    assert long.schedule(8) > 0.2
    assert metrics["bridge"] == state.share == 0.0


def test_draws_where_the_density_is_zero_or_has_no_value_leave_the_odds_finite():
    def half(x):  # no value left of −5, no mass left of −3.5
        return jnp.where(x[0] < -5.0, jnp.nan, jnp.where(x[0] < -3.5, -jnp.inf, -0.5 * jnp.sum(x**2)))

    objective, family = Bridged(Still(), 0.5, base=BASE), equilibrium()
    state = objective.init(jax.random.key(0), family, LogDensity(half, dim=2))
    _, after, _ = objective.step(jax.random.key(1), family, state, LogDensity(half, dim=2), None)
    assert np.isfinite([state.log_odds, after.log_odds]).all()
    bridge = BridgedTarget(LogDensity(half, dim=2), BASE, after.log_odds)
    for x in (jnp.array([-6.0, 0.0]), jnp.array([-4.0, 0.0])):  # there the base is all there is
        assert float(bridge.base_share(x)) == 1.0
        np.testing.assert_array_equal(bridge.score(x), BASE.score(x))


@pytest.mark.slow
def test_it_composes_with_annealing_both_ways():
    family, key = small_family(), jax.random.key(0)
    inner = PathKL(num_particles=16, critic_warmup=0, critic=MLPCritic((8,)))
    for objective in (
        Annealed(Bridged(inner, 0.4, base=BASE), base=IsotropicGaussian(2)),
        Bridged(Annealed(inner, base=IsotropicGaussian(2)), 0.4, base=BASE),
    ):
        bound = objective.bind(10)
        bound.check(family, target())
        _, _, metrics = bound.step(key, family, bound.init(key, family, target()), target(), None)
        np.testing.assert_allclose([metrics["beta"], metrics["bridge"]], [0.1, 0.4], rtol=1e-6)


@pytest.mark.usefixtures("as_a_user")
def test_what_it_cannot_handle_it_refuses_with_a_sentence():
    family, score_only = small_family(), ScoreFunction(lambda x: -x, dim=2)
    inner = PathKL(critic_warmup=0)
    with pytest.raises(sivi.MissingLogProb, match="Bridged needs the target's log density"):
        Bridged(inner, 0.4, base=BASE).check(family, score_only)
    with pytest.raises(sivi.MissingLogProb, match="base must know its log density; ScoreFunction"):
        Bridged(inner, 0.4, base=score_only).check(family, Banana())
    with pytest.raises(ValueError, match=r"base must have the target's dim, 2; got 3"):
        Bridged(inner, 0.4, base=IsotropicGaussian(3)).check(family, Banana())
    with pytest.raises(ValueError, match=r"schedule must give .* between 0 and 1; got 1.5"):
        Bridged(inner, 1.5, base=BASE).check(family, Multimodal())
    with pytest.raises(ValueError, match="num_samples"):
        Bridged(inner, 0.4, base=BASE, num_samples=0)
