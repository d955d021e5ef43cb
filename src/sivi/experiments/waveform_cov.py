"""Covariances of the waveform posterior by every method against those of a long Markov chain."""

from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import datasets
from ..metrics import covariance_rmse, moment_errors, predictive_scores
from ..targets import LogisticRegression
from ._figures import panels
from ._waveform import METHODS, PRIOR_SCALE, SETTINGS_TEXT, fit_job, laplace_draws, load_model, num_draws, run_fit
from .base import Experiment, Job, JobResult, Results
from .report import markdown_table, mean_sd, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: RMSE of SIVI-SM in the paper, against 1000 Langevin chains; it prints no other number.
PAPER = {"sivi-sm": 0.0184}
#: The largest RMSE of SIVI-SM that agrees with it: two sets of 1000 MCMC draws are 0.0068 apart.
BAR = {"sivi-sm": 0.025}
REFERENCES = {
    "laplace": "Laplace",
    "mean-field": "mean-field Gaussian, 250 draws",
    "sgld": "Langevin, 1000 draws",
    "mala": "Langevin with accept step, 1000 draws",
    "hmc": "4000 of the reference's own draws",
}
NUMBERS = ("rmse", "mean_error", "smallest_sd", "largest_sd", "per_point", "joint")

_TEXT = """\
Covariances of the 22 coefficients, {draws} draws of every fit, against those of 100,000 draws of Hamiltonian Monte
Carlo: one point per entry of the matrix, the regression line in red, equality dashed. RMSE is over all 484 entries. The
largest error of a mean, which the covariances do not show, is in standard deviations of the reference, with the number
of the coefficient (0 is the intercept). Then come the smallest and largest ratio of standard deviations, and the log
likelihood of the 4600 test rows per row: "per point" is that of the predictive probabilities; "joint" lets one draw
predict all rows, and so rewards posteriors that are too narrow. The paper prints an RMSE for SIVI-SM alone, 0.0184,
against 1000 draws.\
"""


