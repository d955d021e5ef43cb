import itertools
import math
import pickle

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import sivi
from sivi import _programs
from sivi.targets import BayesianNeuralNetwork, GammaPrior, HasSymmetries

RNG = np.random.default_rng(0)
NUM_DATA, FEATURES = 12, 3
INPUTS = RNG.normal(size=(NUM_DATA, FEATURES)) * [1.0, 20.0, 0.1] + [0.0, 300.0, -4.0]
TARGETS = 7.0 + 3.0 * RNG.normal(size=NUM_DATA)
LABELS = np.arange(NUM_DATA) % 3
FIXED = {"noise_precision": 2.5, "weight_precision": 0.7}


def network(likelihood="normal", hidden=(4, 2), activation="tanh", **settings):
    outcome = LABELS if likelihood == "softmax" else TARGETS
    layers = {} if "network" in settings else {"hidden": hidden, "activation": activation}
    return BayesianNeuralNetwork(INPUTS, outcome, likelihood=likelihood, **layers, **settings)


def standardised(values):
    return (values - values.mean(0)) / values.std(0)


def naive_outputs(p, row, num_layers=3):
    """One unit at a time."""
    values = list(row)
    for layer in range(1, num_layers + 1):
        weight, bias = np.asarray(p[f"weight_{layer}"], float), np.asarray(p[f"bias_{layer}"], float)
        sums = [bias[j] + sum(values[i] * weight[i, j] for i in range(len(values))) for j in range(len(bias))]
        values = sums if layer == num_layers else [math.tanh(s) for s in sums]
    return np.array(values)


def naive_log_likelihood(likelihood, outputs, y, noise):
    if likelihood == "softmax":
        return outputs[y] - math.log(sum(math.exp(f) for f in outputs))
    if likelihood == "student-t":
        return stats.t.logpdf(y, df=3.0, loc=outputs[0], scale=noise**-0.5)
    return stats.norm.logpdf(y, outputs[0], noise**-0.5)


def naive_log_prob(model, z, likelihood, precisions, prior=None, rows=None, noise=2.5):
    """Log density at free numbers z: prior, likelihood, and the Jacobian of an inferred noise precision."""
    p = {name: np.asarray(value, float) for name, value in model.point(jnp.asarray(z)).items()}
    total = 0.0
    if prior is not None:
        noise = float(p["noise_precision"])
        total += stats.gamma.logpdf(noise, prior.shape, scale=1.0 / prior.rate)
        total += math.log(noise)  # the free number is log γ
    for name, array in p.items():
        if name != "noise_precision":
            sd = precisions[int(name[-1]) - 1] ** -0.5
            total += sum(stats.norm.logpdf(w, 0.0, sd) for w in array.ravel())
    x, y = standardised(INPUTS), LABELS if likelihood == "softmax" else standardised(TARGETS)
    rows = range(NUM_DATA) if rows is None else rows
    terms = [naive_log_likelihood(likelihood, naive_outputs(p, x[n]), y[n], noise) for n in rows]
    return total + NUM_DATA / len(list(rows)) * sum(terms)


CASES = {
    "normal": ("normal", {"noise_precision": 2.5, "weight_precision": 0.7}),
    "normal-by-layer": ("normal", {"noise_precision": 2.5, "weight_precision": (0.7, 2.0, 5.0)}),
    "normal-inferred": ("normal", {"noise_precision": GammaPrior(2.0, 0.5), "weight_precision": 0.7}),
    "student-t": ("student-t", {"noise_precision": 2.5, "weight_precision": 0.7, "degrees_of_freedom": 3.0}),
    "student-t-inferred": (
        "student-t",
        {"noise_precision": GammaPrior(2.0, 0.5), "weight_precision": (1.0, 2.0, 3.0), "degrees_of_freedom": 3.0},
    ),
    "softmax": ("softmax", {"weight_precision": (0.7, 2.0, 5.0)}),
}


