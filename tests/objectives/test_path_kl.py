"""PathKL on the linear-Gaussian family, whose KL is known in closed form."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from oracles import (
    LinearGaussian,
    bonferroni,
    elbo_gradient,
    fisher_divergence,
    flat,
    gaussian_target,
    gradient_of,
    largest_z,
    linear_gaussian_family,
    linear_gaussian_model,
    log_q,
    monte_carlo,
    optimal_critic,
    paired_z,
    quadrature_family,
)
from sivi.critics import MLPCritic
from sivi.objectives import PathKL, critic_objective


def path_gradient(objective, family, target, noise):
    critic = optimal_critic(family.conditional, target)

    def gradient(*one):
        batch = tuple(array[None] for array in one)
        grads, metrics = eqx.filter_grad(lambda f: objective.family_loss(f, critic, target, None, batch), has_aux=True)(
            family
        )
        return {**jax.tree.map(jnp.negative, gradient_of(grads)), **metrics}

    return monte_carlo(gradient, noise)


def test_gradient_at_the_optimal_critic_is_that_of_the_kl_and_the_loss_is_the_fisher_divergence(x64):
    family, target = linear_gaussian_family(), gaussian_target()
    noise = family.sample_noise(jax.random.key(0), (100_000,))
    result = path_gradient(PathKL(clip=None), family, target, noise)
    divergence = fisher_divergence(family.conditional, target)
    truth = {**elbo_gradient(family.conditional, target), "loss": divergence, "critic_norm": divergence}
    count = sum(leaf.size for leaf in jax.tree.leaves(truth))
    scores = largest_z(result, truth)
    assert max(scores.values()) < bonferroni(count), scores


@pytest.mark.parametrize("mixing", [pytest.param("normal", marks=pytest.mark.slow), "implicit"])
def test_gradient_with_sigma_of_z_is_that_of_the_kl_by_quadrature(x64, mixing):
    """Against autodiff of E[log q(x) − log p(x)] with log q by quadrature, draw for draw with the same noise."""
    family, target = quadrature_family(mixing), sivi.targets.Multimodal()
    noise = family.sample_noise(jax.random.key(0), (20_000,))

    def difference(*one):
        x_of = lambda f: f.joint(*one).x  # noqa: E731
        full = eqx.filter_grad(lambda f: log_q(f, x_of(f)) - target.log_prob(x_of(f)))(family)
        score = jax.grad(lambda x: log_q(family, x))
        field = lambda x: lambda s: s - score(x)  # noqa: E731
        batch = tuple(array[None] for array in one)
        path = eqx.filter_grad(lambda f: PathKL(clip=None).family_loss(f, field, target, None, batch)[0])(family)
        # The two differ by the score of q at the draw, whose mean is zero.
        return flat(full) - flat(path)

    result = monte_carlo(difference, noise, block=1000)
    assert float(jnp.abs(paired_z(result)).max()) < bonferroni(result.mean.size)


def test_clipping_shortens_only_what_is_long(x64):
    family, target = linear_gaussian_family(), gaussian_target()
    noise = family.sample_noise(jax.random.key(0), (64,))
    critic = optimal_critic(family.conditional, target)
    gradient = {
        clip: eqx.filter_grad(lambda f, c=clip: PathKL(clip=c).family_loss(f, critic, target, None, noise)[0])(family)
        for clip in (None, 1e6, 0.01)
    }
    for a, b in zip(jax.tree.leaves(gradient[None]), jax.tree.leaves(gradient[1e6]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    size = {clip: np.linalg.norm(np.asarray(gradient[clip].conditional.b)) for clip in gradient}
    # Every particle's g is at most 0.01 in units of the conditional's score, whose largest size is 1/0.5.
    assert size[0.01] < 0.01 * np.sqrt(3) / 0.5 * 1.5 < size[None]


@pytest.mark.slow
@pytest.mark.parametrize("family_name", ["linear", "sigma of z"])
def test_the_critic_learns_the_score_of_q(family_name):
    """With the family held still, S + f_ψ reaches S − ∇log q, in closed form or by quadrature."""
    import optax

    if family_name == "linear":
        family, target = linear_gaussian_family(), gaussian_target()
        truth = lambda x: optimal_critic(family.conditional, target)(x)(None)  # noqa: E731
    else:
        family, target = quadrature_family("implicit"), sivi.targets.Multimodal()
        truth = lambda x: target.score(x) - jax.grad(lambda y: log_q(family, y))(x)  # noqa: E731
    objective = PathKL(optimizer=optax.sgd(0.0), num_particles=8, critic_particles=512, critic_warmup=0)
    posterior = sivi.fit(target, family=family, objective=objective, num_steps=1500, whiten=None, progress=False)
    points = jax.vmap(family.sample)(jax.random.split(jax.random.key(1), 2000))
    learnt = jax.vmap(objective.critic_function(posterior.state, target))(points)
    exact = jax.lax.map(truth, points)
    score = exact - jax.vmap(target.score)(points)
    error = jnp.mean(jnp.sum((learnt - exact) ** 2, axis=1)) / jnp.mean(jnp.sum(score**2, axis=1))
    assert float(error) < 0.01


def test_warm_up_shares_no_key_with_the_layers_of_the_network():
    key = jax.random.key(0)
    assert jax.random.fold_in(key, 1) == jax.random.split(key)[1]  # why a small number would not do
    warmup_key = jax.random.fold_in(key, critic_objective._WARMUP_STREAM)
    assert not any(warmup_key == layer_key for layer_key in jax.random.split(key, 16))


def test_warm_up_trains_the_critic_before_the_family_moves():
    family, target = linear_gaussian_family(), gaussian_target()
    points = jax.vmap(family.sample)(jax.random.split(jax.random.key(1), 2000))
    exact = jax.vmap(lambda x: optimal_critic(family.conditional, target)(x)(None))(points)

    def error(warmup):
        objective = PathKL(critic_warmup=warmup).bind(1000)
        state = eqx.filter_jit(objective.init)(jax.random.key(0), family, target)
        assert int(state.step) == 0
        return float(jnp.mean((jax.vmap(objective.critic_function(state, target))(points) - exact) ** 2))

    assert error(500) < 0.1 * error(0)


@pytest.mark.parametrize(("num_data", "batch_size"), [(4, 2), (5, 4)])
def test_minibatch_loss_and_gradient_are_unbiased(x64, num_data, batch_size):
    target, family = linear_gaussian_model(num_data), linear_gaussian_family()
    objective = PathKL(clip=None)
    critic = objective.critic.init(jax.random.key(1), family)
    field = objective.full_critic(critic.at(family), jnp.int32(0))
    noise = family.sample_noise(jax.random.key(2), (6,))
    gradient = eqx.filter_jit(
        eqx.filter_grad(lambda f, b: objective.family_loss(f, field, target, b, noise), has_aux=True)
    )
    whole = gradient(family, None)
    each = [gradient(family, jnp.array(b)) for b in itertools.permutations(range(num_data), batch_size)]
    mean = jax.tree.map(lambda *leaves: sum(leaves) / len(each), *each)
    for a, b in zip(jax.tree.leaves(mean), jax.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_the_critics_weights_leave_the_slope_of_its_regression_alone():
    """A linear critic of a few draws at a time, with the family held still, against −∇log q in one dimension.

    Weights from a batch mean that counts the draw itself belittle the draws whose score is large: 0.8 times the slope.
    """
    conditional = LinearGaussian(jnp.array([[0.8]]), jnp.array([0.3]), jnp.log(jnp.array([0.6])))
    family, target = sivi.SemiImplicit(sivi.NormalMixing(1), conditional), sivi.targets.IsotropicGaussian(1)
    rate = sivi.optimizers.Adam(sivi.schedules.Cosine(3e-3))
    objective = PathKL(critic_particles=8, critic_warmup=40_000, critic=MLPCritic(()), critic_optimizer=rate)
    state = eqx.filter_jit(objective.bind(40_000).init)(jax.random.key(0), family, target)
    slope = state.critic(jnp.ones(1)) - state.critic(jnp.zeros(1))
    np.testing.assert_allclose(slope * conditional.covariance[0], 1.0, rtol=0.05)
    np.testing.assert_allclose(state.critic(conditional.b), 0.0, atol=0.05)


def test_warm_up_trains_the_critic_however_short_the_run():
    """The critic's rate falls over the run; a run of 20 updates must not end the warm-up after as many."""
    family, target = linear_gaussian_family(), gaussian_target()
    points = jax.vmap(family.sample)(jax.random.split(jax.random.key(1), 2000))
    exact = jax.vmap(lambda x: optimal_critic(family.conditional, target)(x)(None))(points)

    def error(num_steps):
        objective = PathKL(critic_warmup=300).bind(num_steps)
        state = eqx.filter_jit(objective.init)(jax.random.key(0), family, target)
        return float(jnp.mean((jax.vmap(objective.critic_function(state, target))(points) - exact) ** 2))

    short = error(20)
    assert short < 0.05 * float(jnp.mean((jax.vmap(target.score)(points) - exact) ** 2))
    assert short < 1.5 * error(10_000)


