"""Semi-implicit variational inference on JAX."""

from importlib.metadata import PackageNotFoundError, version

from . import (
    constraints,
    critics,
    datasets,
    defaults,
    families,
    metrics,
    objectives,
    optimizers,
    plots,
    samplers,
    schedules,
    targets,
    warmup,
)
from ._errors import CheckpointError, FitDiverged, FitFileError, MissingLogProb, SiviError
from .constraints import correlation_cholesky, interval, ordered, positive, real, simplex
from .families import DiagonalGaussian, ImplicitMixing, NormalMixing, SemiImplicit, StudentT
from .fit import FitReport, fit
from .fit_file import load
from .posterior import Posterior
from .stopping import Plateau

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
    "Plateau",
    "Posterior",
    "SemiImplicit",
    "SiviError",
    "StudentT",
    "constraints",
    "correlation_cholesky",
    "critics",
    "datasets",
    "defaults",
    "families",
    "fit",
    "interval",
    "load",
    "metrics",
    "objectives",
    "optimizers",
    "ordered",
    "plots",
    "positive",
    "real",
    "samplers",
    "schedules",
    "simplex",
    "targets",
    "warmup",
]
