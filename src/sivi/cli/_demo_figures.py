"""The figure of `sivi demo` that no other part of the library draws."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from ..targets import LogisticRegression

_NUM_BINS = 10
_NUM_SHOWN = 500


def plot_predictions(model: LogisticRegression, test: Any, draws: np.ndarray, reference: np.ndarray, name: str) -> Any:
    """Held-out data: predicted probability against observed frequency, and fit against reference, point by point."""
    import matplotlib.pyplot as plt

    inputs, labels = test[0], np.asarray(test[1])
    fitted, other = (_probabilities(model, points, inputs) for points in (draws, reference))
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 4.2), layout="constrained")
    for ax in (left, right):
        ax.plot([0, 1], [0, 1], color="black", linewidth=0.6)
        ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    for probabilities, label, style in ((fitted, "sivi", "o-"), (other, name, "x--")):
        mean, frequency, error = _calibration(probabilities, labels)
        left.errorbar(mean, frequency, 1.64 * error, fmt=style, markersize=4, linewidth=1.0, label=label)
    left.set(xlabel="predicted probability", ylabel="observed frequency", title="Calibration, held-out data (90 %)")
    left.legend(loc="upper left", frameon=False)
    right.plot(other[:_NUM_SHOWN], fitted[:_NUM_SHOWN], ".", markersize=3)
    right.set(xlabel=f"probability by {name}", ylabel="probability by sivi", title=f"{_NUM_SHOWN} held-out waveforms")
    return figure


def _probabilities(model: LogisticRegression, draws: np.ndarray, inputs: Array) -> np.ndarray:
    """(n,): of label 1, averaged over the draws."""
    return np.asarray(jax.jit(lambda points: jax.vmap(model.predict, (0, None))(points, inputs).mean(0))(draws))


def _calibration(probabilities: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean prediction, frequency of label 1 and its standard error, in bins of equal width that hold any data."""
    bins = np.minimum((probabilities * _NUM_BINS).astype(int), _NUM_BINS - 1)
    count = np.bincount(bins, minlength=_NUM_BINS)
    used = count > 0
    mean, frequency = (
        np.bincount(bins, values, _NUM_BINS)[used] / count[used] for values in (probabilities, labels.astype(float))
    )
    return mean, frequency, np.sqrt(mean * (1 - mean) / count[used])