@pytest.mark.parametrize("case", CASES)
def test_log_density_and_score_one_unit_at_a_time(case, x64):
    likelihood, settings = CASES[case]
    model = network(likelihood, **settings)
    z = np.random.default_rng(1).normal(size=model.dim)
    precisions = np.broadcast_to(settings["weight_precision"], 3)
    prior = settings.get("noise_precision") if "inferred" in case else None
    for rows in (None, [3, 7]):
        density = lambda z, rows=rows: naive_log_prob(model, z, likelihood, precisions, prior, rows)  # noqa: E731
        batch = None if rows is None else jnp.asarray(rows)
        np.testing.assert_allclose(model.log_prob(jnp.asarray(z), batch), density(z), rtol=1e-10)
        if rows is not None:
            steps = 1e-5 * np.eye(model.dim)[::5]
            slopes = [(density(z + step) - density(z - step)) / 2e-5 for step in steps]
            np.testing.assert_allclose(model.score(jnp.asarray(z), batch)[::5], slopes, rtol=1e-6, atol=1e-7)


def test_minibatches_average_to_all_data_over_every_batch(x64):
    model = network(**FIXED)
    z = jnp.asarray(np.random.default_rng(2).normal(size=model.dim))
    batches = jnp.asarray(list(itertools.combinations(range(NUM_DATA), 3)))
    scores = jax.vmap(lambda batch: model.score(z, batch))(batches)
    np.testing.assert_allclose(scores.mean(0), model.score(z), rtol=1e-10, atol=1e-10)
    assert float(scores.std(0).min()) > 1e-4


def test_unknowns_have_names_and_shapes():
    model = BayesianNeuralNetwork(np.random.default_rng(0).normal(size=(20, 13)), np.arange(20.0), **FIXED)
    assert model.dim == 751
    shapes = {variable.name: variable.shape for variable in model.layout.variables}
    assert shapes == {"weight_1": (13, 50), "bias_1": (50,), "weight_2": (50, 1), "bias_2": (1,)}
    inferred = network(noise_precision=GammaPrior(1.0, 1.0), weight_precision=1.0)
    assert inferred.layout.names == tuple(sorted(["noise_precision", *network(**FIXED).layout.names]))
    assert float(inferred.point(jnp.zeros(inferred.dim))["noise_precision"]) == 1.0


