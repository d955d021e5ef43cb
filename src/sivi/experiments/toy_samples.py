"""Draws of the fits over the contours of the three toy targets."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..metrics import knn_kl
from ..plots import plot_samples
from ._figures import WINDOWS, legend_below, panels
from ._fits import exact_draws, fit_stages, shown_draws
from ._toy import METHODS, TARGET_LABELS, TARGETS, described, fit_settings
from .base import Experiment, Job, Results
from .report import markdown_table, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROWS = ("sivi-sm", "default")

_TEXT = """\
1000 draws of the fit over contours of the target that enclose 20, 50, 80, 95 and 99 per cent of its mass. Above,
SIVI-SM with the paper's settings; below, the default call, `sivi.fit(target, key=0)`, with nothing else.
The paper says of its figure that the samples of SIVI-SM match the shape of the targets, and prints no number.
KL(target ‖ q) of these fits, from nearest neighbours (the noise floor of the KL table is not taken
off here):\
"""


class ToySamples(Experiment):
    """Figure 5 of the paper, with the default call in a second row."""

    name = "toy-samples"
    title = "Samples on the toy targets"
    paper = "Figure 5, appendix F"

    def jobs(self, mode: str, seeds: int) -> list[Job]:
        return [
            Job(
                f"{target}-{name}-{seed}",
                {
                    "target": target,
                    "method": name,
                    "seed": seed,
                    "num_steps": METHODS[name].num_updates if mode == "full" else 1000,
                    "num_draws": 100_000 if mode == "full" else 5_000,
                    **described(name, target),
                },
            )
            for seed in range(seeds)
            for name in ROWS
            for target in TARGETS
        ]

    def run_job(self, job: Job, scratch: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        settings = job.settings
        seed, num_steps, num_draws = settings["seed"], settings["num_steps"], settings["num_draws"]
        target = TARGETS[settings["target"]]()
        arguments = fit_settings(settings["method"], settings["target"], seed)
        posterior = fit_stages(target, [num_steps], scratch, num_steps=num_steps, **arguments)[-1]
        draws = np.asarray(posterior.sample(num_draws, key=2000 + seed))
        kl = knn_kl(exact_draws(target, num_draws, 3000 + seed), draws)
        return {"kl": kl}, {"draws": shown_draws(posterior, 2000 + seed)}

    def figures(self, results: Results) -> dict[str, "Figure"]:
        figure, axes = panels(len(ROWS), len(TARGETS), size=(3.6, 3.4))
        for i, method in enumerate(ROWS):
            for j, target in enumerate(TARGETS):
                ax = axes[i, j]
                ax.set_title(f"{TARGET_LABELS[target]}: {METHODS[method].label}")
                result = results.first(target=target, method=method, seed=0)
                if result is not None:
                    plot_samples(result.arrays["draws"], TARGETS[target](), ax=ax, corners=WINDOWS[target])
        legend_below(figure)
        return {self.name: figure}

    def report(self, results: Results) -> str:
        rows = []
        for target in TARGETS:
            cells = [[r.numbers["kl"] for r in results.where(target=target, method=method)] for method in ROWS]
            rows.append([TARGET_LABELS[target], *(number(np.mean(c)) if c else "not run" for c in cells)])
        return f"{_TEXT}\n\n{markdown_table(['target', *(METHODS[method].label for method in ROWS)], rows)}"
