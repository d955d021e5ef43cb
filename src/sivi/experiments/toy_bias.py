"""What the minimax form is for: the plug-in gradient of the Fisher divergence is biased, and fails."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ._snapshots import snapshot_figure, snapshot_jobs, snapshot_table, take_snapshots
from ._toy import ANNEALED, NUM_UPDATES
from .base import Experiment, Job, Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Row of the figure, to its label; the method of the row has the row's name.
ROWS = {"sivi-sm": "SIVI-SM", "plug-in": "plug-in (biased)"}
#: The paper does not say at which updates its pictures were taken: early, half-way (annealing is over), at the end.
STOPS = {"full": [5_000, 25_000, NUM_UPDATES], "quick": [500, 1000, 2000]}
TARGET = "multimodal"

_TEXT = """\
Above, SIVI-SM. Below, with all else equal, the family descends E‖g(x)‖² with the critic g held fixed, which leaves out
how ∇log q moves with the family: the paper's illustration of biased gradients. Window and scale of the arrows are the
same along a row; the window shows all draws, wherever they go. The paper prints no number; here are the critic's norm
and KL(target ‖ q), from nearest neighbours (the noise floor of the KL table is not taken off here), at the updates
shown.\
"""


class ToyBias(Experiment):
    """Figure 8 of the paper."""

    name = "toy-bias"
    title = "Biased gradients of the Fisher divergence on the multimodal target"
    paper = "Figure 8, appendix L"

    def jobs(self, mode: str, seeds: int) -> list[Job]:
        methods = {row: (row, TARGET in ANNEALED) for row in ROWS}
        stops = STOPS[mode]
        return snapshot_jobs(methods, TARGET, mode, seeds, stops=stops, num_steps=stops[-1])

    def run_job(self, job: Job, scratch: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        return take_snapshots(job, scratch)

    def figures(self, results: Results) -> dict[str, "Figure"]:
        return {self.name: snapshot_figure(results, ROWS, len(STOPS[results.mode]))}

    def report(self, results: Results) -> str:
        return f"{_TEXT}\n\n{snapshot_table(results, ROWS)}"