def test_serves_a_score_without_a_derivative():
    """A score behind a callback, which ScoreMatching refuses: N(0, ¼ I), from a family nearly three times as wide."""

    def score(x):
        return jax.pure_callback(lambda x: -np.asarray(x) * 4.0, jax.ShapeDtypeStruct(x.shape, x.dtype), x,
                                 vmap_method="broadcast_all")  # fmt: skip

    target = sivi.targets.ScoreFunction(score, dim=2)
    with pytest.raises(TypeError, match="differentiates"):
        sivi.fit(target, objective=sivi.objectives.ScoreMatching(), num_steps=2, whiten=None, progress=False)
    conditional = sivi.DiagonalGaussian(2, 2, hidden=(16,), key=jax.random.key(0))
    posterior = sivi.fit(
        target,
        family=sivi.SemiImplicit(sivi.NormalMixing(2), conditional),
        objective=PathKL(
            num_particles=32,
            critic=MLPCritic((16,), skip=True),
            critic_warmup=200,
            optimizer=sivi.optimizers.Adam(sivi.schedules.Cosine(1e-2), b2=0.99),
        ),
        num_steps=600,
        progress=False,
    )
    draws = np.asarray(posterior.sample(4000, key=1))
    # In three runs from other keys the fitted sd was within 0.5 ± 0.035 and the mean within ± 0.07.
    np.testing.assert_allclose(draws.std(0), 0.5, rtol=0.12)
    np.testing.assert_allclose(draws.mean(0), 0.0, atol=0.12)


def test_refuses_a_scale_that_depends_on_z(as_a_user):
    family = sivi.SemiImplicit(
        sivi.NormalMixing(2), sivi.DiagonalGaussian(2, 2, scale="network", key=jax.random.key(0))
    )
    with pytest.raises(TypeError, match=r"PathKL needs a family whose σ is the same for all z.*MixtureKL"):
        sivi.fit(sivi.targets.Banana(), family=family, objective=PathKL(), whiten=None, progress=False)
