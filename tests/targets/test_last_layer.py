"""The last layer of a network in units of its exact conditional, against closed forms."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from sivi._storage import codec
from sivi.coordinates import ComposedMap, DiagonalMap, IdentityMap
from sivi.targets import BayesianNeuralNetwork, Whitened
from sivi.targets.evaluate import rows_of
from sivi.targets.last_layer import root_of_gram
from sivi.targets.symmetric import conditional_coordinates_of

NOISE, WEIGHT = 30.0, (0.5, 4.0)


def data(rows=25, features=2):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, (rows, features))
    return x, np.sin(3.0 * x[:, 0]) + x[:, -1] + 0.1 * rng.normal(size=rows)


def network(hidden=(5,), **settings):
    given = {"noise_precision": NOISE, "weight_precision": WEIGHT if len(hidden) == 1 else 2.0}
    return BayesianNeuralNetwork(*data(), hidden, "tanh", **given | settings)


KINDS = {
    "one layer": {},
    "two layers": {"hidden": (4, 3)},
    "rectifiers": {"activation": "relu"},
    "inferred noise": {"noise_precision": sivi.targets.GammaPrior(2.0, 0.1)},
    "linear": {"hidden": ()},
}


@pytest.fixture(params=KINDS)
def model(request, x64):
    settings = dict(KINDS[request.param])
    activation = settings.pop("activation", None)
    if activation:
        given = {"noise_precision": NOISE, "weight_precision": WEIGHT}
        return BayesianNeuralNetwork(*data(), (5,), activation, **given)
    return network(**settings)


def point_of(model, seed=1):
    return jax.random.normal(jax.random.key(seed), (model.dim,))


def last_of(model):
    """Where the last layer is in the vector of unknowns: its weights, then its bias."""
    places = model.layout.unravel(jnp.arange(model.dim, dtype=float))
    number = max(int(name[len("weight_") :]) for name in places if name.startswith("weight_"))
    names = f"weight_{number}", f"bias_{number}"
    return np.concatenate([np.asarray(places[name]).ravel() for name in names]).astype(int)


def test_the_last_layer_is_standard_normal_given_the_others(model):
    """∇ log p in the map's coordinates is −v along the last layer, wherever the other unknowns are."""
    whitened, last = Whitened(model, model.conditional_coordinates), last_of(model)
    for seed in (1, 2):
        v = point_of(model, seed)
        np.testing.assert_allclose(whitened.score(v)[last], -v[last], atol=1e-8)


