"""Semi-implicit variational inference on JAX."""

from . import _imports as _imports
from . import (
    constraints,
    coordinates,
    critics,
    datasets,
    defaults,
    families,
    kernels,
    metrics,
    objectives,
    optimizers,
    plots,
    samplers,
    schedules,
    targets,
    warmup,
)
from ._errors import CheckpointError, FitDiverged, FitFileError, FitWarning, MissingFromModel, MissingLogProb, SiviError
from ._fitting.fit import fit
from ._fitting.report import FitReport
from ._fitting.resume import load
from ._version import __version__ as __version__
from .constraints import *  # noqa: F403  (a new constraint needs one re-export, in its own room)
from .families import DiagonalGaussian, ImplicitMixing, NormalMixing, SemiImplicit, StudentT
from .interop.numpyro import from_numpyro
from .interop.pymc import from_pymc
from .posterior import Posterior
from .stopping import Doubling, Plateau
from .targets.function_model import model
from .verdict.check import check
from .verdict.compare import compare
from .verdict.comparison import Comparison
from .verdict.files import load_verdict
from .verdict.infer import infer
from .verdict.inference import Inference
from .verdict.refined import Refined
from .verdict.result import Verdict

_imports.done()

__all__ = [
    "CheckpointError",
    "Comparison",
    "DiagonalGaussian",
    "Doubling",
    "FitDiverged",
    "FitFileError",
    "FitReport",
    "FitWarning",
    "ImplicitMixing",
    "Inference",
    "MissingFromModel",
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
    "compare",
    "constraints",
    "coordinates",
    "critics",
    "datasets",
    "defaults",
    "families",
    "fit",
    "from_numpyro",
    "from_pymc",
    "infer",
    "kernels",
    "load",
    "load_verdict",
    "metrics",
    "model",
    "objectives",
    "optimizers",
    "plots",
    "samplers",
    "schedules",
    "targets",
    "warmup",
]
__all__ += constraints.__all__
