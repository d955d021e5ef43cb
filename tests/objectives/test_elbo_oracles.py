"""SIVI and UIVI on the linear-Gaussian family, whose ELBO and posterior of z are known in closed form."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from oracles import (
    Accumulated,
    bonferroni,
    elbo_gradient,
    exact_mixing_noise,
    expected_log_prob,
    fisher_divergence,
    flat,
    gaussian_target,
    gradient_of,
    largest_z,
    linear_gaussian_family,
    linear_gaussian_model,
    log_q,
    mixing_posterior,
    monte_carlo,
    network_family,
    paired_z,
    quadrature_family,
)
from sivi.objectives import SurrogateELBO, UnbiasedELBO
from sivi.objectives.log_mixture import log_mixture
from sivi.objectives.unbiased_elbo import surrogate

pytestmark = pytest.mark.usefixtures("x64")


def gaps(num_aux: int, num_repeats: int = 1000, num_particles: int = 50) -> Accumulated:
    """ELBO less bound, E[log (1/(L+1)) Σ q(x|z_l) − log q(x)], over independent updates.

    The particles of one update share their auxiliary draws. With log q known, log p cancels draw by draw.
    """
    family, target = linear_gaussian_family(), gaussian_target()
    objective = SurrogateELBO(num_aux=num_aux)
    q = sivi.targets.GaussianMixture([family.conditional.b], [family.conditional.covariance])

    def estimate(key):
        noise_key, aux_key = jax.random.split(key)
        noise = family.sample_noise(noise_key, (num_particles,))
        x = jax.vmap(lambda *one: family.joint(*one).x)(*noise)
        exact = jax.vmap(target.log_prob)(x) - jax.vmap(q.log_prob)(x)
        return jnp.mean(exact - objective.bounds(family, target, None, noise, aux_key, num_aux))

    return monte_carlo(estimate, (jax.random.split(jax.random.key(num_aux), num_repeats),), block=500)


def test_surrogate_bound_lies_under_the_elbo_and_rises_to_it():
    sizes = (0, 1, 10, 100, 1000)
    results = [gaps(num_aux) for num_aux in sizes]
    mean, error = (np.array([float(getattr(r, part)) for r in results]) for part in ("mean", "error"))
    limit = bonferroni(10)
    assert (mean > limit * error).all(), mean
    assert (mean[:-1] - mean[1:] > limit * np.hypot(error[:-1], error[1:])).all(), mean
    # Jensen: the gap falls as 1/L.
    np.testing.assert_allclose(mean[4] / mean[3], 0.1, rtol=0.3)


@pytest.mark.slow
def test_surrogate_bound_and_gradient_with_sigma_of_z_go_to_those_of_the_elbo():
    """ELBO less bound, with log q by quadrature on the bound's own draws: positive, and falling as c/L."""
    family, target = quadrature_family("implicit"), sivi.targets.Multimodal()
    objective = SurrogateELBO(num_aux=1000, block_size=100)

    def gap(family, noise, aux_key, num_aux):
        x = jax.vmap(lambda *one: family.joint(*one).x)(*noise)
        exact = jax.vmap(lambda x: target.log_prob(x) - log_q(family, x))(x)
        return jnp.mean(exact - objective.bounds(family, target, None, noise, aux_key, num_aux))

    @jax.jit
    def gaps(key, num_aux):
        def estimate(key):
            noise_key, aux_key = jax.random.split(key)
            noise = family.sample_noise(noise_key, (20,))
            value, grads = eqx.filter_value_and_grad(gap)(family, noise, aux_key, num_aux)
            return value, flat(grads)

        each = jax.lax.map(estimate, jax.random.split(key, 500), batch_size=100)
        return [Accumulated(array.mean(0), array.std(0) / np.sqrt(500)) for array in each]

    results = [gaps(jax.random.key(num_aux), num_aux) for num_aux in (0, 1, 10, 100, 1000)]
    values, grads = zip(*results, strict=True)
    mean, error = (np.array([float(getattr(v, part)) for v in values]) for part in ("mean", "error"))
    limit = bonferroni(7)
    assert (mean[:4] > limit * error[:4]).all(), mean
    assert (mean[:3] - mean[1:4] > limit * np.hypot(error[:3], error[1:4])).all(), mean
    # The gradient of the gap is what the two gradients differ by. It is plain at L = 10, and a hundredth of that at
    # L = 1000; or up to twice as much, since higher orders lessen it at L = 10. The length of the noise is at most
    # that of its standard errors times a normal's quantile, were all entries one and the same.
    size = lambda array: float(jnp.linalg.norm(array))  # noqa: E731
    assert float(jnp.abs(paired_z(grads[2])).max()) > 10.0
    assert size(grads[4].mean) < 2 * 10 / 1000 * size(grads[2].mean) + bonferroni(1) * size(grads[4].error)


