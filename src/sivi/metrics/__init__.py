"""Distances between samples, and between a fit and its target; predictive scores."""

from .classification import CalibrationBins, ClassificationScores, classification_scores
from .covariance_rmse import covariance_rmse
from .energy_distance import energy_distance
from .fisher_divergence import FisherEstimate, fisher_divergence
from .knn_kl import knn_kl
from .ksd import ksd
from .mmd import mmd
from .moment_errors import MomentErrors, moment_errors
from .noise_floor import noise_floor
from .predictive import PredictiveScores, predictive_scores
from .sliced_wasserstein import sliced_wasserstein

__all__ = [
    "CalibrationBins",
    "ClassificationScores",
    "FisherEstimate",
    "MomentErrors",
    "PredictiveScores",
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
    "sliced_wasserstein",
]
