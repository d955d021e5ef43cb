"""Log densities, data and refusals of NumPyro models; fits of them are in test_numpyro_fits.py."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.contrib.control_flow import scan
from numpyro.infer import Predictive, log_likelihood
from numpyro.infer.reparam import LocScaleReparam
from numpyro.infer.util import potential_energy

import sivi
from bridges.models import BY_HAND, counts_data, mixture_data
from bridges.numpyro_models import MODELS, counts
from sivi._layout import Layout
from sivi.interop import NumPyroModel

NUM_POINTS = 100


def bridged(name, **more):
    model, data = MODELS[name]
    return sivi.from_numpyro(model, **data, **more)


def points_of(target, num=NUM_POINTS, seed=0, width=1.0):
    return width * jax.random.normal(jax.random.key(seed), (num, target.dim), float)


def by_site(target, points):
    """Free numbers by site, cut in alphabetical order: the order of the library, by other means than its layout's."""
    sizes = {v.name: v.size for v in target.layout.variables}
    assert list(sizes) == sorted(sizes)
    ends = np.cumsum(list(sizes.values()))
    return {name: points[:, end - size : end] for (name, size), end in zip(sizes.items(), ends, strict=True)}


def in_jax(data):
    """NumPyro cannot index NumPy arrays by the rows of a plate."""
    return {name: jnp.asarray(value) if isinstance(value, np.ndarray) else value for name, value in data.items()}


def potentials(model, args, kwargs, target, points):
    """NumPyro's potential, given each site by its name, in the shapes that NumPyro has for free numbers."""
    kwargs = in_jax(kwargs)
    trace = handlers.trace(handlers.substitute(handlers.seed(model, 0), substitute_fn=numpyro.infer.init_to_uniform))
    found = trace.get_trace(*args, **kwargs)
    shapes = {
        name: dist.biject_to(site["fn"].support).inverse_shape(np.shape(site["value"]))
        for name, site in found.items()
        if site["type"] == "sample" and not site["is_observed"]
    }
    free = {name: values.reshape(-1, *shapes[name]) for name, values in by_site(target, points).items()}
    return jax.jit(jax.vmap(lambda p: potential_energy(model, args, kwargs, p)))(free)


def assert_relative(found, expected, tolerance):
    """In units of the largest entry of a vector, so that entries near zero count as what they are part of."""
    scale = np.max(np.abs(expected), axis=-1, keepdims=True) if np.ndim(expected) == 2 else np.abs(expected)
    assert np.max(np.abs(np.asarray(found) - expected) / scale) < tolerance


@pytest.mark.parametrize("name", BY_HAND)
def test_log_density_and_score_are_those_by_hand(name, precision):
    tolerance = 1e-5 if precision == "float32" else 1e-10
    target, (by_hand, data) = bridged(name), BY_HAND[name]
    points = points_of(target)

    def density(x):
        return by_hand(target.layout.unravel(x), data) + target.layout.log_det(x)

    values, scores = jax.jit(jax.vmap(jax.value_and_grad(density)))(points)
    assert_relative(jax.jit(jax.vmap(target.log_prob))(points), values, tolerance)
    assert_relative(jax.jit(jax.vmap(target.score))(points), scores, tolerance)


@pytest.mark.parametrize("name", BY_HAND)
def test_log_density_is_minus_the_potential_of_numpyro(name, x64):
    """Sites go to NumPyro by name: another order in the vector would give another number."""
    target, (model, data) = bridged(name), MODELS[name]
    points = points_of(target, 20)
    found = jax.jit(jax.vmap(target.log_prob))(points)
    np.testing.assert_allclose(found, -potentials(model, (), data, target, points), rtol=1e-10)
    swapped = points[:, ::-1]
    assert not np.allclose(found, -potentials(model, (), data, target, swapped), rtol=1e-3)


