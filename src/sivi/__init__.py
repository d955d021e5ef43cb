"""Semi-implicit variational inference on JAX."""

from . import (
    constraints,
    coordinates,
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
from ._errors import CheckpointError, FitDiverged, FitFileError, FitWarning, MissingLogProb, SiviError
from ._fitting.fit import fit
from ._fitting.report import FitReport
from ._fitting.resume import load
from ._version import __version__ as __version__
from .constraints import *  # noqa: F403  (a new constraint needs one re-export, in its own room)
from .families import DiagonalGaussian, ImplicitMixing, NormalMixing, SemiImplicit, StudentT
from .posterior import Posterior
from .stopping import Doubling, Plateau
from .verdict.check import check
from .verdict.files import load_verdict
from .verdict.refined import Refined
from .verdict.result import Verdict

__all__ = [
    "CheckpointError",
    "DiagonalGaussian",
    "Doubling",
    "FitDiverged",
    "FitFileError",
    "FitReport",
    "FitWarning",
    "ImplicitMixing",
    "MissingLogProb",
    "NormalMixing",
    "Plateau",
    "Posterior",
    "Refined",
    "SemiImplicit",
    "SiviError",
    "StudentT",
    "Verdict",
    "check",
    "constraints",
    "coordinates",
    "critics",
    "datasets",
    "defaults",
    "families",
    "fit",
    "load",
    "load_verdict",
    "metrics",
    "objectives",
    "optimizers",
    "plots",
    "samplers",
    "schedules",
    "targets",
    "warmup",
]
__all__ += constraints.__all__
