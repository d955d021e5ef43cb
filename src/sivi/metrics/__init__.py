"""Distances between samples, and between a fit and its target; predictive scores."""

from ._covariance_rmse import covariance_rmse
from ._energy_distance import energy_distance
from ._fisher_divergence import FisherEstimate, fisher_divergence
from ._knn_kl import knn_kl
from ._ksd import ksd
from ._mmd import mmd
from ._moment_errors import MomentErrors, moment_errors
from ._noise_floor import noise_floor
from ._sliced_wasserstein import sliced_wasserstein
from .classification import CalibrationBins, ClassificationScores, classification_scores
from .predictive import PredictiveScores, predictive_scores
from .regression import RegressionScores, regression_scores

__all__ = [
    "CalibrationBins",
    "ClassificationScores",
    "FisherEstimate",
    "MomentErrors",
    "PredictiveScores",
    "RegressionScores",
    "classification_scores",
    "covariance_rmse",
    "energy_distance",
    "fisher_divergence",
    "knn_kl",
    "ksd",
    "mmd",
    "moment_errors",
    "noise_floor",
    "predictive_scores",
    "regression_scores",
    "sliced_wasserstein",
]
