"""Scores of a Bayesian neural network for regression on held-out data, in the units of the targets."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, PyTree

from .._arguments import describe
from .._types import ArrayLike
from ..targets import BayesianNeuralNetwork
from ._held_out import check_held_out
from ._predictive_sums import predictive_sums


@dataclass(frozen=True, eq=False)
class RegressionScores:
    """Scores of the posterior predictive distribution, in the units in which the targets were given; lower is better.

    Attributes:
        rmse: √((1/N) Σ_n (m_n − y_n)²), where m_n is the mean prediction of the draws.
        nll: −(1/N) Σ_n log (1/S) Σ_s p(y_n | x_s), the negative log likelihood.
        mean: m, one number for each row.
        log_densities: log (1/S) Σ_s p(y_n | x_s), likewise.
    """

    rmse: float
    nll: float
    mean: Float[np.ndarray, " num_data"] = field(repr=False)
    log_densities: Float[np.ndarray, " num_data"] = field(repr=False)


def regression_scores(
    model: BayesianNeuralNetwork, draws: PyTree, inputs: ArrayLike, targets: ArrayLike
) -> RegressionScores:
    """Root mean squared error and negative log likelihood of held-out rows, as papers print them.

        rmse   √((1/N) Σ_n (m_n − y_n)²),    m_n = (1/S) Σ_s f(inputs_n; x_s)
        nll    −(1/N) Σ_n log (1/S) Σ_s p(y_n | x_s)

    Both are in the units of the targets: of a density of standardised targets u = (y − mean)/sd, log sd is taken away.
    The logarithm of a mean over S draws is biased low, so the NLL falls a little with more draws.

    Args:
        model: A Bayesian neural network for regression, with its precisions; of a fit, `posterior.target`.
        draws: Of its unknowns: (S, dim), or as `posterior.sample` returns them.
        inputs: Held-out rows in the units of those that the model was given, (n, features).
        targets: (n,).

    Returns:
        The scores. Draws and data go through the model in blocks, so memory does not grow with their number.

    Example:
        >>> model = BayesianNeuralNetwork([[0.0], [1.0]], [0.0, 20.0], (1,), noise_precision=1.0, weight_precision=1.0)
        >>> scores = regression_scores(model, np.zeros((2, model.dim)), [[0.5]], [13.0])  # predicts 10, with sd 10
        >>> round(scores.rmse, 4), round(scores.nll, 4)  # 0.3²/2 + log 10 + ½ log 2π
        (3.0, 3.2665)
    """
    if not isinstance(model, BayesianNeuralNetwork):
        raise TypeError(f"model must be a sivi.targets.BayesianNeuralNetwork; got {describe(model)}.")
    if not model.likelihood.has_noise:
        raise ValueError(
            "model must be one of a regression; the labels of likelihood='softmax' are scored by "
            "classification_scores(model, draws, model.as_data(inputs, labels))."
        )
    if model.left_out:
        names = " and ".join(model.left_out)
        raise ValueError(f"model must have its precisions; it lacks {names}, and posterior.target has what was found.")
    held_out = check_held_out(model, draws, model.as_data(inputs, targets))
    sums = predictive_sums(model, held_out, ())
    log_densities = sums.log_means - np.log(float(model.units.target_sd))
    mean = np.asarray(sums.predictions, float)
    errors = mean - np.asarray(targets, float)
    return RegressionScores(
        rmse=float(np.sqrt(np.mean(errors**2))),
        nll=-float(np.mean(log_densities)),
        mean=mean,
        log_densities=log_densities,
    )
