"""How the critic leads the family to the X-shaped target."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ._snapshots import snapshot_figure, snapshot_jobs, snapshot_table, take_snapshots
from ._toy import NUM_UPDATES
from .base import Experiment, Job, Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STOPS = [1000, 2000, 3000, 4000]
#: The paper's text says that this target was annealed, its authors' settings that it was not: here are both.
ROWS = {"annealed": "annealed", "not-annealed": "not annealed"}

_TEXT = """\
SIVI-SM with the paper's settings, at the updates of the paper's figure. The critic g learns S − ∇log q: it points to
where the family lacks mass, and fades as the family gets closer. Window and scale of the arrows are the same along a
row; arrows longer than the critic is at 95 per cent of the draws are cut.

The paper's text says that this target was annealed. The fit is then to p^β, with β in the table, and the arrows are the
critic's for that target: after 4000 of 50,000 updates it is still far from p. The row below, not annealed, is the one
that resembles what the paper says of its figure, which has no numbers.\
"""


class ToyDynamics(Experiment):
    """Figure 1 of the paper."""

    name = "toy-dynamics"
    title = "Training dynamics of the critic on the X-shaped target"
    paper = "Figure 1, section 4.1"

    def jobs(self, mode: str, seeds: int) -> list[Job]:
        # The first 4000 updates of a run of 50,000, to which the annealing is relative, are quick as they are.
        methods = {row: ("sivi-sm", row == "annealed") for row in ROWS}
        return snapshot_jobs(methods, "x-shaped", mode, seeds, stops=STOPS, num_steps=NUM_UPDATES)

    def run_job(self, job: Job, scratch: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        return take_snapshots(job, scratch)

    def figures(self, results: Results) -> dict[str, "Figure"]:
        return {self.name: snapshot_figure(results, ROWS, len(STOPS))}

    def report(self, results: Results) -> str:
        return f"{_TEXT}\n\n{snapshot_table(results, ROWS)}"
