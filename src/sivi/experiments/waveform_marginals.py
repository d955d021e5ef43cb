"""Marginal and pairwise posteriors of five coefficients on the waveform data."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import datasets
from ..metrics import moment_errors
from ..plots import plot_pairs
from ._figures import blank
from ._waveform import METHODS, SETTINGS_TEXT, fit_job, load_model, run_fit
from .base import Experiment, Job, Results
from .report import markdown_table, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: β₀ is the intercept. Of either set as many draws as the paper has, so that the kernel estimates compare.
SHOWN, NUM_SHOWN = [1, 2, 3, 4, 5], 1000
_NAMES = [f"$\\beta_{{{i}}}$" for i in SHOWN]

_TEXT = """\
Densities of β₁ to β₅ (β₀ is the intercept; the paper does not say where it starts to count) and contours of every pair,
which enclose 20, 50, 80 and 95 per cent, from 1000 draws each. Black is the reference, 1000 of 100,000 draws of
Hamiltonian Monte Carlo; in the paper it is 1000 Langevin chains. The paper says that SIVI and UIVI are a little too
narrow, above all in β₄ and β₅, and that SIVI-SM agrees with the reference; it prints no number. Standard deviations
here, over those of the reference, from {draws} draws:\
"""


class WaveformMarginals(Experiment):
    """Figure 2 of the paper, with the default call in a fourth triangle."""

    name = "waveform-marginals"
    title = "Marginal and pairwise posteriors on the waveform data"
    paper = "Figure 2, section 4.2"

    def jobs(self, mode: str, seeds: int) -> list[Job]:
        reference = Job("reference", {"method": "reference", "shown": SHOWN, "num_shown": NUM_SHOWN})
        fits = [
            fit_job(name, seed, mode, shown=SHOWN, num_shown=NUM_SHOWN) for seed in range(seeds) for name in METHODS
        ]
        return [reference, *fits]

    def run_job(self, job: Job, scratch: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        settings = job.settings
        shown, count = settings["shown"], settings["num_shown"]
        reference = datasets.load_reference("waveform")
        if settings["method"] == "reference":
            step = len(reference.draws) // count
            return {}, {"draws": reference.draws[::step][:count][:, shown].astype(np.float32)}
        model, _ = load_model(settings["prior_scale"])
        posterior, draws = run_fit(job, model, scratch)
        errors = moment_errors(draws, (reference.mean, reference.cov))
        numbers = {
            "sd_ratio": errors.sd_ratio[shown].tolist(),
            "mean_error": errors.mean_error[shown].tolist(),
            "updates": posterior.step,
            "skipped": sum(posterior.skipped),
        }
        return numbers, {"draws": draws[:count][:, shown].astype(np.float32)}

    def figures(self, results: Results) -> dict[str, "Figure"]:
        figure = blank((13.0, 13.0))
        reference = results.first(method="reference")
        for part, (name, method) in zip(np.ravel(figure.subfigures(2, 2)), METHODS.items(), strict=True):
            result = results.first(method=name, seed=0)
            if result is not None and reference is not None:
                plot_pairs(
                    result.arrays["draws"],
                    reference.arrays["draws"],
                    names=_NAMES,
                    labels=(method.label, "reference"),
                    colour=method.colour,
                    figure=part,
                )
        return {self.name: figure}

    def report(self, results: Results) -> str:
        rows = []
        for name, method in METHODS.items():
            repeats = results.where(method=name)
            if repeats:
                ratios = np.mean([result.numbers["sd_ratio"] for result in repeats], axis=0)
                errors = np.abs([result.numbers["mean_error"] for result in repeats])
                rows.append([method.label, *(number(ratio, 3) for ratio in ratios), number(errors.max(), 3)])
        fits = [result for result in results.done if result.job.settings["method"] != "reference"]
        draws = f"{fits[0].job.settings['num_draws']:,}" if fits else "no"
        header = ["method", *(f"β{'₀₁₂₃₄₅'[i]}" for i in SHOWN), "largest mean error, in sd"]
        return "\n\n".join([_TEXT.format(draws=draws), markdown_table(header, rows), SETTINGS_TEXT])
