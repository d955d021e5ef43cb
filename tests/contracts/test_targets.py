"""Types are read from shapes in both precisions; the tests of numbers say in which they run.

Tests of what only some targets have look through all of them, and name the one that fails.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from contracts.plugins import TARGETS
from oracles import bonferroni
from sivi.targets import BayesianModel, ExactTarget


@pytest.fixture(params=TARGETS)
def target(request):
    return TARGETS[request.param]()


def points(target, num=5):
    return jax.random.normal(jax.random.key(2), (num, target.dim), float)


def targets_that(condition):
    found = {name: target for name, make in TARGETS.items() if condition(target := make())}
    assert found
    return found.items()


@pytest.mark.parametrize("name", TARGETS)
def test_shapes_and_dtypes(name, precision):
    target = TARGETS[name]()
    x = jax.ShapeDtypeStruct((target.dim,), precision)
    score = eqx.filter_eval_shape(target.score, x)
    assert (score.shape, score.dtype) == ((target.dim,), precision)
    if target.knows_log_prob:
        value = eqx.filter_eval_shape(target.log_prob, x)
        assert (value.shape, value.dtype) == ((), precision)


@pytest.mark.parametrize("name", TARGETS)
def test_score_is_the_gradient_of_the_log_density(name, x64):
    """By finite differences, which need the digits."""
    target = TARGETS[name]()
    x = points(target)[0]
    if not target.knows_log_prob:
        with pytest.raises(TypeError, match="knows only its score"):
            target.log_prob(x)
        return
    steps = 1e-6 * jnp.eye(target.dim)
    log_prob = eqx.filter_jit(lambda t, p: jax.vmap(t.log_prob)(p))
    slopes = (log_prob(target, x + steps) - log_prob(target, x - steps)) / 2e-6
    np.testing.assert_allclose(target.score(x), slopes, rtol=1e-5, atol=1e-6)


def test_layout_names_every_coordinate_once(target):
    x = points(target)[0]
    named = target.constrain(x)
    assert sum(value.size for value in named.values()) == target.dim == target.layout.dim
    again = target.layout.ravel(target.layout.unravel(x))
    np.testing.assert_allclose(again, x, rtol=1e-6 if target.layout.is_constrained else 0.0)


def test_vmap_and_jit(target):
    batch = points(target)
    together = eqx.filter_jit(lambda t, p: jax.vmap(t.score)(p))(target, batch)
    one_by_one = jnp.stack([target.score(x) for x in batch])
    np.testing.assert_allclose(together, one_by_one, rtol=2e-5, atol=1e-5)


def test_exact_draws_have_zero_mean_score_and_unit_steins_identity():
    """E[S] = 0 and E[S xᵀ] = −I under the target: draws, density and score belong together."""
    for name, target in targets_that(lambda t: isinstance(t, ExactTarget)):
        draws = jax.jit(jax.vmap(target.sample))(jax.random.split(jax.random.key(3), 100_000))
        scores = jax.jit(jax.vmap(target.score))(draws)
        terms = [scores, scores[:, :, None] * draws[:, None, :] + jnp.eye(target.dim)]
        for values in terms:
            z = values.mean(0) / (values.std(0) / np.sqrt(len(values)))
            assert float(jnp.abs(z).max()) < bonferroni(target.dim + target.dim**2, 1e-5), name


def test_normalised_log_density_integrates_to_one():
    for name, target in targets_that(
        lambda t: isinstance(t, ExactTarget) and not isinstance(t, BayesianModel) and t.dim == 2
    ):
        side = jnp.linspace(-8.0, 8.0, 400)
        height = jnp.linspace(-8.0, 40.0, 1200) if name == "Banana" else side
        grid = jnp.stack(jnp.meshgrid(side, height), axis=-1).reshape(-1, 2)
        mass = jnp.exp(jax.jit(jax.vmap(target.log_prob))(grid)).sum() * (side[1] - side[0]) * (height[1] - height[0])
        np.testing.assert_allclose(mass, 1.0, atol=2e-3, err_msg=name)


def test_minibatches_average_to_the_whole():
    assert all(t.num_data is not None for _, t in targets_that(lambda t: isinstance(t, BayesianModel)))
    for name, target in targets_that(lambda t: t.num_data is not None):
        x = points(target)[0]
        every = jnp.arange(target.num_data)

        @eqx.filter_jit
        def values(target, x, rows):
            return jax.vmap(lambda b: (target.log_prob(x, b), target.score(x, b)))(rows)

        log_probs, scores = values(target, x, every.reshape(-1, 4))
        np.testing.assert_allclose(log_probs.mean(), target.log_prob(x), rtol=1e-5, err_msg=name)
        np.testing.assert_allclose(scores.mean(0), target.score(x), rtol=1e-4, atol=1e-4, err_msg=name)
        np.testing.assert_allclose(target.log_prob(x, every), target.log_prob(x), rtol=1e-6, err_msg=name)


def test_likelihoods_of_many_data_are_those_of_each():
    for name, target in targets_that(lambda t: isinstance(t, BayesianModel)):
        x = target.point(points(target)[0])
        together = target.log_likelihoods(x, target.data)
        rows = [jax.tree.map(lambda leaf, n=n: leaf[n], target.data) for n in range(target.num_data)]
        one_by_one = [target.log_likelihood(x, row) for row in rows]
        np.testing.assert_allclose(together, one_by_one, rtol=1e-5, err_msg=name)