def test_data_are_standardised_by_the_rows_given(precision):
    inputs = np.column_stack([INPUTS, np.full(NUM_DATA, 1e6)])
    model = BayesianNeuralNetwork(inputs, TARGETS, **FIXED)
    assert model.data["x"].dtype == model.data["y"].dtype == precision
    np.testing.assert_allclose(model.data["x"][:, :FEATURES], standardised(INPUTS), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(model.data["x"][:, FEATURES], 0.0)
    np.testing.assert_allclose(model.data["y"], standardised(TARGETS), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.observed["y"], TARGETS, rtol=1e-5)
    again = model.as_data(inputs, TARGETS)
    np.testing.assert_allclose(again["x"], model.data["x"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(again["y"], model.data["y"], rtol=1e-4, atol=1e-5)
    labels = network("softmax", weight_precision=1.0)
    np.testing.assert_array_equal(labels.data["y"], LABELS)
    np.testing.assert_array_equal(labels.observed["y"], LABELS)


def test_predictions_are_in_the_units_of_the_targets(x64):
    model = network(**FIXED)
    z = jnp.asarray(np.random.default_rng(3).normal(size=model.dim))
    p, new = model.point(z), INPUTS[:4] + 0.3
    rows = (new - INPUTS.mean(0)) / INPUTS.std(0)
    slow = np.array([naive_outputs(p, row)[0] for row in rows]) * TARGETS.std() + TARGETS.mean()
    np.testing.assert_allclose(model.predict(p, new), slow, rtol=1e-10)
    classes = network("softmax", weight_precision=1.0)
    z = jnp.asarray(np.random.default_rng(4).normal(size=classes.dim))
    logits = np.array([naive_outputs(classes.point(z), row) for row in rows])
    np.testing.assert_allclose(
        classes.predict(classes.point(z), new), np.exp(logits) / np.exp(logits).sum(1, keepdims=True), rtol=1e-10
    )


def test_likelihoods_of_observations_are_densities_in_their_units(x64):
    model = network(**FIXED)
    z = jnp.asarray(np.random.default_rng(5).normal(size=model.dim))
    mean = np.asarray(model.predict(model.point(z), INPUTS))
    slow = stats.norm.logpdf(TARGETS, mean, TARGETS.std() / math.sqrt(2.5))
    np.testing.assert_allclose(model.pointwise_log_likelihood(z)["y"], slow, rtol=1e-8)


@pytest.mark.parametrize(
    ("likelihood", "settings"),
    [
        ("student-t", FIXED | {"degrees_of_freedom": 9.0}),
        ("softmax", {"weight_precision": 1.0}),
        ("normal", {"noise_precision": GammaPrior(1.0, 1.0), "weight_precision": 1.0}),
    ],
)
def test_new_data_are_drawn_from_the_likelihood(likelihood, settings):
    """Means and variances of 5,000 draws, each within 4.5 standard errors of what they should be."""
    model, count = network(likelihood, **settings), 5000
    z = jnp.asarray(np.random.default_rng(6).normal(size=model.dim), jnp.float32)
    p = model.point(z)

    @jax.jit
    @jax.vmap
    def draw(key):
        datum = model.sample_datum(key, p, jax.tree.map(lambda array: array[0], model.data))
        new = model.sample_predictive(key, p, INPUTS[:3])
        return model.replicate(key, z)["y"][:3], new, model.units.raw(datum[None])

    expected = np.asarray(model.predict(p, INPUTS[:3]), float)
    noise = float(p.get("noise_precision", 2.5))
    variance = TARGETS.var() / noise * (9.0 / 7.0 if likelihood == "student-t" else 1.0)
    for values in draw(jax.random.split(jax.random.key(0), count)):
        if likelihood == "softmax":
            shares = np.asarray(jax.nn.one_hot(values, 3).mean(0))
            assert np.abs(shares - expected[: values.shape[1]]).max() < 4.5 * 0.5 / math.sqrt(count)
            continue
        errors = np.asarray(values, float) - expected[: values.shape[1]]
        assert np.abs(errors.mean(0)).max() < 4.5 * math.sqrt(variance / count)
        kurtosis = 4.2 if likelihood == "student-t" else 3.0  # 3 + 6/(df − 4)
        assert np.abs(errors.var(0) / variance - 1.0).max() < 4.5 * math.sqrt((kurtosis - 1.0) / count)


def permuted(p, order):
    """The same network with the units of its first layer in another order."""
    return p | {
        "weight_1": p["weight_1"][:, order],
        "bias_1": p["bias_1"][order],
        "weight_2": p["weight_2"][order],
    }


@pytest.mark.parametrize("case", CASES)
def test_judged_predictions_do_not_see_the_order_of_hidden_units(case, x64):
    likelihood, settings = CASES[case]
    model = network(likelihood, **settings)
    z = jnp.asarray(np.random.default_rng(7).normal(size=model.dim))
    other = model.layout.ravel(permuted(model.point(z), jnp.asarray([2, 0, 3, 1])))
    assert isinstance(model, HasSymmetries)
    assert float(jnp.abs(z - other).max()) > 0.1
    np.testing.assert_allclose(model.predictions(other), model.predictions(z), rtol=1e-10)
    np.testing.assert_allclose(model.log_prob(other), model.log_prob(z), rtol=1e-10)
    assert len(model.prediction_names) == len(set(model.prediction_names)) == len(model.predictions(z))


def test_judged_predictions_are_what_the_likelihood_depends_on(x64):
    model = network(judged_at=INPUTS[:2], noise_precision=GammaPrior(1.0, 1.0), weight_precision=1.0)
    z = jnp.asarray(np.random.default_rng(8).normal(size=model.dim))
    p = model.point(z)
    raw = np.asarray(model.predict(p, INPUTS[:2]))
    expected = [*(raw - TARGETS.mean()) / TARGETS.std(), math.log(p["noise_precision"])]
    np.testing.assert_allclose(model.predictions(z), expected, rtol=1e-9)
    assert model.prediction_names == ("f[0]", "f[1]", "log noise_precision")
    classes = network("softmax", judged_at=INPUTS[:2], weight_precision=1.0)
    z = jnp.asarray(np.random.default_rng(9).normal(size=classes.dim))
    shifted = classes.layout.ravel(classes.point(z) | {"bias_3": classes.point(z)["bias_3"] + 5.0})
    np.testing.assert_allclose(classes.predictions(shifted), classes.predictions(z), rtol=1e-8)
    log_p = np.log(classes.predict(classes.point(z), INPUTS[:2]))
    np.testing.assert_allclose(classes.predictions(z), (log_p - log_p.mean(1, keepdims=True))[:, :2].ravel(), rtol=1e-8)
    assert classes.prediction_names == ("f[0,0]", "f[0,1]", "f[1,0]", "f[1,1]")


def test_random_starts_have_the_scale_of_their_fan_in():
    model = BayesianNeuralNetwork(np.random.default_rng(0).normal(size=(5, 100)), np.arange(5.0), (400,), **FIXED)
    p = model.point(model.random_start(jax.random.key(0)))
    for name, scale in {"weight_1": 0.1, "bias_1": 0.1, "weight_2": 0.05}.items():
        assert abs(float(p[name].std()) / scale - 1.0) < 4.5 / math.sqrt(2.0 * p[name].size), name
    inferred = network(noise_precision=GammaPrior(1.0, 1.0), weight_precision=1.0)
    assert float(inferred.point(inferred.random_start(jax.random.key(0)))["noise_precision"]) == 1.0


def equinox_mlp(out="scalar"):
    return eqx.nn.MLP(FEATURES, out, 4, 2, activation=jnp.tanh, key=jax.random.key(1))


@pytest.mark.parametrize(("likelihood", "out"), [("normal", "scalar"), ("normal", 1), ("softmax", 3)])
def test_a_module_is_the_built_in_network_with_its_weights(likelihood, out, x64):
    settings = {"weight_precision": 0.7} | ({"noise_precision": 2.5} if likelihood == "normal" else {})
    own = network(likelihood, (4, 4), **settings)
    other = network(likelihood, network=equinox_mlp(out), **settings)
    assert other.dim == own.dim
    p = own.point(jnp.asarray(np.random.default_rng(10).normal(size=own.dim)))
    q = {f"layers.{i}.weight": p[f"weight_{i + 1}"].T for i in range(3)}
    q |= {f"layers.{i}.bias": p[f"bias_{i + 1}"] for i in range(3)}
    z, w = own.layout.ravel(p), other.layout.ravel(q)
    np.testing.assert_allclose(other.log_prob(w), own.log_prob(z), rtol=1e-12)
    np.testing.assert_allclose(other.predictions(w), own.predictions(z), rtol=1e-10)
    np.testing.assert_allclose(other.predict(q, INPUTS), own.predict(p, INPUTS), rtol=1e-10)


class WithConstants(eqx.Module):
    """Arrays that are no unknowns, no bias, and a layer's scale of ones."""

    linear: eqx.nn.Linear
    norm: eqx.nn.LayerNorm
    order: np.ndarray
    name: str = "any"

    def __call__(self, x):
        return jnp.sum(self.norm(self.linear(x[self.order])))


def test_unknowns_of_a_module_are_its_floating_point_arrays():
    linear = eqx.nn.Linear(FEATURES, 5, use_bias=False, key=jax.random.key(0))
    model = network(network=WithConstants(linear, eqx.nn.LayerNorm(5), np.array([2, 0, 1])), **FIXED)
    assert model.layout.names == ("linear.weight", "norm.bias", "norm.weight")
    start = model.point(model.random_start(jax.random.key(0)))
    np.testing.assert_array_equal(start["norm.weight"], 1.0)
    assert float(jnp.abs(start["linear.weight"] - linear.weight).max()) > 0.1
    by_array = network(network=equinox_mlp(), noise_precision=1.0, weight_precision=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    assert by_array.network.groups["layers.1.weight"] == 2
    assert np.isfinite(float(by_array.log_prob(by_array.random_start(jax.random.key(0)))))


@pytest.mark.parametrize("module", [None, equinox_mlp()])
def test_other_data_of_the_same_shape_find_the_program(module):
    runs = []

    @_programs.compiled
    def log_prob(model, z):
        runs.append(1)
        return model.log_prob(z)

    for inputs, targets, noise in [(INPUTS, TARGETS, 2.0), (INPUTS**2, TARGETS + 1.0, 3.0)]:
        model = BayesianNeuralNetwork(inputs, targets, network=module, noise_precision=noise, weight_precision=noise)
        log_prob(model, jnp.zeros(model.dim))
    assert len(runs) == 1


def test_left_out_precisions_are_asked_for():
    for settings, names in [
        ({}, "noise_precision and weight_precision"),
        ({"noise_precision": 1.0}, "weight_precision"),
        ({"weight_precision": 1.0}, "noise_precision"),
    ]:
        model = network(**settings)
        assert " and ".join(model.left_out) == names
        with pytest.raises(ValueError, match=rf"^{names} must be given for a density, or found first; use model\."):
            model.log_prob(jnp.zeros(model.dim))
    model = network()
    assert model.predict(model.point(model.random_start(jax.random.key(0))), INPUTS).shape == (NUM_DATA,)
    assert network("softmax").left_out == ("weight_precision",)
    assert network("softmax", weight_precision=1.0).prepared(jax.random.key(0)).notes == ()


@pytest.mark.slow
def test_a_fit_comes_back_from_its_file(tmp_path):
    model = network(**FIXED)
    quick = sivi.objectives.PathKL(num_particles=16, critic_steps=1, critic_warmup=0)
    posterior = sivi.fit(model, objective=quick, num_steps=20, whiten=None, progress=False, key=0)
    posterior.save(tmp_path / "network.sivi")
    loaded = sivi.load(tmp_path / "network.sivi", target=model)
    assert loaded.predict(INPUTS[:4], 0, num_samples=7).shape == (7, 4)
    new = loaded.predictive(0, num_samples=7)["y"]
    assert new.shape == (7, NUM_DATA)
    assert abs(float(new.mean()) - TARGETS.mean()) < 3.0 * TARGETS.std()
    keys, draws = jax.random.split(jax.random.key(1), 7), loaded.sample(7, 0)
    elsewhere = jax.vmap(lambda key, p: model.sample_predictive(key, p, INPUTS[:4]))(keys, draws)
    assert elsewhere.shape == (7, 4)


NAN_INPUTS, NAN_TARGETS = np.where(INPUTS[0, 0] == INPUTS, np.nan, INPUTS), np.where(TARGETS > 9, np.inf, TARGETS)
MLP = equinox_mlp()

BAD_CALLS = [
    ((NAN_INPUTS, TARGETS), {}, r"^inputs must be finite; 1 of 36 numbers are not\.$"),
    ((INPUTS, NAN_TARGETS), {}, r"^targets must be finite; \d+ of 12 numbers are not\.$"),
    ((INPUTS[:1], TARGETS[:1]), {}, r"^inputs must have at least two rows; got 1\.$"),
    ((INPUTS[:, 0], TARGETS), {}, r"^inputs must have shape \(num_data, features\); got an array .* \(12,\)\.$"),
    ((INPUTS[:, :0], TARGETS), {}, r"^inputs must have at least one row and one column; got an array .* \(12, 0\)\.$"),
    ((INPUTS, TARGETS[:, None]), {}, r"^targets must have shape \(12,\), one number for each row; got .* \(12, 1\)\.$"),
    ((INPUTS, TARGETS[1:]), {}, r"^targets must have shape \(12,\), one number for each row; got .* \(11,\)\.$"),
    ((INPUTS, np.full(12, 3.0)), {}, r"^targets must not all be equal; got 3 in all 12 rows\.$"),
    ((INPUTS * 1e200, TARGETS), {}, r"^inputs must have means and standard deviations that are float32 numbers; got"),
    (
        (INPUTS, TARGETS, ()),
        {"likelihood": "cauchy"},
        r"^likelihood must be one of 'normal', 'student-t', 'softmax'; got",
    ),
    ((INPUTS, TARGETS, (0,)), {}, r"^hidden must be at least 1; got 0\.$"),
    ((INPUTS, TARGETS, (5,), "sine"), {}, r"^activation must be a function or one of \[.*\]; got 'sine'\.$"),
    ((INPUTS, TARGETS), {"noise_precision": -1.0}, r"^noise_precision must be a positive, finite number; got -1\.0\.$"),
    ((INPUTS, TARGETS), {"weight_precision": 0.0}, r"^weight_precision must be a positive, finite number; got 0\.0\.$"),
    (
        (INPUTS, TARGETS),
        {"weight_precision": (1.0, -2.0)},
        r"^weight_precision must be a positive, finite number; got -2",
    ),
    (
        (INPUTS, TARGETS),
        {"weight_precision": (1.0, 2.0, 3.0)},
        r"^weight_precision must be one number or 2, one for each layer; got 3\.$",
    ),
    (
        (INPUTS, TARGETS),
        {"network": MLP, "weight_precision": (1.0, 2.0)},
        r"^weight_precision must be one number or 6, one for each array of network; got 2\.$",
    ),
    (
        (INPUTS, TARGETS),
        {"degrees_of_freedom": 0.0},
        r"^degrees_of_freedom must be a positive, finite number; got 0\.0",
    ),
    ((INPUTS, TARGETS), {"num_classes": 3}, r"^num_classes must be left out with likelihood='normal'; got 3\.$"),
    (
        (INPUTS, LABELS - 1),
        {"likelihood": "softmax"},
        r"^targets must be whole numbers from 0 to 2³¹ − 1; got -1, and 4 such values in all\.$",
    ),
    (
        (INPUTS, LABELS / 2),
        {"likelihood": "softmax"},
        r"^targets must be whole numbers from 0 to 2³¹ − 1; got 0\.5, and 4 such values in all\.$",
    ),
    (
        (INPUTS, LABELS),
        {"likelihood": "softmax", "num_classes": 2},
        r"^targets must be whole numbers from 0 to 1; got 2, and 4 such values in all\.$",
    ),
    ((INPUTS, LABELS * 0), {"likelihood": "softmax"}, r"^num_classes must be given where targets has one class only"),
    (
        (INPUTS, LABELS + 10**6),
        {"likelihood": "softmax"},
        r"^num_classes must be given where a label is not below the number of rows, \d+; got the label 100000\d\.$",
    ),
    (
        (INPUTS, TARGETS),
        {"network": eqx.nn.Linear(3, 1, key=jax.random.key(0)), "hidden": (4,)},
        "^hidden and activation",
    ),
    (
        (INPUTS, LABELS),
        {"likelihood": "softmax", "noise_precision": 1.0},
        r"^noise_precision must be left out with likelihood='softmax'; got 1\.0\.$",
    ),
    ((INPUTS, TARGETS), {"judged_at": INPUTS[:, :2]}, r"^judged_at must have shape \(num_data, 3\); got an array"),
    (
        (INPUTS, LABELS),
        {"likelihood": "softmax", "network": MLP},
        r"^network must return a vector of shape \(3,\) with a logit for each class, for an input vector of",
    ),
    (
        (INPUTS, TARGETS),
        {"network": equinox_mlp(2)},
        r"^network must return one number for an input vector of shape \(3,\); got an array .* shape \(2,\)\.$",
    ),
]


@pytest.mark.parametrize(("arguments", "settings", "rule"), BAD_CALLS)
def test_wrong_input(arguments, settings, rule, as_a_user):
    with pytest.raises(ValueError, match=rule):
        BayesianNeuralNetwork(*arguments, **settings)


def test_wrong_types(as_a_user):
    for settings, rule in [
        ({"hidden": 50}, r"^hidden must be a sequence of widths, such as \(64, 64\); got 50\.$"),
        ({"noise_precision": "high"}, r"^noise_precision must be a positive number; got 'high'\.$"),
        ({"network": jnp.tanh}, r"^network must be an Equinox module that can be called; got"),
        ({"targets": ["a"] * NUM_DATA}, r"^targets must be an array of numbers; got"),
    ]:
        with pytest.raises(TypeError, match=rule):
            BayesianNeuralNetwork(**{"inputs": INPUTS, "targets": TARGETS} | settings)
    model = network(**FIXED)
    p = model.point(jnp.zeros(model.dim))
    with pytest.raises(ValueError, match=r"^inputs must have shape \(n, 3\); got an array .* \(2, 2\)\.$"):
        model.predict(p, np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"^method must be 'hmc' or 'svgd'; got 'laplace'\.$"):
        network().with_precisions(0, method="laplace")


class TestNewInputs:
    """Inputs of `Posterior.predict`, which are standardised on the host."""

    def fitted(self, x, **settings):
        model = BayesianNeuralNetwork(
            x, np.sin(np.arange(len(x))), (3,), "tanh", noise_precision=4.0, weight_precision=1.0
        )
        return sivi.fit(model, key=0, repeats=1, whiten=None, num_steps=2, progress=False)

    def test_are_standardised_in_double_precision(self):
        """Dates in seconds differ by less than single precision holds."""
        seconds = 1.7e9 + 60.0 * np.arange(40.0)[:, None]
        far, near = self.fitted(seconds), self.fitted(seconds - 1.7e9)
        np.testing.assert_allclose(
            far.predict(seconds, key=1), near.predict(seconds - 1.7e9, key=1), rtol=1e-4, atol=1e-5
        )

    def test_in_a_constant_column_are_ignored(self):
        x = np.stack([np.arange(20.0), np.full(20, 7.0)], axis=1)
        posterior = self.fitted(x)
        moved = x + np.array([0.0, 1000.0])
        np.testing.assert_array_equal(posterior.predict(moved, key=1), posterior.predict(x, key=1))
        model = posterior.target
        weights = model.point(model.random_start(jax.random.key(0)))
        traced = jax.jit(lambda inputs: model.predict(weights, inputs))(jnp.asarray(moved))
        np.testing.assert_allclose(traced, model.predict(weights, x), rtol=1e-5)

    def test_that_are_no_numbers_are_refused(self):
        posterior = self.fitted(np.arange(20.0)[:, None])
        for inputs, sentence in [
            ([[np.nan]], r"^inputs must be finite; 1 of 1 numbers are not\.$"),
            ([["a"]], r"^inputs must be an array of numbers; got"),
            (None, r"^inputs must be an array of numbers; got"),
            ([[1.0, 2.0]], r"^inputs must have shape \(n, 1\); got"),
            (np.ones((0, 1)), r"^inputs must have at least one row and one column; got"),
        ]:
            with pytest.raises((TypeError, ValueError), match=sentence):
                posterior.predict(inputs, key=1)


def test_a_network_is_pickled_with_its_posterior():
    model = BayesianNeuralNetwork(
        np.arange(20.0)[:, None], np.sin(np.arange(20.0)), (3,), noise_precision=4.0, weight_precision=1.0
    )
    again = pickle.loads(pickle.dumps(model))  # noqa: S301
    x = model.random_start(jax.random.key(0))
    assert float(again.log_prob(x)) == float(model.log_prob(x))
    by_function = BayesianNeuralNetwork(
        np.arange(20.0)[:, None], np.sin(np.arange(20.0)), (3,), jax.nn.relu, noise_precision=4.0, weight_precision=1.0
    )
    assert by_function.network == model.network
    posterior = sivi.fit(model, key=0, repeats=2, num_steps=2, whiten=None, progress=False)
    kept = pickle.loads(pickle.dumps(posterior))  # noqa: S301
    np.testing.assert_array_equal(kept.predict([[0.5]], key=1), posterior.predict([[0.5]], key=1))
    summary = posterior.summary(num_samples=100)
    assert "r_hat" not in summary.columns
    assert "in a mode of its own" in summary.said


def test_a_module_has_finite_arrays_and_a_regression_no_scores_of_classes():
    module = eqx.nn.MLP(1, "scalar", 3, 1, key=jax.random.key(0))
    broken = eqx.tree_at(lambda m: m.layers[0].bias, module, jnp.full(3, jnp.nan))
    x, y = np.arange(20.0)[:, None], np.sin(np.arange(20.0))
    with pytest.raises(ValueError, match=r"^network: layers\.0\.bias must be finite; 3 of 3 numbers are not\.$"):
        BayesianNeuralNetwork(x, y, network=broken)
    model = BayesianNeuralNetwork(x, y, (3,), noise_precision=4.0, weight_precision=1.0)
    with pytest.raises(ValueError, match="a regression is scored by regression_scores"):
        sivi.metrics.classification_scores(model, np.zeros((2, model.dim)), model.as_data(x, y))
