import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from contracts.plugins import CONDITIONALS, MIXINGS, small_family
from oracles import bonferroni


@pytest.fixture(params=CONDITIONALS)
def conditional(request):
    return CONDITIONALS[request.param](jax.random.key(1))


@pytest.fixture(params=MIXINGS)
def mixing(request):
    return MIXINGS[request.param](jax.random.key(1))


def z_of(conditional):
    return jax.random.normal(jax.random.key(2), (conditional.latent_dim,), float)


def test_conditional_scores_agree(conditional, precision):
    """score_at(eps), score(transform(eps)) and the gradient of log_prob are one and the same."""
    at = conditional.at(z_of(conditional))
    eps = conditional.sample_noise(jax.random.key(3))
    x = at.transform(eps)
    assert x.dtype == eps.dtype == precision
    assert x.shape == eps.shape == (conditional.dim,)
    tolerance = {"rtol": 1e-10} if precision == "float64" else {"rtol": 2e-5, "atol": 1e-5}
    np.testing.assert_allclose(at.score_at(eps), at.score(x), **tolerance)
    np.testing.assert_allclose(at.score(x), jax.grad(at.log_prob)(x), **tolerance)


def test_components_are_the_distributions_at_each_z(conditional, precision):
    z = jax.random.normal(jax.random.key(6), (4, conditional.latent_dim), float)
    eps = conditional.sample_noise(jax.random.key(7), (4,))
    components, each = conditional.at_each(z), [conditional.at(one) for one in z]
    x = components.transform(eps)
    tolerance = {"rtol": 1e-6, "atol": 1e-6} if precision == "float64" else {"rtol": 2e-4, "atol": 2e-4}
    np.testing.assert_allclose(x, jnp.stack([at.transform(e) for at, e in zip(each, eps, strict=True)]), **tolerance)
    scores = jnp.stack([at.score_at(e) for at, e in zip(each, eps, strict=True)])
    np.testing.assert_allclose(components.score_at(eps), scores, **tolerance)
    pairs = jnp.stack([jnp.stack([at.log_prob(point) for at in each]) for point in x])
    np.testing.assert_allclose(components.log_prob_pairs(x), pairs, **tolerance)
    np.testing.assert_allclose(components.first(2).transform(eps[:2]), x[:2], **tolerance)


def test_conditional_density_is_that_of_its_draws(conditional):
    """E[score] = 0 and E[score (x − μ)ᵀ] = −I under q(x|z)."""
    at = conditional.at(z_of(conditional))
    eps = conditional.sample_noise(jax.random.key(4), (100_000,))
    draws = jax.vmap(at.transform)(eps)
    scores = jax.vmap(at.score_at)(eps)
    stein = scores[:, :, None] * (draws - at.mean)[:, None, :] + jnp.eye(conditional.dim)
    for values in (scores, stein):
        z = values.mean(0) / (values.std(0) / np.sqrt(len(values)))
        assert float(jnp.abs(z).max()) < bonferroni(6, 1e-5)


def test_conditional_log_prob_is_normalised(conditional):
    at = conditional.at(z_of(conditional))
    side = jnp.linspace(-60.0, 60.0, 801)
    grid = jnp.stack(jnp.meshgrid(side, side), axis=-1).reshape(-1, 2) + at.mean
    mass = jnp.exp(jax.vmap(at.log_prob)(grid)).sum() * (side[1] - side[0]) ** 2
    np.testing.assert_allclose(mass, 1.0, atol=3e-3)


def test_mixing_noise_density_is_that_of_its_draws(mixing):
    noise = mixing.sample_noise(jax.random.key(5), (100_000,))
    scores = jax.vmap(jax.grad(mixing.noise_log_prob))(noise)
    stein = scores[:, :, None] * noise[:, None, :] + jnp.eye(noise.shape[1])
    z = stein.mean(0) / (stein.std(0) / np.sqrt(len(stein)))
    assert float(jnp.abs(z).max()) < bonferroni(stein[0].size, 1e-5)
    assert mixing.transform(noise[0]).shape == (mixing.dim,)


@pytest.mark.parametrize("mixing_name", MIXINGS)
@pytest.mark.parametrize("conditional_name", CONDITIONALS)
def test_family_draws_have_the_types_of_the_precision(conditional_name, mixing_name, precision):
    joint = eqx.filter_eval_shape(small_family(conditional_name, mixing_name).sample_joint, jax.random.key(0))
    assert {leaf.dtype for leaf in jax.tree.leaves(joint)} == {jnp.dtype(precision)}


@pytest.mark.parametrize("mixing_name", MIXINGS)
@pytest.mark.parametrize("conditional_name", CONDITIONALS)
def test_family_draws_are_differentiable_in_every_parameter(conditional_name, mixing_name):
    family = small_family(conditional_name, mixing_name)

    def second_moment(family):
        joint = jax.vmap(family.sample_joint)(jax.random.split(jax.random.key(0), 64))
        return jnp.mean(joint.x**2) + jnp.mean(joint.score**2)

    grads = eqx.filter_jit(eqx.filter_grad(second_moment))(family)
    for path, leaf in jax.tree_util.tree_leaves_with_path(eqx.filter(grads, eqx.is_inexact_array)):
        assert jnp.isfinite(leaf).all(), path
        assert jnp.any(leaf != 0), path


def test_family_joint_is_consistent():
    family = small_family()
    joint = family.sample_joint(jax.random.key(1))
    at = family.conditional.at(joint.z)
    np.testing.assert_array_equal(joint.x, at.transform(joint.eps))
    np.testing.assert_array_equal(joint.x, family.sample(jax.random.key(1)))
    np.testing.assert_array_equal(joint.z, family.mixing.transform(joint.noise))
