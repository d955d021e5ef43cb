import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from contracts.plugins import TARGETS
from oracles import bonferroni
from sivi.targets import BayesianModel, ExactTarget

pytestmark = pytest.mark.usefixtures("precision")


@pytest.fixture(params=TARGETS)
def name(request):
    return request.param


@pytest.fixture
def target(name):
    return TARGETS[name]()


def points(target, num=5):
    return jax.random.normal(jax.random.key(2), (num, target.dim), float)


def test_shapes_and_dtypes(target, precision):
    x = points(target)[0]
    score = target.score(x)
    assert score.shape == (target.dim,)
    assert score.dtype == precision
    if target.knows_log_prob:
        value = target.log_prob(x)
        assert value.shape == ()
        assert value.dtype == precision


def test_score_is_the_gradient_of_the_log_density(name):
    with jax.enable_x64(True):  # finite differences need the digits
        target = TARGETS[name]()
        if not target.knows_log_prob:
            with pytest.raises(TypeError, match="knows only its score"):
                target.log_prob(points(target)[0])
            return
        x = np.asarray(points(target)[0], float)
        for i in range(target.dim):
            step = np.zeros(target.dim)
            step[i] = 1e-6
            slope = (target.log_prob(jnp.asarray(x + step)) - target.log_prob(jnp.asarray(x - step))) / 2e-6
            np.testing.assert_allclose(target.score(jnp.asarray(x))[i], slope, rtol=1e-5, atol=1e-6)


def test_layout_names_every_coordinate_once(target):
    x = points(target)[0]
    named = target.constrain(x)
    assert sum(value.size for value in named.values()) == target.dim == target.layout.dim
    np.testing.assert_array_equal(target.layout.ravel(target.layout.unravel(x)), x)


def test_vmap_and_jit(target):
    batch = points(target)
    together = eqx.filter_jit(lambda t, p: jax.vmap(t.score)(p))(target, batch)
    one_by_one = jnp.stack([target.score(x) for x in batch])
    np.testing.assert_allclose(together, one_by_one, rtol=2e-5, atol=1e-5)


def test_exact_draws_have_zero_mean_score_and_unit_steins_identity(target):
    """E[S] = 0 and E[S xᵀ] = −I under the target: draws, density and score belong together."""
    if not isinstance(target, ExactTarget):
        return
    draws = jax.vmap(target.sample)(jax.random.split(jax.random.key(3), 100_000))
    scores = jax.jit(jax.vmap(target.score))(draws)
    terms = [scores, scores[:, :, None] * draws[:, None, :] + jnp.eye(target.dim)]
    for values in terms:
        z = values.mean(0) / (values.std(0) / np.sqrt(len(values)))
        assert float(jnp.abs(z).max()) < bonferroni(target.dim + target.dim**2, 1e-5)


def test_normalised_log_density_integrates_to_one(target):
    if not isinstance(target, ExactTarget) or isinstance(target, BayesianModel) or target.dim != 2:
        return
    side = jnp.linspace(-8.0, 8.0, 1200)
    height = jnp.linspace(-8.0, 40.0, 3600) if type(target).__name__ == "Banana" else side
    grid = jnp.stack(jnp.meshgrid(side, height), axis=-1).reshape(-1, 2)
    mass = jnp.exp(jax.jit(jax.vmap(target.log_prob))(grid)).sum() * (side[1] - side[0]) * (height[1] - height[0])
    np.testing.assert_allclose(mass, 1.0, atol=2e-3)


def test_minibatches_average_to_the_whole(target):
    if target.num_data is None:
        assert not isinstance(target, BayesianModel)
        return
    x = points(target)[0]
    batches = jnp.arange(target.num_data).reshape(-1, 4)
    mean = jnp.mean(jax.vmap(lambda b: target.log_prob(x, b))(batches))
    np.testing.assert_allclose(mean, target.log_prob(x), rtol=1e-5)
    mean_score = jnp.mean(jax.vmap(lambda b: target.score(x, b))(batches), axis=0)
    np.testing.assert_allclose(mean_score, target.score(x), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(target.log_prob(x, jnp.arange(target.num_data)), target.log_prob(x), rtol=1e-6)


def test_likelihoods_of_many_data_are_those_of_each(target):
    if not isinstance(target, BayesianModel):
        return
    x = points(target)[0]
    together = target.log_likelihoods(x, target.data)
    rows = [jax.tree.map(lambda leaf, n=n: leaf[n], target.data) for n in range(target.num_data)]
    np.testing.assert_allclose(together, [target.log_likelihood(x, row) for row in rows], rtol=1e-5)