SUPPORTS = {
    "positive": lambda: dist.HalfCauchy(2.0),
    "softplus": lambda: dist.ImproperUniform(dist.constraints.softplus_positive, (2,), ()),
    "lower": lambda: dist.Pareto(1.5, 3.0),
    "array bounds": lambda: dist.Uniform(jnp.array([-1.0, 2.0]), jnp.array([0.5, 7.0])).to_event(1),
    "upper": lambda: dist.TruncatedNormal(0.0, 1.0, high=-0.3),
    "unit interval": lambda: dist.Beta(2.0, 3.0).expand([2, 2]),
    "simplex": lambda: dist.Dirichlet(jnp.array([1.0, 2.0, 3.0, 0.7])).expand([2]),
    "ordered": lambda: dist.ImproperUniform(dist.constraints.ordered_vector, (), (3,)),
    "positive ordered": lambda: dist.ImproperUniform(dist.constraints.positive_ordered_vector, (), (3,)),
    "one ordered": lambda: dist.ImproperUniform(dist.constraints.ordered_vector, (), (1,)),
    "corr cholesky": lambda: dist.LKJCholesky(3, 2.0).expand([2]),
    "corr matrix": lambda: dist.LKJ(3, 2.0),
    "lower cholesky": lambda: dist.ImproperUniform(dist.constraints.lower_cholesky, (), (3, 3)),
    "positive definite": lambda: dist.Wishart(5.0, jnp.eye(2)),
    "zero sum": lambda: dist.ZeroSumNormal(1.3, (4,)),
    "angle": lambda: dist.VonMises(0.3, 2.0),
    "vector": lambda: dist.MultivariateNormal(jnp.zeros(2), jnp.array([[2.0, 0.5], [0.5, 1.0]])),
    "matrix": lambda: dist.MatrixNormal(jnp.zeros((2, 3)), jnp.eye(2), jnp.eye(3)),
}


@pytest.mark.parametrize("name", SUPPORTS)
def test_maps_of_supports_are_those_of_numpyro(name, x64):
    """Density, values, the way back, and the form that a fit file holds."""

    def model():
        numpyro.sample("other", dist.Normal(0.0, 1.0))
        numpyro.sample("a", SUPPORTS[name]())

    target = sivi.from_numpyro(model)
    points = points_of(target, 5, width=0.7)
    found = jax.jit(jax.vmap(target.log_prob))(points)
    np.testing.assert_allclose(found, -potentials(model, (), {}, target, points), rtol=1e-10)
    layout = Layout.from_json(target.layout.to_json())
    assert layout == target.layout
    values = layout.unravel_many(points)
    np.testing.assert_allclose(layout.ravel_many(values), points, rtol=1e-7, atol=1e-9)
    assert bool(np.all(SUPPORTS[name]().support(values["a"])))


@pytest.mark.parametrize("size", [1, 2, 7])
def test_minibatch_scores_average_to_the_score_of_all_data(size, x64):
    rows = 14
    data = counts_data(rows)
    target = sivi.from_numpyro(counts, **data, batch_size=3)
    plain = sivi.from_numpyro(counts, **data)
    assert (target.num_data, plain.num_data) == (rows, None)
    points = points_of(target, 10)
    batches = jnp.arange(rows).reshape(-1, size)
    each = jax.vmap(lambda x: jax.vmap(lambda batch: target.score(x, batch))(batches).mean(0))
    expected = jax.vmap(plain.score)(points)
    np.testing.assert_allclose(jax.vmap(target.score)(points), expected, rtol=1e-10)
    np.testing.assert_allclose(each(points), expected, rtol=1e-10)


def test_a_minibatch_is_that_of_numpyro(x64):
    """The scaled log density, with the rows that NumPyro's plate is given."""
    data, rows = counts_data(14), jnp.array([3, 0, 11])
    target = sivi.from_numpyro(counts, **data, batch_size=3)
    x = points_of(target, 1)[0]
    given = handlers.substitute(counts, data={"row": rows})
    value, _ = numpyro.infer.util.log_density(given, (), in_jax(data) | {"batch_size": 3}, target.layout.unravel(x))
    np.testing.assert_allclose(target.log_prob(x, rows), value + target.layout.log_det(x), rtol=1e-12)


@pytest.mark.parametrize("batch_size", [None, 5])
def test_log_likelihoods_are_those_of_numpyro(batch_size, x64):
    data = counts_data(11)
    target = sivi.from_numpyro(counts, **data, batch_size=batch_size)
    points = points_of(target, 4)
    found = jax.vmap(target.pointwise_log_likelihood)(points)
    expected = log_likelihood(counts, target.layout.unravel_many(points), **in_jax(data))
    np.testing.assert_allclose(found["y"], expected["y"], rtol=1e-10)
    np.testing.assert_array_equal(target.observed["y"], data["y"])


