import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oracles import gaussian_target, linear_gaussian_model
from sivi.coordinates import DenseMap, DiagonalMap, IdentityMap
from sivi.targets import Banana, ControlVariate, ScoreFunction, Whitened
from sivi.targets.whitened import in_fit_coordinates


def test_a_gaussian_in_its_own_coordinates_is_standard_normal(x64):
    target = gaussian_target()
    whitened = Whitened(target, DenseMap(target.means[0], target.cholesky[0]))
    u = jnp.array([0.3, -1.2, 2.0])
    np.testing.assert_allclose(whitened.score(u), -u, rtol=1e-12)
    np.testing.assert_allclose(whitened.log_prob(u), jax.scipy.stats.norm.logpdf(u).sum(), rtol=1e-12)
    assert whitened.layout.is_vector
    assert whitened.dim == whitened.layout.dim == 3


def test_score_is_the_gradient_with_and_without_minibatches(x64):
    model = linear_gaussian_model()
    matrix = jnp.asarray(np.random.default_rng(0).normal(size=(model.dim, model.dim)))
    whitened = Whitened(model, DenseMap(jnp.arange(1.0, model.dim + 1.0), matrix))
    u = jnp.linspace(-1.0, 1.0, model.dim)
    for batch in (None, jnp.array([3, 1])):
        np.testing.assert_allclose(whitened.score(u, batch), jax.grad(whitened.log_prob)(u, batch), rtol=1e-10)
    assert whitened.num_data == model.num_data


def test_a_target_that_knows_only_its_score():
    target = ScoreFunction(lambda x: -x - x**3, dim=2)
    whitened = Whitened(target, DiagonalMap(jnp.array([1.0, 0.0]), jnp.array([2.0, 3.0])))
    np.testing.assert_allclose(whitened.score(jnp.ones(2)), [-2.0 * (3 + 27), -3.0 * (3 + 27)], rtol=1e-6)
    assert not whitened.knows_log_prob
    with pytest.raises(TypeError, match="knows only its score"):
        whitened.log_prob(jnp.ones(2))


def test_dim_must_agree():
    with pytest.raises(ValueError, match="affine must have the target's dim, 2; got 3"):
        Whitened(Banana(), DiagonalMap(jnp.zeros(3), jnp.ones(3)))


def test_the_target_of_a_fit_is_whitened_and_has_a_control_variate_where_a_score_is_given(x64):
    model = linear_gaussian_model()
    affine = DiagonalMap(jnp.full(model.dim, 0.3), jnp.arange(1.0, model.dim + 1.0))
    u, batch = jnp.linspace(-1.0, 1.0, model.dim), jnp.array([3, 1])
    assert in_fit_coordinates(model, IdentityMap(model.dim)) is model
    plain, score = in_fit_coordinates(model, affine), model.score(affine.mean)
    np.testing.assert_array_equal(plain.score(u, batch), Whitened(model, affine).score(u, batch))
    corrected = Whitened(ControlVariate.at(model, affine.mean), affine)
    np.testing.assert_allclose(in_fit_coordinates(model, affine, score).score(u, batch), corrected.score(u, batch))
