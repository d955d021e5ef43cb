"""Semi-implicit variational inference on JAX."""

from importlib.metadata import PackageNotFoundError, version

from . import defaults, families, metrics, objectives, optimizers, plots, samplers, schedules, targets
from ._errors import CheckpointError, FitDiverged, FitFileError, MissingLogProb, SiviError
from .families import DiagonalGaussian, ImplicitMixing, NormalMixing, SemiImplicit, StudentT
from .fit import FitReport, fit
from .posterior import Posterior, load

try:
    __version__ = version("sivi")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0.0.0"

__all__ = [
    "CheckpointError",
    "DiagonalGaussian",
    "FitDiverged",
    "FitFileError",
    "FitReport",
    "ImplicitMixing",
    "MissingLogProb",
    "NormalMixing",
    "Posterior",
    "SemiImplicit",
    "SiviError",
    "StudentT",
    "defaults",
    "families",
    "fit",
    "load",
    "metrics",
    "objectives",
    "optimizers",
    "plots",
    "samplers",
    "schedules",
    "targets",
]