@pytest.mark.parametrize("batch_size", [None, 5])
def test_replicates_have_the_means_of_the_likelihood(batch_size):
    data = counts_data(11)
    target = sivi.from_numpyro(counts, **data, batch_size=batch_size)
    point = {"slopes": jnp.array([0.4, -0.2, 0.1]), "intercept": 0.5, "concentration": 2.0}
    num = 4000
    draws = target.replicates(jax.random.key(1), jnp.tile(target.layout.ravel(point), (num, 1)))["y"]
    assert draws.shape == (num, 11)
    assert draws.dtype == target.observed["y"].dtype
    mean = data["exposure"] * np.exp(0.5 + data["x"] @ point["slopes"])
    z = (draws.mean(0) - mean) / np.sqrt((mean + mean**2 / 2.0) / num)
    assert np.abs(z).max() < 4.5
    assert np.abs(np.corrcoef(draws.T) - np.eye(11)).max() < 0.1  # rows are drawn one by one


def test_data_along_several_plates_and_events(x64):
    """The plate with minibatches on the left of another, and observations that are vectors."""
    rng = np.random.default_rng(0)
    y, total = rng.normal(size=(6, 4, 2)), rng.normal(size=4)

    def model(batch_size):
        mean = numpyro.sample("mean", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
        with numpyro.plate("column", 4, dim=-1):
            shift = numpyro.sample("shift", dist.Normal(0.0, 1.0))
            numpyro.sample("total", dist.Normal(shift, 1.0), obs=total)
            with numpyro.plate("row", 6, subsample_size=batch_size, dim=-2):
                seen = numpyro.subsample(y, event_dim=1)
                local = mean + shift[:, None]
                numpyro.deterministic("local", local + 0.0 * seen)
                numpyro.sample("y", dist.Normal(local, 0.7).to_event(1), obs=seen)

    target, plain = sivi.from_numpyro(model, 2), sivi.from_numpyro(model, None)
    x = points_of(target, 1)[0]
    np.testing.assert_allclose(target.log_prob(x), plain.log_prob(x), rtol=1e-12)
    np.testing.assert_allclose(target.log_prob(x, jnp.arange(6)), plain.log_prob(x), rtol=1e-12)
    found, expected = target.pointwise_log_likelihood(x), plain.pointwise_log_likelihood(x)
    assert {name: value.shape for name, value in found.items()} == {"y": (6, 4), "total": (4,)}
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12)
    drawn = target.replicate(jax.random.key(0), x)
    assert {name: value.shape for name, value in drawn.items()} == {"y": (6, 4, 2), "total": (4,)}
    assert dict(target.dims) == {"shift": ("column",), "total": ("column",), "y": ("row", "column", "y_dim_2")}
    assert dict(target.coords) == {"column": range(4), "row": range(6)}
    assert list(target.derived(x)) == []
    assert plain.derived(x)["local"].shape == (6, 4, 2)


def test_deterministic_sites_and_plates_are_derived_quantities_and_axes():
    target = bridged("hierarchical")
    assert isinstance(target, NumPyroModel)
    x = points_of(target, 1)[0]
    p = target.layout.unravel(x)
    effects = p["centre"] + p["z"] @ (p["tau"][:, None] * p["L"]).T
    np.testing.assert_allclose(target.derived(x)["effects"], effects, rtol=1e-5)
    assert dict(target.dims) == {
        "tau": ("coefficient",),
        "centre": ("coefficient",),
        "z": ("group", "z_dim_1"),
        "y": ("row",),
    }
    assert dict(target.coords) == {"coefficient": range(2), "group": range(6), "row": range(72)}


def test_other_data_of_the_same_shape_are_other_inputs_of_the_same_program():
    first = counts_data()
    second = first | {"y": first["y"] + 1}
    targets = [sivi.from_numpyro(counts, **data, batch_size=10) for data in (first, second)]
    trees = [jax.tree.structure(target) for target in targets]
    assert trees[0] == trees[1]
    assert hash(trees[0]) == hash(trees[1])
    x = points_of(targets[0], 1)[0]
    assert float(targets[0].log_prob(x)) != float(targets[1].log_prob(x))


