from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from sivi.metrics import _predictive_sums, classification_scores, predictive_scores
from sivi.targets import BayesianModel, LinearRegression, LogisticRegression, MultinomialRegression

RNG = np.random.default_rng(0)
FEATURES, CLASSES = 4, 3
TRAINING = (RNG.normal(size=(6, FEATURES)), [0, 1, 2, 0, 1, 2])
MODEL = MultinomialRegression(*TRAINING)
DRAWS = RNG.normal(size=(17, FEATURES * CLASSES))
INPUTS, LABELS = RNG.normal(size=(29, FEATURES)), RNG.integers(0, CLASSES, 29)


def slow_probabilities(draws, inputs):
    total = np.zeros((len(inputs), CLASSES))
    for draw in draws:
        for n, row in enumerate(inputs):
            weights = np.exp([draw[k * FEATURES : (k + 1) * FEATURES] @ row for k in range(CLASSES)])
            total[n] += weights / weights.sum()
    return total / len(draws)


def slow_scores(probabilities, labels, num_bins):
    """Accuracy, calibration error and Brier score, one datum at a time."""
    right, brier = 0, 0.0
    bins: list[list[tuple[float, bool]]] = [[] for _ in range(num_bins)]
    for p, label in zip(probabilities, labels, strict=True):
        best = max(range(len(p)), key=lambda k, p=p: p[k])
        right += best == label
        brier += sum((p[k] - (k == label)) ** 2 for k in range(len(p)))
        bins[next(b for b in range(num_bins) if p[best] < (b + 1) / num_bins)].append((p[best], best == label))
    gaps = [abs(sum(c for c, _ in b) - sum(r for _, r in b)) for b in bins]
    return right / len(labels), sum(gaps) / len(labels), brier / len(labels), [len(b) for b in bins]


@pytest.mark.parametrize("num_bins", [1, 4, 15])
def test_against_slow_loops(precision, num_bins):
    model = MultinomialRegression(*TRAINING)
    scores = classification_scores(model, DRAWS, (INPUTS, LABELS), num_bins=num_bins)
    digits = 1e-12 if precision == "float64" else 2e-6
    p = slow_probabilities(DRAWS, INPUTS)
    np.testing.assert_allclose(scores.probabilities, p, rtol=digits, atol=digits)
    accuracy, error, brier, counts = slow_scores(p, LABELS, num_bins)
    np.testing.assert_allclose(
        [scores.accuracy, scores.calibration_error, scores.brier], [accuracy, error, brier], rtol=10 * digits
    )
    assert scores.bins.count.tolist() == counts
    logs = predictive_scores(model, DRAWS, (INPUTS, LABELS))
    np.testing.assert_allclose([scores.per_point, scores.joint], [logs.per_point, logs.joint], rtol=digits)
    np.testing.assert_allclose(scores.per_point, np.mean(np.log(p[np.arange(29), LABELS])), rtol=10 * digits)


@pytest.mark.parametrize("numbers", [1, 60, 300, 1000])
def test_blocks_of_draws_and_of_data_change_nothing(numbers, monkeypatch):
    whole = classification_scores(MODEL, DRAWS, (INPUTS, LABELS))
    monkeypatch.setattr(_predictive_sums, "_NUMBERS", numbers)
    blocks = classification_scores(MODEL, DRAWS, (INPUTS, LABELS))
    for name in ("per_point", "joint", "accuracy", "calibration_error", "brier", "probabilities"):
        np.testing.assert_allclose(getattr(blocks, name), getattr(whole, name), rtol=2e-6, atol=1e-7)


def test_calibration_by_hand():
    """Five data of confidence 0.8, four of them right; two of confidence 0.6, none of them right; one of 1."""
    model = LogisticRegression([[1.0]], [0])
    logits = np.array([[np.log(4.0)]] * 5 + [[-np.log(1.5)]] * 2 + [[50.0]])
    scores = classification_scores(model, [[1.0]], (logits, [1, 1, 1, 1, 0, 1, 1, 1]), num_bins=4)
    np.testing.assert_allclose(scores.accuracy, 5 / 8)
    np.testing.assert_allclose(scores.bins.confidence, [np.nan, np.nan, 0.6, 5 / 6], rtol=1e-6)
    np.testing.assert_allclose(scores.bins.accuracy, [np.nan, np.nan, 0.0, 5 / 6], rtol=1e-6)
    assert scores.bins.count.tolist() == [0, 0, 2, 6]
    np.testing.assert_allclose(scores.calibration_error, (2 * 0.6 + 6 * 0.0) / 8, rtol=1e-5)
    np.testing.assert_allclose(scores.brier, 2 * (4 * 0.2**2 + 0.8**2 + 2 * 0.6**2) / 8, rtol=1e-5)


