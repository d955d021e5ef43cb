import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from sivi.metrics import _predictive_sums, classification_scores, predictive_scores, regression_scores
from sivi.targets import BayesianNeuralNetwork, GammaPrior, LogisticRegression

RNG = np.random.default_rng(0)
INPUTS, TARGETS = 50.0 + 9.0 * RNG.normal(size=(15, 2)), 300.0 + 40.0 * RNG.normal(size=15)
NEW_INPUTS, NEW_TARGETS = 50.0 + 9.0 * RNG.normal(size=(7, 2)), 300.0 + 40.0 * RNG.normal(size=7)


def network(**settings):
    return BayesianNeuralNetwork(INPUTS, TARGETS, (3,), "tanh", **{"weight_precision": 1.0} | settings)


def slow(model, draws, density):
    """One draw and one row at a time, in the units of the targets."""
    sums, means = np.zeros(len(NEW_TARGETS)), np.zeros(len(NEW_TARGETS))
    for z in draws:
        p = {name: np.asarray(value, float) for name, value in model.point(jnp.asarray(z)).items()}
        for n, row in enumerate(NEW_INPUTS):
            x = (row - INPUTS.mean(0)) / INPUTS.std(0)
            hidden = np.tanh(x @ p["weight_1"] + p["bias_1"])
            mean = float(hidden @ p["weight_2"][:, 0] + p["bias_2"][0]) * TARGETS.std() + TARGETS.mean()
            means[n] += mean / len(draws)
            sums[n] += density(NEW_TARGETS[n], mean, p) / len(draws)
    return math.sqrt(np.mean((means - NEW_TARGETS) ** 2)), -np.mean(np.log(sums))


def normal_density(y, mean, p):
    return stats.norm.pdf(y, mean, TARGETS.std() / math.sqrt(p.get("noise_precision", 2.0)))


@pytest.mark.parametrize(
    ("settings", "density"),
    [
        ({"noise_precision": 2.0}, normal_density),
        ({"noise_precision": GammaPrior(1.0, 1.0)}, normal_density),
        (
            {"noise_precision": 2.0, "likelihood": "student-t", "degrees_of_freedom": 3.0},
            lambda y, mean, p: stats.t.pdf(y, 3.0, mean, TARGETS.std() / math.sqrt(2.0)),
        ),
    ],
)
def test_against_a_slow_loop_in_the_units_of_the_targets(settings, density, precision):
    model = network(**settings)
    draws = np.random.default_rng(1).normal(size=(6, model.dim))
    rmse, nll = slow(model, draws, density)
    digits = 1e-9 if precision == "float64" else 1e-4
    by_name = jax.vmap(model.point)(jnp.asarray(draws))
    for given in (draws, by_name):
        scores = regression_scores(model, given, NEW_INPUTS, NEW_TARGETS)
        np.testing.assert_allclose([scores.rmse, scores.nll], [rmse, nll], rtol=digits)
        np.testing.assert_allclose(np.sqrt(np.mean((scores.mean - NEW_TARGETS) ** 2)), rmse, rtol=digits)
        np.testing.assert_allclose(scores.log_densities.mean(), -nll, rtol=digits)


def test_in_blocks_and_beside_the_standardised_scores(monkeypatch):
    model = network(noise_precision=2.0)
    draws = np.random.default_rng(2).normal(size=(6, model.dim))
    scores = regression_scores(model, draws, NEW_INPUTS, NEW_TARGETS)
    standardised = predictive_scores(model, draws, model.as_data(NEW_INPUTS, NEW_TARGETS))
    np.testing.assert_allclose(standardised.per_point - math.log(TARGETS.std()), -scores.nll, rtol=1e-5)
    monkeypatch.setattr(_predictive_sums, "_NUMBERS", 30)
    blocks = regression_scores(model, draws, NEW_INPUTS, NEW_TARGETS)
    np.testing.assert_allclose([blocks.rmse, blocks.nll], [scores.rmse, scores.nll], rtol=1e-5)


def test_a_network_of_classes_has_the_scores_of_classifiers(x64):
    labels, new_labels = np.arange(15) % 3, np.arange(7) % 3
    model = BayesianNeuralNetwork(INPUTS, labels, (3,), "tanh", likelihood="softmax", weight_precision=1.0)
    draws = np.random.default_rng(3).normal(size=(6, model.dim))
    scores = classification_scores(model, draws, model.as_data(NEW_INPUTS, new_labels))
    probabilities = np.mean([model.predict(model.point(jnp.asarray(z)), NEW_INPUTS) for z in draws], axis=0)
    np.testing.assert_allclose(scores.probabilities, probabilities, rtol=1e-10)
    assert scores.accuracy == np.mean(probabilities.argmax(1) == new_labels)
    np.testing.assert_allclose(scores.per_point, np.mean(np.log(probabilities[np.arange(7), new_labels])), rtol=1e-10)


def test_wrong_input(as_a_user):
    model = network(noise_precision=2.0)
    draws = np.zeros((2, model.dim))
    classes = BayesianNeuralNetwork(INPUTS, np.arange(15) % 2, (3,), likelihood="softmax", weight_precision=1.0)
    logistic = LogisticRegression(INPUTS, np.arange(15) % 2)
    for arguments, error, rule in [
        (
            (logistic, draws, NEW_INPUTS, NEW_TARGETS),
            TypeError,
            r"^model must be a sivi\.targets\.BayesianNeuralNetwork",
        ),
        ((classes, draws, NEW_INPUTS, NEW_TARGETS), ValueError, r"^model must be one of a regression; the labels of"),
        (
            (network(), draws, NEW_INPUTS, NEW_TARGETS),
            ValueError,
            r"^model must have its precisions; it lacks noise_precision, and",
        ),
        (
            (model, draws[:, 1:], NEW_INPUTS, NEW_TARGETS),
            ValueError,
            r"^draws and model must have the same dim; got 12",
        ),
        ((model, draws * np.nan, NEW_INPUTS, NEW_TARGETS), ValueError, r"^draws must be finite"),
        ((model, draws, NEW_INPUTS[:, :1], NEW_TARGETS), ValueError, r"^inputs must have shape \(num_data, 2\); got"),
        (
            (model, draws, NEW_INPUTS, NEW_TARGETS[1:]),
            ValueError,
            r"^targets must have shape \(7,\), one number for each",
        ),
        (
            (model, draws, NEW_INPUTS, NEW_TARGETS * np.nan),
            ValueError,
            r"^targets must be finite; 7 of 7 numbers are not",
        ),
    ]:
        with pytest.raises(error, match=rule):
            regression_scores(*arguments)
    with pytest.raises(
        ValueError, match=r"^targets must be whole numbers from 0 to 1; got 2, and 2 such values in all"
    ):
        classes.as_data(NEW_INPUTS, np.arange(7) % 3)
