"""How well draws of a posterior predict data that they were not fitted to."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import PyTree
from scipy.special import logsumexp

from ..targets import BayesianModel
from ._held_out import check_held_out
from ._predictive_sums import PredictiveSums, predictive_sums


@dataclass(frozen=True)
class PredictiveScores:
    """Log likelihoods of held-out data under a set of draws, per datum; higher is better.

    Attributes:
        per_point: (1/N) Σ_n log mean_s p(y_n | x_s): each datum predicted on its own.
        joint: (1/N) log mean_s Π_n p(y_n | x_s): all of them predicted at once, by the same draw.
    """

    per_point: float
    joint: float


def predictive_scores(model: BayesianModel, draws: PyTree, data: PyTree) -> PredictiveScores:
    """The held-out log likelihood of a model whose unknowns are draws x_1, …, x_S, in its two forms.

        per point  (1/N) Σ_n log (1/S) Σ_s p(y_n | x_s)
        joint      (1/N) log (1/S) Σ_s Π_n p(y_n | x_s)

    Papers print either under one name. Per point scores the posterior predictive distribution. On average over data
    from the model and its prior, the exact posterior scores best; on one data set an approximation may score higher.
    Joint is, for many data, little more than the log likelihood of the best single draw, so it rewards posteriors that
    are too narrow. Both are biased low, since they take the logarithm of a mean over S draws; joint is much more so.

    Args:
        model: A Bayesian model; its own data, prior and minibatches play no role.
        draws: Of its unknowns: (S, dim), or in their structure, as `posterior.sample` returns them.
        data: Held-out data, in the structure of `model.data`, with another number of rows.

    Returns:
        Both scores. Draws and data go through the model in blocks, so memory does not grow with their number.

    Example:
        >>> from sivi.targets import LogisticRegression
        >>> model = LogisticRegression([[1.0], [1.0]], [0, 1])
        >>> scores = predictive_scores(model, [[0.0], [0.0]], ([[2.0]], [1.0]))
        >>> round(scores.per_point, 4), round(scores.joint, 4)  # both log ½
        (-0.6931, -0.6931)
    """
    return PredictiveScores(*log_scores(predictive_sums(model, check_held_out(model, draws, data))))


def log_scores(sums: PredictiveSums) -> tuple[float, float]:
    """The log likelihood per point, and the joint one."""
    num_data, num_draws = len(sums.log_means), len(sums.log_products)
    joint = float(logsumexp(sums.log_products) - np.log(num_draws)) / num_data
    return float(np.mean(sums.log_means)), joint