def test_a_scan_and_another_parameterisation(x64):
    y = np.random.default_rng(3).normal(size=8)

    def series(y):
        phi = numpyro.sample("phi", dist.Uniform(-1.0, 1.0))

        def step(before, now):
            state = numpyro.sample("state", dist.Normal(phi * before, 0.5))
            numpyro.sample("y", dist.Normal(state, 0.3), obs=now)
            return state, None

        scan(step, 0.0, y)

    def schools(y):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        with numpyro.plate("school", 8):
            theta = numpyro.sample("theta", dist.Normal(mu, 2.0))
            numpyro.sample("y", dist.Normal(theta, 0.3), obs=y)

    for model in (series, handlers.reparam(schools, config={"theta": LocScaleReparam(0.0)})):
        target = sivi.from_numpyro(model, y)
        points = points_of(target, 5)
        found = jax.jit(jax.vmap(target.log_prob))(points)
        np.testing.assert_allclose(found, -potentials(model, (y,), {}, target, points), rtol=1e-10)
        assert target.pointwise_log_likelihood(points[0])["y"].shape == (8,)


def of_site(distribution):
    return lambda: numpyro.sample("a", distribution)


def dependent_support():
    x = numpyro.sample("x", dist.HalfNormal(1.0))
    numpyro.sample("a", dist.Uniform(0.0, x))


def parameter():
    numpyro.sample("a", dist.Normal(numpyro.param("loc", 0.0), 1.0))


def random():
    a = numpyro.sample("a", dist.Normal(0.0, 1.0))
    numpyro.factor("b", a * jax.random.normal(numpyro.prng_key()))


def two_plates():
    a = numpyro.sample("a", dist.Normal(0.0, 1.0))
    for name in ("one", "two"):
        with numpyro.plate(name, 10, subsample_size=5):
            numpyro.sample(f"y_{name}", dist.Normal(a, 1.0), obs=jnp.zeros(5))


def local_unknowns():
    with numpyro.plate("row", 10, subsample_size=5):
        numpyro.sample("a", dist.Normal(0.0, 1.0))


def not_indexed():
    a = numpyro.sample("a", dist.Normal(0.0, 1.0))
    with numpyro.plate("row", 10, subsample_size=5):
        numpyro.sample("y", dist.Normal(a, 1.0), obs=jnp.zeros(10))


def scaled():
    with handlers.scale(scale=0.5):
        numpyro.sample("a", dist.Normal(0.0, 1.0))


REFUSED = {
    "discrete": (of_site(dist.Poisson(2.0)), "site 'a' is discrete and not observed"),
    "dependent": (dependent_support, "the support of site 'a' must not depend on other sites"),
    "param": (parameter, "numpyro.param 'loc' has no posterior"),
    "random": (random, "must not use numpyro.prng_key"),
    "two plates": (two_plates, "one plate at most may have a subsample_size; got 'one', 'two'"),
    "local": (local_unknowns, "site 'a' must not be in the plate 'row'"),
    "not indexed": (not_indexed, "site 'y' must have one entry per row of the plate 'row'"),
    "scaled": (scaled, "site 'a' is not observed, so numpyro.handlers.scale must leave it out"),
    "sphere": (of_site(dist.ProjectedNormal(jnp.ones(3))), "site 'a' has the support .* no map from free numbers"),
    "nothing": (lambda: None, "must have a numpyro.sample site that is not observed"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_fitted_is_refused_by_name(name, as_a_user):
    model, message = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=message):
        sivi.from_numpyro(model)


def test_what_is_no_model_is_refused(as_a_user):
    with pytest.raises(TypeError, match=r"model must be a function with numpyro\.sample sites; got 3"):
        sivi.from_numpyro(3)


def test_an_observation_that_cannot_be_drawn_is_refused_when_it_is_asked_for():
    def model():
        a = numpyro.sample("a", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.ImproperUniform(dist.constraints.real, (), ()), obs=a * 0.0)

    with pytest.raises(TypeError, match="the distribution of an observed site cannot be sampled"):
        sivi.from_numpyro(model).replicate(jax.random.key(0), jnp.zeros(1))


def test_predictive_takes_points_of_the_layout():
    data = mixture_data()
    target = bridged("mixture")
    draws = target.layout.unravel_many(points_of(target, 6))
    found = Predictive(MODELS["mixture"][0], posterior_samples=draws)(jax.random.key(0), size=len(data["y"]))
    assert found["y"].shape == (6, len(data["y"]))
