"""Traces of the loss and of the critic's norm on MNIST and HAPT."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..plots.traces import trace_windows
from ._figures import common_legend, panels, plot_bands
from ._fits import fit_stages
from ._multinomial import PROBLEMS, fit_arguments, job_settings, load_model, methods
from .base import Experiment, Job, Results
from .report import markdown_table, number
from .toy_convergence import TRACES, WINDOWS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: E‖f‖² at the end, in the paper.
PAPER = {"mnist": 58.510, "hapt": 8.267}
METHODS = ("sivi-sm-100", "sivi-sm-100-halves")
QUICK_UPDATES = 20
_LAST = 0.02  # of the updates, averaged for the table

_TEXT = """\
The minimax loss and the norm of the critic f + ψ_t S of SIVI-SM with 100 particles, estimated from the draws of every
update: means of up to 200 windows, with the band between 5 and 95 per cent. With a minibatch the score is noisy, and
the part ψ_t S of the critic carries its noise into both traces as long as ψ_t is not small. With halves, whose products
can have either sign, both can be below zero: where the same halves come back in rotation, the family finds places at
which they oppose each other, and stays there until ψ_t has become small. Means over the last 2 per cent of the updates,
with what the paper gives as the norm of its network at the end:\
"""


class MLRConvergence(Experiment):
    """Figure 7 of the paper."""

    name = "mlr-convergence"
    title = "Convergence of SIVI-SM on MNIST and HAPT"
    paper = "Figure 7, appendix H"

    def jobs(self, mode: str, seeds: int) -> list[Job]:
        return [
            Job(f"{problem}-{method}-{seed}", job_settings(problem, method, seed, mode, QUICK_UPDATES))
            for seed in range(seeds)
            for problem in PROBLEMS
            for method in METHODS
        ]

    def run_job(self, job: Job, scratch: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        settings = job.settings
        num_steps = settings["num_steps"]
        model, _ = load_model(settings["problem"], settings["mode"])
        arguments = fit_arguments(PROBLEMS[settings["problem"]], settings["method"], settings["seed"], settings["mode"])
        history = fit_stages(model, [num_steps], scratch, num_steps=num_steps, **arguments)[-1].history
        last = {name: float(np.mean(history[name][-max(1, int(_LAST * num_steps)) :])) for name in TRACES}
        return last, {name: trace_windows(history[name], WINDOWS).astype(np.float32) for name in TRACES}

    def figures(self, results: Results) -> dict[str, "Figure"]:
        figure, axes = panels(len(METHODS), len(PROBLEMS), size=(4.6, 3.4))
        for row, method in zip(axes, METHODS, strict=True):
            for ax, (name, problem) in zip(row, PROBLEMS.items(), strict=True):
                result = results.first(problem=name, method=method, seed=0)
                ax.set_title(f"{problem.label}, {methods(problem)[method].label}" + ("" if result else ": not run"))
                if result is None:
                    ax.set(xticks=[], yticks=[])
                    continue
                bands = {label: result.arrays[trace] for trace, label in TRACES.items()}
                plot_bands(ax, bands, ylabel="estimate from 100 draws")
        common_legend(figure, columns=2)
        return {self.name: figure}

    def report(self, results: Results) -> str:
        rows = []
        for name, problem in PROBLEMS.items():
            for method in METHODS:
                repeats = results.where(problem=name, method=method)
                cells = [number(np.mean([r.numbers[t] for r in repeats]), 2) if repeats else "not run" for t in TRACES]
                rows.append([problem.label, methods(problem)[method].label, *cells, number(PAPER[name], 2)])
        return f"{_TEXT}\n\n{markdown_table(['data', 'method', 'SM loss', 'E‖f‖²', 'E‖f‖² in the paper'], rows)}"
