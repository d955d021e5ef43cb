"""What a fit starts from: initial weights, the noise of a family, and the family of the default call."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from sivi import _random
from sivi._networks import MLP
from sivi.families import DiagonalGaussian, NormalMixing, SemiImplicit


@pytest.mark.parametrize("together", [_random.MAX_SIZE, 40])
def test_weights_are_what_each_key_gives(monkeypatch, precision, together):
    monkeypatch.setattr(_random, "MAX_SIZE", together)
    net = MLP(3, 2, hidden=(7, 9), activation="relu", final_scale=0.5, key=jax.random.key(4))
    keys = jax.random.split(jax.random.key(4), 3)
    for i, (layer, (a, b)) in enumerate(zip(net.layers, [(3, 7), (7, 9), (9, 2)], strict=True)):
        weight_key, bias_key = jax.random.split(keys[i])
        scale, bound = 0.5 if i == 2 else 1.0, a**-0.5
        weight = jax.random.uniform(weight_key, (min(a, b), max(a, b)), minval=-bound, maxval=bound)
        bias = jax.random.uniform(bias_key, (b,), minval=-bound, maxval=bound)
        np.testing.assert_allclose(layer.weight, scale * weight, rtol=1e-6)
        np.testing.assert_allclose(layer.bias, scale * bias, rtol=1e-6)
        assert layer.weight.dtype == precision


def test_a_raw_key():
    raw, typed = (DiagonalGaussian(3, 2, key=key) for key in (jax.random.PRNGKey(5), jax.random.key(5)))
    for one, other in zip(jax.tree.leaves(raw), jax.tree.leaves(typed), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("latent_dim", [2, 3])
@pytest.mark.parametrize("shape", [(), (5,)])
def test_noise_of_a_family_is_that_of_its_layers(precision, latent_dim, shape):
    """For one draw; and for many in runs that an earlier version began."""
    family = SemiImplicit(NormalMixing(latent_dim), DiagonalGaussian(latent_dim, 2, key=jax.random.key(0)))
    with _random.noise_made("by layer" if shape else "together"):
        noise, eps = family.sample_noise(jax.random.key(1), shape)
    mixing_key, conditional_key = jax.random.split(jax.random.key(1))
    np.testing.assert_array_equal(noise, jax.random.normal(mixing_key, (*shape, latent_dim)))
    np.testing.assert_array_equal(eps, jax.random.normal(conditional_key, (*shape, 2)))


@pytest.mark.parametrize("latent_dim", [2, 3])
def test_noise_of_many_draws_comes_from_one_place(precision, latent_dim):
    family = SemiImplicit(NormalMixing(latent_dim), DiagonalGaussian(latent_dim, 2, key=jax.random.key(0)))
    noise, eps = family.sample_noise(jax.random.key(1), (5,))
    both = _random.normals(jax.random.key(1), (5, latent_dim), (5, 2))
    np.testing.assert_array_equal(noise, both[0])
    np.testing.assert_array_equal(eps, both[1])


@pytest.mark.parametrize("dim", [2, 20, 200])
def test_the_default_family_starts_at_the_standard_normal(dim):
    """Where the target is tried before a fit. The network adds next to nothing to mean and covariance."""
    family = sivi.defaults.recipe(dim).family(jax.random.key(0))
    draws = jax.vmap(family.sample)(jax.random.split(jax.random.key(1), 20_000))
    np.testing.assert_allclose(draws.mean(0), 0.0, atol=0.05)
    np.testing.assert_allclose(jnp.cov(draws.T), np.eye(dim), atol=0.06)


def test_the_default_critic_of_many_unknowns_is_structured_where_the_family_allows_it():
    """Of families as shapes: nothing is computed."""
    from sivi.critics import MLPCritic, StructuredCritic
    from sivi.families import Family

    class Point(Family):
        dim: int = 500

        def sample(self, key):
            return jnp.zeros(500)

        def log_prob(self, key, x, num_aux):
            raise NotImplementedError

    def family(**settings):
        layers = lambda: SemiImplicit(NormalMixing(4), DiagonalGaussian(4, 500, key=jax.random.key(0), **settings))  # noqa: E731
        return eqx.filter_eval_shape(layers)

    recipe = sivi.defaults.recipe(500)
    assert isinstance(recipe.critic(), StructuredCritic)
    assert isinstance(recipe.critic(family()), StructuredCritic)
    assert isinstance(recipe.critic(family(scale="network")), MLPCritic)
    assert isinstance(recipe.critic(Point()), MLPCritic)
    assert isinstance(sivi.defaults.recipe(5).critic(), MLPCritic)
    assert "structured_critic     True" in str(recipe)