@pytest.mark.parametrize(("num_data", "batch_size"), [(4, 2), (5, 4)])
def test_minibatch_bounds_and_gradient_are_unbiased(num_data, batch_size):
    """Over all minibatches without replacement; with auxiliary draws held fixed the bound is linear in log p."""
    target, family = linear_gaussian_model(num_data), linear_gaussian_family()
    objective, key = SurrogateELBO(num_aux=7), jax.random.key(1)
    noise = family.sample_noise(jax.random.key(2), (6,))

    def bound(family, batch):
        bounds = objective.bounds(family, target, batch, noise, key, 7)
        return jnp.mean(bounds), bounds

    assert_unbiased_over_minibatches(eqx.filter_grad(bound, has_aux=True), family, num_data, batch_size)


def assert_unbiased_over_minibatches(function, family, num_data, batch_size):
    """`function(family, batch)` averages, over all ordered minibatches, to that of all data, and is not constant."""
    function = eqx.filter_jit(function)
    whole = flat(function(family, None))
    each = jnp.stack(
        [flat(function(family, jnp.array(b))) for b in itertools.permutations(range(num_data), batch_size)]
    )
    np.testing.assert_allclose(each.mean(0), whole, rtol=1e-9, atol=1e-9)
    assert float(each.std(0).max()) > 0.1


@pytest.mark.parametrize(("num_data", "batch_size"), [(4, 2), (5, 4), (5, 3)])
def test_minibatch_gradient_and_recorded_loss_of_the_unbiased_elbo_are_unbiased(num_data, batch_size):
    """The loss is a product of two scores of the target, and unbiased all the same."""
    target, family = linear_gaussian_model(num_data), linear_gaussian_family()
    noise = family.sample_noise(jax.random.key(2), (6,))
    score = jax.random.normal(jax.random.key(3), (6, 3))

    def loss(family, batch):
        return surrogate(family, target, batch, noise, score)

    assert_unbiased_over_minibatches(eqx.filter_grad(loss, has_aux=True), family, num_data, batch_size)


def test_surrogate_without_auxiliary_draws_is_the_conditional_bound():
    """L = 0: E[log p(x) − log q(x|z)], with the entropy of the conditional in closed form."""
    family, target = linear_gaussian_family(), gaussian_target()
    objective, conditional = SurrogateELBO(num_aux=0), family.conditional
    noise = family.sample_noise(jax.random.key(0), (100_000,))

    def bound(*one):
        return objective.bounds(family, target, None, tuple(array[None] for array in one), jax.random.key(0), 0)[0]

    result = monte_carlo(bound, noise)
    entropy = jnp.sum(conditional.log_sigma) + 1.5 * (1.0 + jnp.log(2 * jnp.pi))
    truth = expected_log_prob(conditional, target) + entropy
    assert max(largest_z(result, truth).values()) < bonferroni(1)


