"""What is inferred."""

from .._layout import Layout
from .anchored import Anchored
from .banana import Banana
from .base import BayesianModel, ExactTarget, Target
from .bridge import Bridge
from .functional import LogDensity, ScoreFunction, as_target
from .gaussian_mixture import GaussianMixture
from .isotropic_gaussian import IsotropicGaussian
from .linear_regression import LinearRegression
from .logistic_regression import LogisticRegression
from .multimodal import Multimodal
from .multinomial_regression import MultinomialRegression
from .tempered import Tempered
from .whitened import Whitened
from .x_shaped import XShaped

__all__ = [
    "Anchored",
    "Banana",
    "BayesianModel",
    "Bridge",
    "ExactTarget",
    "GaussianMixture",
    "IsotropicGaussian",
    "Layout",
    "LinearRegression",
    "LogDensity",
    "LogisticRegression",
    "Multimodal",
    "MultinomialRegression",
    "ScoreFunction",
    "Target",
    "Tempered",
    "Whitened",
    "XShaped",
    "as_target",
]
