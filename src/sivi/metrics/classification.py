"""Scores of a Bayesian classifier on held-out data: accuracy, calibration, Brier score, log likelihoods."""

from dataclasses import dataclass, field

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from .._arguments import check_count, describe
from ..targets import BayesianModel, BayesianNeuralNetwork
from ..targets.labels import check_labels
from ._held_out import HeldOut, check_held_out
from ._predictive_sums import predictive_sums
from .predictive import log_scores

_ROUNDING = 1e-3  # of probabilities that sum to 1


@dataclass(frozen=True, eq=False)
class CalibrationBins:
    """Predictions in bins of equal width by the probability of the likeliest class: a reliability diagram's points.

    Attributes:
        confidence: Mean probability of the likeliest class in each bin; NaN in an empty one.
        accuracy: Share of data whose label it is; NaN in an empty one.
        count: Number of data.
    """

    confidence: Float[np.ndarray, " bins"]
    accuracy: Float[np.ndarray, " bins"]
    count: Int[np.ndarray, " bins"]

    @property
    def error(self) -> float:
        """The mean of |accuracy − confidence|, each bin weighted by its count."""
        used = self.count > 0
        gap = np.abs(self.accuracy[used] - self.confidence[used])
        return float(np.average(gap, weights=self.count[used]))


@dataclass(frozen=True, eq=False)
class ClassificationScores:
    """Scores of the posterior predictive probabilities P_nk = (1/S) Σ_s P(y_n = k | x_s), beside the log likelihoods.

    Attributes:
        per_point: (1/N) Σ_n log mean_s p(y_n | x_s), as in `PredictiveScores`; higher is better.
        joint: (1/N) log mean_s Π_n p(y_n | x_s), as in `PredictiveScores`; higher is better.
        accuracy: Share of data whose likeliest class is their label; of equal probabilities, the first counts.
        calibration_error: The expected calibration error, Σ_b (N_b/N) |accuracy − confidence| over `bins`.
        brier: (1/N) Σ_nk (P_nk − 1[y_n = k])², from 0 to 2; lower is better.
        bins: What the calibration error is made of.
        probabilities: P, one row per datum.
    """

    per_point: float
    joint: float
    accuracy: float
    calibration_error: float
    brier: float
    bins: CalibrationBins = field(repr=False)
    probabilities: Float[np.ndarray, "num_data classes"] = field(repr=False)


def classification_scores(
    model: BayesianModel, draws: PyTree, data: PyTree, *, num_bins: int = 15
) -> ClassificationScores:
    """Accuracy, calibration, Brier score and both log likelihoods of held-out labels, in one pass over the draws.

    All but the joint log likelihood are scores of the posterior predictive distribution, the mean of the draws'
    probabilities. Accuracy sees only which class is likeliest; the Brier score and the log likelihood per point judge
    the probabilities, and are best, on average, for the true ones. The calibration error compares how sure the
    predictions are with how often they are right. It is not zero for calibrated ones: with N_b data in a bin, that
    bin is off by about √(P(1 − P)/N_b). A model that always predicts the classes' frequencies has a small one too.

    Args:
        model: A Bayesian model with data (inputs, labels) and `predict(x, inputs)` that returns probabilities, (n,
            classes), or (n,) of label 1; or a `BayesianNeuralNetwork` of classes.
        draws: Of its unknowns: (S, dim), or in their structure, as `posterior.sample` returns them.
        data: Held-out (inputs, labels), in the structure of `model.data`; labels from 0 to classes − 1. For a network,
            `model.as_data(inputs, labels)`.
        num_bins: Bins of equal width from 0 to 1.

    Returns:
        The scores. Draws and data go through the model in blocks, so memory does not grow with their number.

    Example:
        >>> from sivi.targets import MultinomialRegression
        >>> model = MultinomialRegression([[1.0], [1.0], [1.0]], [0, 1, 2])
        >>> scores = classification_scores(model, np.log([[2.0, 1.0, 1.0]]), ([[1.0], [1.0]], [0, 2]))
        >>> round(scores.accuracy, 4), round(scores.brier, 4), round(scores.calibration_error, 4)
        (0.5, 0.625, 0.0)
    """
    num_bins = check_count("num_bins", num_bins)
    if isinstance(model, BayesianNeuralNetwork) and model.likelihood.has_noise:
        raise ValueError("model must be one of classes; a regression is scored by regression_scores.")
    held_out = check_held_out(model, draws, data)
    outputs = _outputs(model, held_out)
    labels = np.asarray(_labels(model, held_out.data))
    check_labels("labels in data", labels, *(outputs or (2,)))
    sums = predictive_sums(model, held_out, outputs)
    probabilities = _probabilities(sums.predictions)
    likeliest, confidence = probabilities.argmax(1), probabilities.max(1)
    labels = labels.astype(int)
    bins = _calibration(confidence, likeliest == labels, num_bins)
    # Σ_k (P_k − 1[y = k])² = Σ_k P_k² − 2 P_y + 1, with no matrix of zeros and ones.
    of_label = probabilities[np.arange(len(labels)), labels]
    brier = np.mean(np.sum(probabilities**2, axis=1) - 2.0 * of_label + 1.0)
    return ClassificationScores(
        *log_scores(sums),
        accuracy=float(np.mean(likeliest == labels)),
        calibration_error=bins.error,
        brier=float(brier),
        bins=bins,
        probabilities=probabilities,
    )


