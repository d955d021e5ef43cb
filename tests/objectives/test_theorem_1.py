"""Theorem 1 of the paper on a family whose Fisher divergence is known in closed form."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from oracles import (
    bonferroni,
    fisher_divergence,
    gaussian_target,
    largest_z,
    linear_gaussian_family,
    linear_gaussian_model,
    monte_carlo,
    optimal_critic,
)
from sivi.objectives import PlugInFisher, ScoreMatching, minimax

NUM_DRAWS = 100_000


@pytest.fixture
def setting(x64):
    family, target = linear_gaussian_family(), gaussian_target()
    noise = family.sample_noise(jax.random.key(0), (NUM_DRAWS,))
    return family, target, noise


def per_draw(loss):
    """From a loss of a batch of noise to one of a single draw."""
    return lambda *noise: loss(tuple(array[None] for array in noise))


def test_value_at_the_optimal_critic_is_the_fisher_divergence(setting):
    family, target, noise = setting
    critic = optimal_critic(family.conditional, target)
    result = monte_carlo(per_draw(lambda n: minimax(family, critic, target, None, n)[0]), noise)
    truth = fisher_divergence(family.conditional, target)
    assert float(truth) > 1.0  # a divergence near zero would prove little
    assert max(largest_z(result, truth).values()) < bonferroni(1)


def test_critic_norm_at_the_optimal_critic_is_the_fisher_divergence(setting):
    family, target, noise = setting
    critic = optimal_critic(family.conditional, target)
    result = monte_carlo(per_draw(lambda n: minimax(family, critic, target, None, n)[1]["critic_norm"]), noise)
    assert max(largest_z(result, fisher_divergence(family.conditional, target)).values()) < bonferroni(1)


def gradients(objective, setting):
    """Monte Carlo gradient of the family's loss at the optimal critic, and the closed form's."""
    family, target, noise = setting
    critic = optimal_critic(family.conditional, target)

    def gradient(mixing_noise, eps):
        def loss(conditional):
            moved = sivi.SemiImplicit(family.mixing, conditional)
            return objective.family_loss(moved, critic, target, None, (mixing_noise[None], eps[None]))[0]

        grad = eqx.filter_grad(loss)(family.conditional)
        return {"A": grad.A, "b": grad.b, "log_sigma": grad.log_sigma}

    exact = eqx.filter_grad(fisher_divergence)(family.conditional, target)
    truth = {"A": exact.A, "b": exact.b, "log_sigma": exact.log_sigma}
    return monte_carlo(gradient, noise), truth


def test_family_gradient_at_the_optimal_critic_is_that_of_the_fisher_divergence(setting):
    result, truth = gradients(ScoreMatching(), setting)
    count = sum(leaf.size for leaf in jax.tree.leaves(truth))
    scores = largest_z(result, truth)
    assert max(scores.values()) < bonferroni(count), scores


def test_plug_in_gradient_is_biased_in_every_parameter(setting):
    result, truth = gradients(PlugInFisher(), setting)
    scores = largest_z(result, truth)
    assert min(scores.values()) > 25.0, scores


@pytest.mark.parametrize("size", [0.1, 1.0])
def test_value_for_a_critic_off_by_a_field(setting, size):
    """L(φ, g* + r) = Fisher divergence − E‖r‖²."""
    family, target, noise = setting
    best = optimal_critic(family.conditional, target)

    def error(x):
        return size * jnp.array([jnp.sin(x[0]) + 0.5, x[1] * x[2], 1.0 - x[0] ** 2])

    def difference(mixing_noise, eps):
        n = (mixing_noise[None], eps[None])
        x = family.joint(mixing_noise, eps).x
        value = minimax(family, lambda x: lambda s: best(x)(s) + error(x), target, None, n)[0]
        return value + jnp.sum(error(x) ** 2)

    result = monte_carlo(difference, noise)
    truth = fisher_divergence(family.conditional, target)
    assert max(largest_z(result, truth).values()) < bonferroni(1)


@pytest.mark.slow
def test_the_critic_climbs_to_the_fisher_divergence():
    """With the family held still, a trained critic attains the maximum of Theorem 1."""
    import optax

    family, target = linear_gaussian_family(), gaussian_target()
    objective = ScoreMatching(
        optimizer=optax.sgd(0.0), critic_steps=1, num_particles=512, critic_optimizer=sivi.optimizers.Adam(3e-3)
    )
    posterior = sivi.fit(target, family=family, objective=objective, num_steps=3000, whiten=None, progress=False)
    truth = float(fisher_divergence(family.conditional, target))
    tail = {name: values[-1000:].mean() for name, values in posterior.history.items()}
    np.testing.assert_allclose(tail["loss"], truth, rtol=0.05)
    np.testing.assert_allclose(tail["critic_norm"], truth, rtol=0.05)


@pytest.mark.parametrize(
    ("psi", "num_data", "batch_size"),
    [(0.0, 5, 3), (0.4, 4, 2), (0.4, 4, 4), (0.4, 5, 3), (1.0, 5, 4), (1.0, 5, 3)],
)
def test_minibatch_loss_and_gradient_are_unbiased(x64, psi, num_data, batch_size):
    """Over all minibatches without replacement, both players' gradients average to those of all data."""
    target = linear_gaussian_model(num_data)
    family = linear_gaussian_family()
    objective = ScoreMatching(psi=psi)
    critic = objective.critic.init(jax.random.key(1), family)
    noise = family.sample_noise(jax.random.key(2), (8,))
    split = psi != 0.0

    def loss(players, batch):
        family, critic = players
        field = objective.full_critic(critic.at(family), jnp.int32(0))
        value, metrics = minimax(family, field, target, batch, noise, split=split)
        return value, metrics["critic_norm"]

    players = (family, critic)
    gradient = eqx.filter_jit(eqx.filter_value_and_grad(loss, has_aux=True))
    whole = gradient(players, None)
    each = [gradient(players, jnp.array(b)) for b in itertools.permutations(range(num_data), batch_size)]
    mean = jax.tree.map(lambda *leaves: sum(leaves) / len(each), *each)
    for a, b in zip(jax.tree.leaves(mean[1]), jax.tree.leaves(whole[1]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(mean[0][0], whole[0][0], rtol=1e-10)
    np.testing.assert_allclose(mean[0][1], whole[0][1], rtol=1e-10)


@pytest.mark.parametrize("objective", [ScoreMatching(psi=0.4, split=False), PlugInFisher(psi=0.4, split=False)])
def test_without_a_split_the_score_of_a_minibatch_is_squared_as_it_is(x64, objective):
    """Minibatch by minibatch it is what a target with these rows alone would have; on average it is biased."""
    target, family = linear_gaussian_model(4), linear_gaussian_family()
    critic = objective.critic.init(jax.random.key(1), family)
    field = objective.full_critic(critic.at(family), jnp.int32(0))
    noise = family.sample_noise(jax.random.key(2), (8,))
    batches = [jnp.array(b) for b in itertools.combinations(range(4), 2)]

    def plain(batch):
        x, own = (lambda joint: (joint.x, joint.score))(jax.vmap(family.joint)(*noise))
        score = jax.vmap(lambda x: target.score(x, batch))(x)
        g = jax.vmap(lambda x, s: critic(x) + 0.4 * s)(x, score)
        norm = jnp.sum(g * g, axis=1).mean()
        if isinstance(objective, PlugInFisher):
            return norm
        return 2.0 * jnp.sum(g * (score - own), axis=1).mean() - norm

    found = [objective.family_loss(family, field, target, batch, noise)[0] for batch in batches]
    np.testing.assert_allclose(found, [plain(batch) for batch in batches], rtol=1e-10)
    whole = objective.family_loss(family, field, target, None, noise)[0]
    assert abs(np.mean(found) - whole) > 1e-3 * abs(whole)
    np.testing.assert_allclose(
        objective.critic_loss(critic, jnp.int32(0), family, target, batches[0], noise),
        -minimax(family, field, target, batches[0], noise, split=False)[0],
    )


def test_a_split_is_said_by_true_false_or_nothing(as_a_user):
    assert [ScoreMatching(psi=1.0, split=split).splits for split in (None, True, False)] == [True, True, False]
    assert not ScoreMatching(psi=0.0, split=True).splits
    for split, in_rotation in ((None, False), (True, True), (False, False)):
        plain = ScoreMatching(split=split)
        wrapped = (plain, sivi.objectives.Annealed(plain), sivi.objectives.Bridged(plain, 0.1, base=gaussian_target()))
        for objective in wrapped:
            for batching, splits in (("rotate", in_rotation), ("shuffle", split is not False)):
                found = objective.bind(sivi.schedules.RunPlan.of(10, batching))
                assert getattr(found, "objective", found).splits == splits
    with pytest.raises(TypeError, match="split must be True, False or None; got 'no'"):
        ScoreMatching(split="no")


@pytest.mark.parametrize("psi", [0.0, 1.0, sivi.schedules.StepDecay(1.0, 0.9, 10)])
def test_whole_critic_is_network_plus_psi_times_score(psi):
    target, family = gaussian_target(), linear_gaussian_family()
    objective = ScoreMatching(psi=psi).bind(100)
    state = objective.init(jax.random.key(0), family, target)
    state = eqx.tree_at(lambda s: s.step, state, jnp.int32(25))
    x = jnp.array([0.3, -0.2, 1.0])
    expected_psi = 0.81 if isinstance(psi, sivi.schedules.Schedule) else psi
    expected = state.critic(x) + expected_psi * target.score(x)
    np.testing.assert_allclose(objective.critic_function(state, target)(x), expected, rtol=1e-5)


def test_minibatch_plug_in_loss_is_unbiased(x64):
    """With ψ ≠ 0 the plug-in squares the score too."""
    target, family = linear_gaussian_model(4), linear_gaussian_family()
    objective = PlugInFisher(psi=0.7)
    field = objective.full_critic(objective.critic.init(jax.random.key(1), family).at(family), jnp.int32(0))
    noise = family.sample_noise(jax.random.key(2), (8,))
    loss = eqx.filter_jit(lambda batch: objective.family_loss(family, field, target, batch, noise)[0])
    each = [loss(jnp.array(b)) for b in itertools.permutations(range(4), 2)]
    np.testing.assert_allclose(np.mean(each), loss(None), rtol=1e-10)