@pytest.mark.parametrize(
    ("layers", "num_aux", "block_size"),
    [("linear", 0, 4), ("linear", 1, 4), ("linear", 8, 4), ("network", 7, 4), ("network", 8, 64)],
)
def test_blocks_change_neither_value_nor_gradient(num_aux, block_size, layers):
    """The mixture in blocks, with its own backward pass, against one logsumexp and plain autodiff."""
    family = linear_gaussian_family() if layers == "linear" else network_family()
    noise = family.sample_noise(jax.random.key(1), (6,))
    key = jax.random.key(2)
    weights = jnp.arange(1.0, 7.0)

    def arguments(family):
        joint = jax.vmap(family.joint)(*noise)
        own = jax.vmap(lambda z, x: family.conditional.at(z).log_prob(x))(joint.z, joint.x)
        return family, joint.x, own

    def blocked(family):
        return jnp.sum(weights * log_mixture(arguments(family), key, num_aux, block_size))

    def plain(family):
        _, x, own = arguments(family)
        num_blocks = -(-num_aux // block_size)
        gammas = [family.mixing.sample_noise(jax.random.fold_in(key, i), (block_size,)) for i in range(num_blocks)]
        columns = [own]
        for gamma in jnp.concatenate(gammas)[:num_aux] if gammas else []:
            at = family.conditional.at(family.mixing.transform(gamma))
            columns.append(jax.vmap(at.log_prob)(x))
        return jnp.sum(weights * (jax.nn.logsumexp(jnp.stack(columns), axis=0) - jnp.log(1.0 + num_aux)))

    (value, grads), (plain_value, plain_grads) = (
        eqx.filter_jit(eqx.filter_value_and_grad(f))(family) for f in (blocked, plain)
    )
    np.testing.assert_allclose(value, plain_value, rtol=1e-12)
    for a, b in zip(jax.tree.leaves(grads), jax.tree.leaves(plain_grads), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def test_surrogate_memory_does_not_grow_with_the_number_of_auxiliary_draws():
    family, target = linear_gaussian_family(), gaussian_target()

    def temporary_bytes(num_aux):
        objective = SurrogateELBO(num_particles=200, num_aux=num_aux, block_size=50).bind(10)
        state = objective.init(jax.random.key(0), family, target)
        step = eqx.filter_jit(objective.step).lower(jax.random.key(0), family, state, target, None).compile()
        return step.compiled.memory_analysis().temp_size_in_bytes

    few, many = temporary_bytes(100), temporary_bytes(100_000)
    assert few == many
    assert few < 200 * 100_000  # far from m · L numbers


def test_growing_number_of_auxiliary_draws():
    schedule = sivi.schedules.Ramp(2, 40, until=0.5)
    posterior = sivi.fit(
        sivi.targets.Banana(),
        objective=SurrogateELBO(num_aux=schedule, block_size=16),
        num_steps=20,
        whiten=None,
        progress=False,
    )
    np.testing.assert_array_equal(posterior.history["num_aux"][[0, 5, 10, 19]], [2, 21, 40, 40])


def unbiased_gradient(family, target, noise, score_of):
    """Per draw, minus the gradient of UIVI's surrogate, given the averaged score at each draw."""

    def gradient(mixing_noise, eps, key):
        one = (mixing_noise[None], eps[None])
        score = score_of(key, family.joint(mixing_noise, eps))[None]
        grads = eqx.filter_grad(lambda f: surrogate(f, target, None, one, score)[0])(family)
        return jax.tree.map(jnp.negative, gradient_of(grads))

    keys = jax.random.split(jax.random.key(11), len(noise[0]))
    return monte_carlo(gradient, (*noise, keys), block=5000)


def test_unbiased_gradient_with_exact_draws_of_z_given_x():
    family, target = linear_gaussian_family(), gaussian_target()
    noise = family.sample_noise(jax.random.key(0), (100_000,))

    def score_of(key, joint):
        z = exact_mixing_noise(key, family.conditional, joint.x)
        return family.conditional.at(z).score(joint.x)

    result = unbiased_gradient(family, target, noise, score_of)
    truth = elbo_gradient(family.conditional, target)
    count = sum(leaf.size for leaf in jax.tree.leaves(truth))
    assert max(largest_z(result, truth).values()) < bonferroni(count)


def chain_gradient(objective, num_samples, key=0, family=None, step_size=None):
    """UIVI's gradient with the averaged scores of its own inner chains, and the last z of each beside the first."""
    family = linear_gaussian_family() if family is None else family
    target = gaussian_target()
    noise = family.sample_noise(jax.random.key(key), (num_samples,))
    x = jax.vmap(lambda *one: family.joint(*one).x)(*noise)
    log_step_size = jnp.log(jnp.asarray(objective.step_size if step_size is None else step_size))
    average = eqx.filter_jit(objective.average_score)
    scores, _, _ = average(jax.random.key(key + 1), family, x, noise[0], log_step_size)

    def gradient(mixing_noise, eps, score):
        one = (mixing_noise[None], eps[None])
        grads = eqx.filter_grad(lambda f: surrogate(f, target, None, one, score[None])[0])(family)
        return jax.tree.map(jnp.negative, gradient_of(grads))

    return monte_carlo(gradient, (*noise, scores), block=5000), x, noise[0], scores


def test_unbiased_gradient_with_a_chain_that_forgets_its_start():
    family = linear_gaussian_family()
    conditional = family.conditional
    objective = UnbiasedELBO(num_iterations=25, burn_in=24, num_leapfrog=4, step_size=0.15)
    result, x, z, scores = chain_gradient(objective, 100_000)
    # Only the last draw was kept, so its score gives A z′ = x − b + σ² ∇_x log q(x|z′).
    last = (x - conditional.b + jnp.exp(2 * conditional.log_sigma) * scores) @ jnp.linalg.pinv(conditional.A).T
    means = jax.vmap(lambda x: mixing_posterior(conditional, x)[0])(x)
    sd = jnp.sqrt(jnp.diagonal(mixing_posterior(conditional, x[0])[1]))
    first, last = (z - means) / sd, (last - means) / sd
    correlation = first.T @ last / len(x)
    assert float(jnp.abs(correlation).max()) < 4.5 / np.sqrt(len(x))
    # And the chain samples z given x: moments of the posterior.
    np.testing.assert_allclose(last.mean(0), 0.0, atol=4.5 / np.sqrt(len(x)))
    np.testing.assert_allclose((last**2).mean(0), 1.0, atol=4.5 * np.sqrt(2 / len(x)))
    truth = elbo_gradient(conditional, gaussian_target())
    count = sum(leaf.size for leaf in jax.tree.leaves(truth))
    scores = largest_z(result, truth)
    assert max(scores.values()) < bonferroni(count), scores


def test_a_chain_that_remembers_its_start_biases_what_multiplies_the_noise_and_not_the_mean():
    objective = UnbiasedELBO(num_iterations=2, burn_in=1, num_leapfrog=2, step_size=0.1)
    result, *_ = chain_gradient(objective, 100_000)
    scores = largest_z(result, elbo_gradient(linear_gaussian_family().conditional, gaussian_target()))
    assert scores["b"] < bonferroni(3)
    assert min(scores["A"], scores["log_sigma"]) > 14.0, scores


@pytest.mark.slow
@pytest.mark.parametrize("mixing", ["normal", "implicit"])
def test_inner_chain_averages_the_score_of_q_when_sigma_depends_on_z(mixing):
    """∇log q(x) by quadrature over a one-dimensional mixing noise, against the inner chain's average."""
    family = quadrature_family(mixing)
    generating, eps = family.sample_noise(jax.random.key(5))
    x = family.joint(generating, eps).x
    truth = jax.grad(lambda x: log_q(family, x))(x)
    objective = UnbiasedELBO(num_iterations=60, burn_in=50, num_leapfrog=8, step_size=0.3)
    num = 20_000
    points, start = jnp.broadcast_to(x, (num, 2)), jnp.broadcast_to(generating, (num, 1))
    scores, _, _ = eqx.filter_jit(objective.average_score)(
        jax.random.key(6), family, points, start, jnp.log(jnp.asarray(0.3))
    )
    error = scores.std(0) / jnp.sqrt(num)
    assert float(jnp.abs((scores.mean(0) - truth) / error).max()) < bonferroni(2)


@pytest.mark.slow
def test_unbiased_gradient_with_sigma_of_z_is_that_of_the_elbo_by_quadrature():
    """A long inner chain, against autodiff of log p − log q, draw for draw.

    The two differ by the score of q in the parameters and by the chain's noise; both have mean zero.
    """
    family, target = quadrature_family("implicit"), sivi.targets.Multimodal()
    noise = family.sample_noise(jax.random.key(0), (16_000,))
    x = jax.vmap(lambda *one: family.joint(*one).x)(*noise)

    def averages(objective):
        log_step_size = jnp.log(jnp.asarray(objective.step_size))
        return eqx.filter_jit(objective.average_score)(jax.random.key(1), family, x, noise[0], log_step_size)[0]

    long = averages(UnbiasedELBO(num_iterations=40, burn_in=30, num_leapfrog=5, step_size=0.3))
    short = averages(UnbiasedELBO(num_iterations=1, burn_in=0, num_leapfrog=1, step_size=0.1))

    def differences(mixing_noise, eps, *scores):
        one = (mixing_noise[None], eps[None])

        def minus_elbo(family):
            x = family.joint(mixing_noise, eps).x
            return log_q(family, x) - target.log_prob(x)

        exact = flat(eqx.filter_grad(minus_elbo)(family))
        gradient = eqx.filter_grad(lambda f, score: surrogate(f, target, None, one, score[None])[0])
        return [exact - flat(gradient(family, score)) for score in scores]

    result = monte_carlo(differences, (*noise, long, short), block=1000)
    of_long, of_short = (jnp.abs(paired_z(Accumulated(*each))) for each in zip(result.mean, result.error, strict=True))
    assert float(of_long.max()) < bonferroni(of_long.size)
    # The same comparison sees a chain that has not forgotten its start.
    assert float(of_short.max()) > 20.0


def test_step_size_is_adapted_and_carried():
    posterior = sivi.fit(
        sivi.targets.Banana(),
        objective=UnbiasedELBO(num_particles=16, step_size=5.0),
        num_steps=400,
        whiten=None,
        progress=False,
    )
    assert posterior.history["acceptance"][0] < 0.5
    assert abs(posterior.history["acceptance"][-100:].mean() - 0.9) < 0.05
    assert posterior.history["step_size"][-1] < 2.0


def test_recorded_loss_of_the_unbiased_elbo_is_the_fisher_divergence():
    family, target = linear_gaussian_family(), gaussian_target()
    noise = family.sample_noise(jax.random.key(0), (100_000,))

    def loss(mixing_noise, eps, key):
        joint = family.joint(mixing_noise, eps)
        z = exact_mixing_noise(key, family.conditional, joint.x)
        score = family.conditional.at(z).score(joint.x)
        return surrogate(family, target, None, (mixing_noise[None], eps[None]), score[None])[1]

    result = monte_carlo(loss, (*noise, jax.random.split(jax.random.key(9), 100_000)), block=5000)
    assert max(largest_z(result, fisher_divergence(family.conditional, target)).values()) < bonferroni(1)