def _outputs(model: BayesianModel, held_out: HeldOut) -> tuple[int, ...]:
    """The shape of a prediction for one datum, () or (classes,), or an error if the model is no classifier."""
    if not _is_vector(_labels(model, held_out.data)):
        raise ValueError(
            "model must have data (inputs, labels) with labels of shape (num_data,); "
            f"got the structure {jax.tree.structure(model.data)}."
        )
    one = lambda leaf: jax.ShapeDtypeStruct((1, *leaf.shape[1:]), leaf.dtype)  # noqa: E731
    out = eqx.filter_eval_shape(model.predict_rows, held_out.one_point(), jax.tree.map(one, model.data))
    shape = out.shape if isinstance(out, jax.ShapeDtypeStruct) else None
    if shape is None or shape[:1] != (1,) or len(shape) > 2 or shape[1:] in ((0,), (1,)):
        raise ValueError(
            "model.predict must return probabilities of shape (n, classes), or (n,) of label 1; "
            f"for one row of inputs got {describe(out)}."
        )
    return shape[1:]


def _labels(model: BayesianModel, data: PyTree) -> object:
    """The labels among data: of a pair the second, of a dict the observations; None of other data."""
    if isinstance(data, dict) and type(model).predict_rows is not BayesianModel.predict_rows:
        return data.get(model.observed_name)
    return data[1] if isinstance(data, (tuple, list)) and len(data) == 2 else None


def _is_vector(leaf: object) -> bool:
    return isinstance(leaf, (Array, np.ndarray)) and leaf.ndim == 1


def _probabilities(predictions: np.ndarray) -> Float[np.ndarray, "num_data classes"]:
    """(num_data, classes), also of a model that gives the probability of label 1 alone."""
    classes = np.stack([1.0 - predictions, predictions], axis=1) if predictions.ndim == 1 else predictions
    low, high, sums = classes.min(), classes.max(), classes.sum(1)
    # Written so that NaN is refused too.
    if not (low >= -_ROUNDING and high <= 1.0 + _ROUNDING and np.abs(sums - 1.0).max() <= _ROUNDING):
        raise ValueError(
            "model.predict must return probabilities, which sum to 1 over the classes; averaged over the draws, "
            f"they go from {low:g} to {high:g}, and their sums from {sums.min():g} to {sums.max():g}."
        )
    return classes


def _calibration(confidence: np.ndarray, is_right: np.ndarray, num_bins: int) -> CalibrationBins:
    """Bins [b/B, (b + 1)/B); 1 belongs to the last."""
    index = np.minimum((confidence * num_bins).astype(int), num_bins - 1)
    count = np.bincount(index, minlength=num_bins)
    with np.errstate(invalid="ignore"):
        means = [np.bincount(index, values, num_bins) / count for values in (confidence, is_right.astype(float))]
    return CalibrationBins(*means, count)
