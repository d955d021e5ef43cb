"""The tables and figures of the paper, one file each.

An experiment is a list of independent jobs, and the figures and tables made from their results; `sivi paper` runs
them. A new one is a new file and a line in `EXPERIMENTS`.
"""

from .._renamed import EXPERIMENTS as _OLD_NAMES
from .._renamed import renamed
from ._result_files import DamagedResults, command, load, load_related, result_name, save
from .base import MODES, Experiment, Job, JobResult, Results
from .bnn_table import BNNTable
from .mlr_convergence import MLRConvergence
from .mlr_curves import MLRCurves
from .mlr_seconds import MLRSeconds
from .report import page
from .runner import Outcome, run
from .toy_bias import ToyBias
from .toy_convergence import ToyConvergence
from .toy_dynamics import ToyDynamics
from .toy_kl import ToyKL
from .toy_samples import ToySamples
from .waveform_cov import WaveformCov
from .waveform_marginals import WaveformMarginals

#: By name, in the order of the results page.
EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        ToySamples(),
        ToyKL(),
        ToyDynamics(),
        ToyConvergence(),
        ToyBias(),
        WaveformMarginals(),
        WaveformCov(),
        MLRCurves(),
        MLRConvergence(),
        MLRSeconds(),
        BNNTable(),
    )
}

__all__ = [
    "EXPERIMENTS",
    "MODES",
    "DamagedResults",
    "Experiment",
    "Job",
    "JobResult",
    "Outcome",
    "Results",
    "command",
    "load",
    "load_related",
    "page",
    "result_name",
    "run",
    "save",
]

__getattr__ = renamed("sivi.experiments", _OLD_NAMES)
