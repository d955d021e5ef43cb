"""What is inferred: targets of a fit, and wrappers that make one target from another."""

from .._layout import Layout
from .._renamed import TARGETS, renamed
from .banana import Banana
from .base import ExactTarget, Target
from .bayesian_model import BayesianModel
from .bayesian_neural_network import BayesianNeuralNetwork
from .control_variate import ControlVariate
from .curvature import KnowsCurvature
from .function_model import FunctionModel
from .functional import LogDensity, ScoreFunction, as_target
from .gamma_prior import GammaPrior
from .gaussian_mixture import GaussianMixture
from .intermediate import BridgedTarget, Tempered
from .isotropic_gaussian import IsotropicGaussian
from .last_layer import LastLayerMap
from .linear_regression import LinearRegression
from .logistic_regression import LogisticRegression
from .multimodal import Multimodal
from .multinomial_regression import MultinomialRegression
from .observations import HasObservations
from .structured_model import StructuredModel
from .symmetric import HasSymmetries
from .whitened import Whitened
from .x_shaped import XShaped

__all__ = [
    "Banana",
    "BayesianModel",
    "BayesianNeuralNetwork",
    "BridgedTarget",
    "ControlVariate",
    "ExactTarget",
    "FunctionModel",
    "GammaPrior",
    "GaussianMixture",
    "HasObservations",
    "HasSymmetries",
    "IsotropicGaussian",
    "KnowsCurvature",
    "LastLayerMap",
    "Layout",
    "LinearRegression",
    "LogDensity",
    "LogisticRegression",
    "Multimodal",
    "MultinomialRegression",
    "ScoreFunction",
    "StructuredModel",
    "Target",
    "Tempered",
    "Whitened",
    "XShaped",
    "as_target",
]

__getattr__ = renamed("sivi.targets", TARGETS)
