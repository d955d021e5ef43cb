"""What is inferred."""

from .._layout import Layout
from .banana import Banana
from .base import BayesianModel, ExactTarget, Target
from .functional import LogDensity, ScoreFunction, as_target
from .gaussian_mixture import GaussianMixture
from .isotropic_gaussian import IsotropicGaussian
from .linear_regression import LinearRegression
from .multimodal import Multimodal
from .tempered import Tempered
from .x_shaped import XShaped

__all__ = [
    "Banana",
    "BayesianModel",
    "ExactTarget",
    "GaussianMixture",
    "IsotropicGaussian",
    "Layout",
    "LinearRegression",
    "LogDensity",
    "Multimodal",
    "ScoreFunction",
    "Target",
    "Tempered",
    "XShaped",
    "as_target",
]