def test_two_classes_score_as_logistic_regression(x64):
    """Weights (0, β) of two classes are the coefficients β of one."""
    logistic = LogisticRegression(INPUTS, LABELS % 2)
    multinomial = MultinomialRegression(INPUTS, LABELS % 2)
    draws = DRAWS[:, :FEATURES]
    one = classification_scores(logistic, draws, (INPUTS, LABELS % 2))
    two = classification_scores(multinomial, np.concatenate([0 * draws, draws], 1), (INPUTS, LABELS % 2))
    for name in ("per_point", "joint", "accuracy", "calibration_error", "brier", "probabilities"):
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-10)


def test_labels_drawn_from_the_predictions_are_calibrated():
    rng = np.random.default_rng(1)
    inputs = rng.normal(size=(20_000, FEATURES))
    p = slow_probabilities(DRAWS[:1], inputs)
    labels = (rng.random((20_000, 1)) > p.cumsum(1)).sum(1)
    scores = classification_scores(MODEL, DRAWS[:1], (inputs, labels))
    sure = classification_scores(MODEL, 3 * DRAWS[:1], (inputs, labels))
    bins, used = scores.bins, scores.bins.count > 0
    noise = np.sqrt(bins.confidence * (1 - bins.confidence) / bins.count)[used]
    # Fifteen |z| < 4.4 fail falsely in 1 of 6,000 runs of one seed.
    assert np.abs((bins.accuracy - bins.confidence)[used] / noise).max() < 4.4
    assert scores.calibration_error < 0.015 < 0.05 < sure.calibration_error
    assert sure.accuracy == scores.accuracy
    assert sure.brier > scores.brier
    assert sure.per_point < scores.per_point


class Named(BayesianModel):
    data: dict[str, Array]
    dim: int = 1

    def log_prior(self, x):
        return jnp.zeros(())

    def log_likelihood(self, x, datum):
        return jnp.zeros(())


class Predicting(BayesianModel):
    """The multinomial model with other predictions."""

    model: MultinomialRegression
    change: Callable[[Array], Array]

    @property
    def dim(self):
        return self.model.dim

    @property
    def data(self):
        return self.model.data

    def log_prior(self, x):
        return self.model.log_prior(x)

    def log_likelihood(self, x, datum):
        return self.model.log_likelihood(x, datum)

    def predict(self, x, inputs):
        return self.change(self.model.predict(x, inputs))


def test_wrong_input(as_a_user):
    for labels, value in [(LABELS + 1, "3"), (LABELS - 1, "-1")]:
        rule = rf"^labels in data must be whole numbers from 0 to 2; got {value}, and \d+ such values in all\.$"
        with pytest.raises(ValueError, match=rule):
            classification_scores(MODEL, DRAWS, (INPUTS, labels))
    logistic = LogisticRegression(INPUTS, LABELS == 0)
    with pytest.raises(ValueError, match=r"^labels in data must be whole numbers from 0 to 1; got 0\.5, and"):
        classification_scores(logistic, DRAWS[:, :FEATURES], (INPUTS, LABELS / 2))
    with pytest.raises(ValueError, match=r"^num_bins must be at least 1; got 0\.$"):
        classification_scores(MODEL, DRAWS, (INPUTS, LABELS), num_bins=0)
    with pytest.raises(ValueError, match=r"^model must have data \(inputs, labels\) with labels of shape .* got .*'y'"):
        classification_scores(Named({"y": jnp.zeros(4)}), [[0.0]], {"y": np.zeros(4)})
    with pytest.raises(TypeError, match=r"^Pair has no predict method\."):
        classification_scores(Pair((jnp.zeros(4), jnp.zeros(4))), [[0.0]], (np.zeros(4), np.zeros(4)))
    linear = LinearRegression(INPUTS, LABELS.astype(float))
    with pytest.raises(ValueError, match=r"^model.predict must return probabilities, .* go from -?\d"):
        classification_scores(linear, 5 * DRAWS[:, : FEATURES + 1], (INPUTS, LABELS % 2))
    odd = Predicting(MODEL, lambda probabilities: 2.0 * probabilities)
    with pytest.raises(ValueError, match=r"and their sums from 2 to 2\.$"):
        classification_scores(odd, 0 * DRAWS, (INPUTS, LABELS))
    with pytest.raises(ValueError, match=r"^model.predict must return probabilities of shape \(n, classes\), or"):
        classification_scores(
            Predicting(MODEL, lambda probabilities: probabilities[..., None]), DRAWS, (INPUTS, LABELS)
        )


class Pair(Named):
    data: tuple[Array, Array]
