"""Traces of the loss and of the critic's norm on the three toy targets."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..plots.traces import trace_windows
from ._figures import panels, plot_bands
from ._fits import fit_stages
from ._toy import METHODS, TARGET_LABELS, TARGETS, described, fit_settings
from .base import Experiment, Job, Results
from .report import markdown_table, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRACES = {"loss": "SM loss", "critic_norm": "$E\\Vert f\\Vert^2$"}
WINDOWS = 200  # that a trace is averaged into
_LAST = 0.1  # of the updates, averaged for the table

_TEXT = f"""\
The minimax loss and the critic's norm, both estimated from the 500 draws of every update: means of {WINDOWS} windows,
with the band between 5 and 95 per cent. At the optimal critic both are the Fisher divergence, so they meet, and go to
zero as the fit converges. On multimodal and X-shaped the target is annealed over the first 45 per cent of the updates.
The paper prints no number for this figure. Means over the last tenth of the updates:\
"""


class ToyConvergence(Experiment):
    """Figure 6 of the paper."""

    name = "toy-convergence"
    title = "Convergence of SIVI-SM on the toy targets"
    paper = "Figure 6, appendix H"

    def jobs(self, mode: str, seeds: int) -> list[Job]:
        num_steps = METHODS["sivi-sm"].num_updates if mode == "full" else 2000
        return [
            Job(
                f"{target}-{seed}",
                {"target": target, "seed": seed, "num_steps": num_steps, **described("sivi-sm", target)},
            )
            for seed in range(seeds)
            for target in TARGETS
        ]

    def run_job(self, job: Job, scratch: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        settings = job.settings
        num_steps = settings["num_steps"]
        arguments = fit_settings("sivi-sm", settings["target"], settings["seed"])
        target = TARGETS[settings["target"]]()
        history = fit_stages(target, [num_steps], scratch, num_steps=num_steps, **arguments)[-1].history
        last = {name: float(np.mean(history[name][-int(_LAST * num_steps) :])) for name in TRACES}
        return last, {name: trace_windows(history[name], WINDOWS).astype(np.float32) for name in TRACES}

    def figures(self, results: Results) -> dict[str, "Figure"]:
        figure, axes = panels(1, len(TARGETS), size=(3.9, 3.3))
        for ax, target in zip(axes[0], TARGETS, strict=True):
            ax.set_title(TARGET_LABELS[target])
            result = results.first(target=target, seed=0)
            if result is not None:
                bands = {label: result.arrays[name] for name, label in TRACES.items()}
                plot_bands(ax, bands, ylabel="estimate from 500 draws")
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
        return {self.name: figure}

    def report(self, results: Results) -> str:
        rows = []
        for target in TARGETS:
            repeats = results.where(target=target)
            cells = [number(np.mean([r.numbers[name] for r in repeats])) if repeats else "not run" for name in TRACES]
            rows.append([TARGET_LABELS[target], *cells])
        return f"{_TEXT}\n\n{markdown_table(['target', 'SM loss', 'E‖f‖²'], rows)}"