def test_the_score_in_closed_form_is_that_of_the_map(model):
    known, v = model.in_conditional_coordinates, point_of(model)
    whitened = Whitened(model, model.conditional_coordinates)
    np.testing.assert_allclose(known.score(v), whitened.score(v), rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(known.score(v), jax.grad(known.log_prob)(v), rtol=1e-7, atol=1e-7)
    direction = point_of(model, 2)
    pulled = [jax.vjp(target.score, v)[1](direction)[0] for target in (known, whitened)]
    if model.network.activation != "relu":
        np.testing.assert_allclose(pulled[0], pulled[1], rtol=1e-6, atol=1e-6)
    both = jax.vmap(known.score)(jnp.stack([v, direction]))
    np.testing.assert_allclose(both[1], known.score(direction), rtol=1e-9, atol=1e-9)
    rows = jnp.arange(7)
    np.testing.assert_allclose(known.score(v, rows), whitened.score(v, rows), rtol=1e-12)
    assert (known.dim, known.num_data, rows_of(known)) == (model.dim, 25, rows_of(whitened))


def test_expected_likelihood_is_that_of_draws_of_the_last_layer(x64):
    """Its mean over w₂ ~ N(m, A⁻¹), by 20,000 draws: within four standard errors."""
    model = network()
    coordinates, last = model.conditional_coordinates, last_of(model)
    x = point_of(model)
    noise = jax.random.normal(jax.random.key(3), (20_000, 6))
    values = jax.vmap(
        lambda e: jnp.sum(model.log_likelihoods(model.point(coordinates.forward(x.at[last].set(e))), model.data))
    )(noise)
    expected = coordinates.expected_log_likelihood(x, coordinates.given(x))
    assert abs(values.mean() - expected) < 4.0 * values.std() / len(noise) ** 0.5


def test_moments_are_those_of_linear_regression_on_the_hidden_units(x64):
    model = network()
    coordinates, last = model.conditional_coordinates, last_of(model)
    v = point_of(model)
    p = model.point(v)
    hidden = np.tanh(np.asarray(model.data["x"]) @ np.asarray(p["weight_1"]) + np.asarray(p["bias_1"]))
    hidden = np.column_stack([hidden, np.ones(len(hidden))])
    precision = WEIGHT[1] * np.eye(6) + NOISE * hidden.T @ hidden
    mean = np.linalg.solve(precision, NOISE * hidden.T @ np.asarray(model.data["y"]))
    at_zero = coordinates.forward(v.at[last].set(0.0))
    np.testing.assert_allclose(at_zero[last], mean, atol=1e-10)
    root = np.stack([coordinates.forward(v.at[last].set(e))[last] - mean for e in np.eye(6)], axis=1)
    np.testing.assert_allclose(root @ root.T, np.linalg.inv(precision), rtol=1e-7, atol=1e-12)
    others = np.setdiff1d(np.arange(model.dim), last)
    np.testing.assert_array_equal(at_zero[others], v[others])


def test_map_inverse_determinant_and_score(model):
    coordinates, v = model.conditional_coordinates, point_of(model)
    x = coordinates.forward(v)
    np.testing.assert_allclose(coordinates.inverse(x), v, atol=1e-9)
    jacobian = jax.jacobian(coordinates.forward)(v)
    np.testing.assert_allclose(coordinates.log_det_at(v), np.linalg.slogdet(jacobian)[1], atol=1e-9)
    whitened = Whitened(model, coordinates)
    np.testing.assert_allclose(whitened.score(v), jax.grad(whitened.log_prob)(v), rtol=1e-6, atol=1e-8)
    assert coordinates.dim == model.dim
    np.testing.assert_array_equal(coordinates.mean, coordinates.forward(jnp.zeros(model.dim)))


def test_composed_with_an_affine_map(model):
    rng = np.random.default_rng(2)
    inner = DiagonalMap(rng.normal(size=model.dim), rng.uniform(0.5, 2.0, model.dim))
    both, u = ComposedMap(model.conditional_coordinates, inner), point_of(model)
    np.testing.assert_allclose(both.inverse(both.forward(u)), u, atol=1e-9)
    jacobian = jax.jacobian(both.forward)(u)
    np.testing.assert_allclose(both.log_det_at(u), np.linalg.slogdet(jacobian)[1], atol=1e-9)
    whitened = Whitened(model, both)
    np.testing.assert_allclose(whitened.score(u), jax.grad(whitened.log_prob)(u), rtol=1e-6, atol=1e-8)
    with pytest.raises(ValueError, match="inner must have the dim of outer"):
        ComposedMap(model.conditional_coordinates, DiagonalMap(np.zeros(2), np.ones(2)))


def test_is_stored_by_its_fields():
    model, arrays = network(), []
    both = ComposedMap(model.conditional_coordinates, DiagonalMap(np.zeros(model.dim), np.ones(model.dim)))
    again = codec.decode(codec.encode(both, arrays), arrays)
    u = point_of(model)
    np.testing.assert_array_equal(again.forward(u), both.forward(u))


@pytest.mark.parametrize(("rows", "features", "noise", "weight"), [(300, 1, 1000.0, 1.0), (300, 6, 2000.0, 0.1)])
def test_is_exact_in_single_precision(rows, features, noise, weight):
    """Neighbouring rectifiers are nearly the same unit, so A has eigenvalues from λ to millions of times that."""
    x = np.random.default_rng(1).uniform(-1.0, 1.0, (rows, features))
    model = BayesianNeuralNetwork(x, x.sum(1), (50,), noise_precision=noise, weight_precision=weight)
    whitened, last = Whitened(model, model.conditional_coordinates), last_of(model)
    for seed in (1, 2):
        v = point_of(model, seed)
        np.testing.assert_allclose(whitened.score(v)[last], -v[last], atol=0.01)


def test_a_unit_that_is_off_has_its_prior():
    """In single precision too: rows say nothing of its weight, so that one is N(0, 1/λ)."""
    x, y = data(200)
    model = BayesianNeuralNetwork(x, y, (5,), noise_precision=1e4, weight_precision=0.5)
    p = model.point(point_of(model))
    p["bias_1"] = p["bias_1"].at[0].set(-1e3)
    v, coordinates, place = model.layout.ravel(p), model.conditional_coordinates, last_of(model)[0]
    centre = coordinates.forward(v.at[last_of(model)].set(0.0))[place]
    moved = [float(coordinates.forward(v.at[last_of(model)].set(e))[place] - centre) for e in np.eye(6)]
    np.testing.assert_allclose(np.linalg.norm(moved), 2.0**0.5, rtol=1e-4)
    np.testing.assert_allclose(centre, 0.0, atol=1e-4)


def test_twin_units_do_not_break_it():
    """A large γ, and A without an inverse in float32: the map stays finite and invertible."""
    x, y = data(200)
    model = BayesianNeuralNetwork(x, y, (5,), "tanh", noise_precision=1e6, weight_precision=0.01)
    p = model.point(point_of(model))
    p["weight_1"], p["bias_1"] = jnp.broadcast_to(p["weight_1"][:, :1], (2, 5)), jnp.zeros(5)
    v = model.layout.ravel(p)
    coordinates = model.conditional_coordinates
    x = coordinates.forward(v)
    assert np.isfinite(Whitened(model, coordinates).score(v)).all()
    np.testing.assert_allclose(coordinates.inverse(x), v, atol=0.05)


@pytest.mark.parametrize(
    "settings",
    [
        {"likelihood": "student-t"},
        {"activation": lambda x: jnp.maximum(x, 0.1 * x)},
        {"network": eqx.nn.MLP(2, "scalar", 4, 1, key=jax.random.key(0)), "weight_precision": 1.0},
    ],
)
def test_others_have_none(settings):
    model = BayesianNeuralNetwork(*data(), **{"noise_precision": NOISE, "weight_precision": 1.0} | settings)
    assert model.conditional_coordinates is None


def test_of_classes_there_is_none():
    x, _ = data()
    model = BayesianNeuralNetwork(x, np.arange(25) % 3, likelihood="softmax", weight_precision=1.0)
    assert model.conditional_coordinates is None


def test_of_a_linear_network_the_fit_is_the_exact_posterior():
    """With no hidden layer all weights are conditional, so draws, density and evidence have closed forms."""
    model = network(hidden=())
    x = np.column_stack([np.asarray(model.data["x"]), np.ones(25)]).astype(float)
    y = np.asarray(model.data["y"], float)
    precision = 2.0 * np.eye(3) + NOISE * x.T @ x
    mean, covariance = np.linalg.solve(precision, NOISE * x.T @ y), np.linalg.inv(precision)
    posterior = sivi.fit(model, key=0, num_steps=1, repeats=2, progress=False)
    draws = np.asarray(posterior.unconstrained(20_000, key=1), float)[:, [1, 2, 0]]  # the bias is the first unknown
    np.testing.assert_allclose(draws.mean(0), mean, atol=0.05 * np.sqrt(np.diag(covariance)).max())
    np.testing.assert_allclose(np.cov(draws.T), covariance, rtol=0.1, atol=3e-4)
    covariance_y = np.eye(25) / NOISE + x @ x.T / 2.0
    log_evidence = -0.5 * (y @ np.linalg.solve(covariance_y, y) + np.linalg.slogdet(2.0 * np.pi * covariance_y)[1])
    estimate = posterior.log_evidence(key=2, num_samples=4096)
    assert abs(estimate.value - log_evidence) < 0.02
    offset = np.asarray(posterior.unconstrained(50, key=3), float)[:, [1, 2, 0]] - mean
    exact = -0.5 * np.sum(offset @ precision * offset, axis=1)
    exact -= 0.5 * np.linalg.slogdet(2.0 * np.pi * covariance)[1]
    values, errors = posterior.log_prob(posterior.sample(50, key=3))
    assert np.all(np.abs(values - exact) < 5.0 * errors + 0.05)


def test_a_saved_fit_draws_the_same(tmp_path):
    posterior = sivi.fit(network(), key=0, num_steps=1, repeats=2, progress=False)
    posterior.save(tmp_path / "fit.sivi")
    loaded = sivi.load(tmp_path / "fit.sivi")
    np.testing.assert_array_equal(loaded.unconstrained(7, key=1), posterior.unconstrained(7, key=1))
    assert isinstance(loaded.affines, ComposedMap)


@pytest.mark.slow
def test_draws_of_a_hidden_layer_are_those_of_chains():
    """Means and spreads of predictions beside HMC, which moves in the weights themselves."""
    x = np.linspace(-1.0, 1.0, 30)[:, None]
    y = np.sin(2.0 * x[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=30)
    model = BayesianNeuralNetwork(x, y, (8,), "tanh", noise_precision=40.0, weight_precision=(0.5, 2.0))
    starts = np.stack([model.random_start(key) for key in jax.random.split(jax.random.key(1), 4)])
    run = sivi.samplers.hmc(model, key=2, num_chains=4, num_samples=1000, num_warmup=500, init=starts, progress=False)
    exact = np.asarray(jax.vmap(model.predictions)(jnp.asarray(run.flat())))
    draws = sivi.fit(model, key=0, num_steps=1, progress=False).unconstrained(4000, key=1)
    found = np.asarray(jax.vmap(model.predictions)(draws))
    rows = slice(0, 30)
    assert np.abs((found - exact).mean(0) / exact.std(0))[rows].max() < 0.5
    ratio = found.std(0) / exact.std(0)
    assert 0.8 < np.median(ratio) < 1.25


class TestWhoHasThem:
    def test_not_a_fit_of_minibatches_or_in_given_coordinates(self):
        small = {"key": 0, "num_steps": 1, "repeats": 1, "progress": False}
        assert isinstance(sivi.fit(network(), batch_size=10, **small).affines, DiagonalMap)
        assert isinstance(sivi.fit(network(), whiten=None, **small).affines, IdentityMap)

    @pytest.mark.slow
    def test_other_methods_have_more_updates(self):
        def stop(report):
            return True

        settings = {"key": 0, "repeats": 1, "chunk_size": 1, "callbacks": [stop], "progress": False}
        assert sivi.fit(network(), **settings).num_steps == 20
        assert sivi.fit(network(), whiten=None, **settings).num_steps == 1000
        assert sivi.fit(network(), objective=sivi.objectives.PathKL(), **settings).num_steps == 1000

    def test_not_a_target_in_other_coordinates(self):
        model = network()
        inner = DiagonalMap(np.zeros(model.dim), np.full(model.dim, 2.0))
        assert conditional_coordinates_of(Whitened(model, inner)) is None
        assert conditional_coordinates_of(sivi.targets.Tempered(model, 0.5)) is not None
        recipe = sivi.defaults.recipe(model.dim, 25)
        assert recipe.for_target(Whitened(model, inner)) == recipe.for_symmetries(conditional=False)


def test_memory_of_the_map_counts(x64):
    """So many units that a point needs more numbers for the map than for the rows: fewer points go side by side."""
    x, y = data()
    wide = BayesianNeuralNetwork(x, y, (300,), noise_precision=NOISE, weight_precision=1.0)
    coordinates = wide.conditional_coordinates
    assert rows_of(Whitened(wide, coordinates)) >= coordinates.numbers_per_point > rows_of(wide)
    recipe = sivi.defaults.recipe(wide.dim, 25)
    assert recipe.for_target(wide) == recipe.for_symmetries(conditional=True)
    wider = BayesianNeuralNetwork(x, y, (600,), noise_precision=NOISE, weight_precision=1.0)
    assert sivi.defaults.recipe(wider.dim, 25).for_target(wider).optimum.conditional is False


def test_root_of_gram_and_its_derivative(x64):
    """The Cholesky factor of MᵀM; its derivative, and that of the derivative, are those through `cholesky`."""
    rows = jnp.asarray(np.random.default_rng(3).normal(size=(7, 4)))
    weights = jnp.asarray(np.random.default_rng(4).normal(size=(4, 4)))

    def plain(rows):
        return jnp.linalg.cholesky(rows.T @ rows)

    np.testing.assert_allclose(root_of_gram(rows), plain(rows), atol=1e-12)
    gradients = [jax.grad(lambda m, f=f: jnp.sum(weights * jnp.sin(f(m)))) for f in (root_of_gram, plain)]
    np.testing.assert_allclose(gradients[0](rows), gradients[1](rows), atol=1e-11)
    second = [jax.grad(lambda m, g=g: jnp.sum(jnp.cos(g(m))))(rows) for g in gradients]
    np.testing.assert_allclose(second[0], second[1], atol=1e-9)