class WaveformCov(Experiment):
    """Figure 3 of the paper, with the default call in a fourth panel."""

    name = "waveform-cov"
    title = "Covariances of the waveform posterior"
    paper = "Figure 3, section 4.2"
    full_seeds = 5

    def jobs(self, mode: str, seeds: int) -> list[Job]:
        reference = Job("reference", {"method": "reference", "num_draws": num_draws(mode), "prior_scale": PRIOR_SCALE})
        return [reference, *(fit_job(name, seed, mode) for seed in range(seeds) for name in METHODS)]

    def run_job(self, job: Job, scratch: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        model, data = load_model(job.settings["prior_scale"])
        reference = datasets.load_reference("waveform")
        if job.settings["method"] == "reference":
            return _score_references(model, data, reference, job.settings["num_draws"])
        posterior, draws = run_fit(job, model, scratch)
        numbers = {**score(model, data, reference, draws), "updates": posterior.step, "skipped": sum(posterior.skipped)}
        return numbers, {"cov": np.cov(draws, rowvar=False).astype(np.float32)}

    def summary(self, results: Results) -> dict[str, Any]:
        rows = {name: _row(results.where(method=name)) for name in METHODS if results.where(method=name)}
        for name, row in rows.items():
            bar = BAR.get(name)
            row |= {"paper": PAPER.get(name), "bar": bar, "within_bar": None if bar is None else row["rmse"][0] <= bar}
        return rows

    def figures(self, results: Results) -> dict[str, "Figure"]:
        figure, axes = panels(1, len(METHODS), size=(3.3, 4.0))
        reference = results.first(method="reference")
        for ax, (name, method) in zip(axes[0], METHODS.items(), strict=True):
            ax.set_title(method.label)
            result = results.first(method=name, seed=0)
            if result is not None and reference is not None:
                plot_entries(ax, reference.arrays["cov"], result.arrays["cov"])
                ax.annotate(f"RMSE {result.numbers['rmse']:.4f}", (0.05, 0.92), xycoords="axes fraction")
        axes[0, 0].set_ylabel("covariance of the fit")
        return {self.name: figure}

    def report(self, results: Results) -> str:
        header = ["method", "RMSE", "bar", "within", "mean error", "sd ratios", "per point", "joint", "seconds"]
        lines = [_line(METHODS[name].label, row) for name, row in self.summary(results).items()]
        reference = results.first(method="reference")
        if reference is not None:
            lines += [_line(label, _row([reference], name)) for name, label in REFERENCES.items()]
        draws = f"{results.done[0].job.settings['num_draws']:,}"
        count = f"Mean (sd) over {results.seeds} seed{'s' * (results.seeds > 1)}."
        return "\n\n".join(
            [_TEXT.format(draws=draws), count, markdown_table(header, lines), SETTINGS_TEXT, _settings(results)]
        )


def score(
    model: LogisticRegression,
    data: datasets.Dataset,
    reference: datasets.PosteriorReference,
    draws: np.ndarray,
    cov: np.ndarray | None = None,
) -> dict[str, Any]:
    """The numbers of a row of the table; with `cov`, the RMSE is of that covariance instead of the draws' own."""
    errors = moment_errors(draws, (reference.mean, reference.cov))
    predictive = predictive_scores(model, draws, data.test)
    exact = None if cov is None else float(np.sqrt(np.mean((cov - reference.cov) ** 2)))
    values = (
        covariance_rmse(draws, reference.cov) if exact is None else exact,
        errors.largest_mean_error,
        float(errors.sd_ratio.min()),
        float(errors.sd_ratio.max()),
        predictive.per_point,
        predictive.joint,
    )
    return {**dict(zip(NUMBERS, values, strict=True)), "mean_errors": errors.mean_error.tolist()}


def _score_references(
    model: LogisticRegression, data: datasets.Dataset, reference: datasets.PosteriorReference, num_draws: int
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    laplace, cov = laplace_draws(model, reference.others["mode"][0], num_draws)
    sets = {"hmc": reference.draws, **{name: reference.others[name] for name in ("sgld", "mala", "mean-field")}}
    numbers: dict[str, Any] = {name: score(model, data, reference, draws) for name, draws in sets.items()}
    numbers["laplace"] = score(model, data, reference, laplace, cov)
    return numbers, {"cov": reference.cov.astype(np.float32)}


def plot_entries(ax: Any, reference: np.ndarray, cov: np.ndarray) -> None:
    """All entries of one matrix against those of another, with the least-squares line."""
    x, y = reference.ravel(), cov.ravel()
    slope, intercept = np.polyfit(x, y, 1)
    ends = np.array([min(x.min(), y.min()), max(x.max(), y.max())])
    ends += 0.05 * np.array([-1.0, 1.0]) * (ends[1] - ends[0])
    ax.plot(ends, ends, color="0.5", linestyle="--", linewidth=0.8)
    ax.plot(ends, slope * ends + intercept, color="#c8102e", linewidth=1.2)
    ax.scatter(x, y, s=6, color="#1b3a5c", alpha=0.6, linewidths=0, zorder=3)
    ax.set(xlim=ends, ylim=ends, xlabel="covariance of the reference", aspect="equal")


def _row(repeats: list[JobResult], part: str | None = None) -> dict[str, Any]:
    """Per number its mean and sd over the seeds; of the reference job, `part` says which set of draws."""
    cells = [result.numbers if part is None else result.numbers[part] for result in repeats]
    row: dict[str, Any] = {}
    for name in NUMBERS:
        values = [cell[name] for cell in cells]
        row[name] = (mean(values), stdev(values) if len(values) > 1 else None)
    whole = [result.seconds for result in repeats if not result.resumed and part is None]
    worst = int(np.argmax(np.abs([cell["mean_errors"] for cell in cells]).mean(0)))
    return {**row, "worst_mean": worst, "num_seeds": len(cells), "seconds": mean(whole) if whole else None}


def _line(label: str, row: dict[str, Any]) -> list[str]:
    bar = row.get("bar")
    return [
        label,
        mean_sd(*row["rmse"]),
        "–" if bar is None else number(bar, 3),
        {True: "yes", False: "**no**", None: "–"}[row.get("within_bar")],
        f"{number(row['mean_error'][0], 3)} ({row['worst_mean']})",
        f"{number(row['smallest_sd'][0], 3)} to {number(row['largest_sd'][0], 3)}",
        mean_sd(*row["per_point"]),
        mean_sd(*row["joint"]),
        "–" if row["seconds"] is None else number(row["seconds"], 0),
    ]


def _settings(results: Results) -> str:
    lines = []
    for name, method in METHODS.items():
        result = results.first(method=name, seed=0)
        if result is not None:
            lines.append(
                f"- {method.label}: {result.numbers['updates']:,} updates of `{result.job.settings['objective']}`"
            )
    return "\n".join(lines)
