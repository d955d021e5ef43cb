"""Test log likelihood of multinomial regression on MNIST and HAPT by every method, along the way."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..metrics import classification_scores, predictive_scores
from ..posterior import Posterior
from ..targets import MultinomialRegression
from ._curves import CHUNK, fit_curve
from ._figures import common_legend, panels
from ._multinomial import NAMES, PROBLEMS, SETTINGS_TEXT, all_jobs, fit_arguments, load_model, methods
from .base import Experiment, Job, JobResult, Results
from .report import markdown_table, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The two definitions, and which one the paper's figure shows.
SCORES = {"joint": "joint test log likelihood", "per_point": "test log likelihood per point"}
FINAL = ("per_point", "joint", "accuracy", "calibration_error", "brier")

#: Points of a curve, at most; draws at each of them, and at the end.
NUM_STOPS = 30
DRAWS, LAST_DRAWS = 1000, 8000
QUICK_UPDATES, QUICK_CHUNKS, QUICK_DRAWS = 20, 4, 100

_TEXT = """\
Log likelihood of the rows held out, per row, in both definitions: "joint" lets one draw predict all rows, which is what
the paper's figure shows; "per point" is that of the predictive probabilities. The joint one rewards a posterior that
is too narrow. The paper prints no number. Curves are from {curve} draws, the table from {last} draws at the end of each
fit: log likelihoods, accuracy, expected calibration error (15 bins) and Brier score of the predictive probabilities,
and the seconds of the whole fit, compiling and warm-up included, with other jobs on the same device. The seconds of the
second figure count from the call: to the end of the first {chunk} updates, with compiling and warm-up, as measured on
that occasion; from there on, the updates times what one takes alone, in the table of seconds below, of the methods that
are in it.\
"""


class MLRCurves(Experiment):
    """Figure 4 of the paper, with the default call beside, against updates and against seconds."""

    name = "mlr-curves"
    title = "Multinomial regression on MNIST and HAPT"
    paper = "Figure 4, section 4.3"
    related = ("mlr-seconds",)

    def jobs(self, mode: str, seeds: int) -> list[Job]:
        sizes = {"draws": DRAWS, "last_draws": LAST_DRAWS, "chunk_size": CHUNK}
        if mode != "full":
            chunk_size = max(1, QUICK_UPDATES // QUICK_CHUNKS)
            sizes = {"draws": QUICK_DRAWS, "last_draws": QUICK_DRAWS, "chunk_size": chunk_size}
        return all_jobs(mode, seeds, QUICK_UPDATES, sizes)

    def run_job(self, job: Job, scratch: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        settings = job.settings
        model, held_out = load_model(settings["problem"], settings["mode"])
        arguments = fit_arguments(PROBLEMS[settings["problem"]], settings["method"], settings["seed"], settings["mode"])
        num_steps, chunk_size, key = settings["num_steps"], settings["chunk_size"], 2000 + settings["seed"]

        def scores(posterior: Posterior) -> dict[str, float]:
            values = predictive_scores(model, posterior.sample(settings["draws"], key=key), held_out)
            return {"per_point": values.per_point, "joint": values.joint}

        arguments |= {"num_steps": num_steps, "chunk_size": chunk_size}
        posterior, rows = fit_curve(model, curve_stops(num_steps, chunk_size), scratch, scores, **arguments)
        last = final_scores(model, posterior, held_out, settings["last_draws"], key)
        numbers = {
            **last,
            "updates": posterior.step,
            "skipped": sum(posterior.skipped),
            "fit_seconds": rows[-1]["seconds"],
            "first_seconds": rows[0]["first"],
        }
        columns = ("step", "seconds", *SCORES, "first")
        return numbers, {"curve": np.array([[row[name] for row in rows] for name in columns], np.float32)}

    def summary(self, results: Results) -> dict[str, Any]:
        names = (*FINAL, "fit_seconds", "updates")
        return {
            problem: {
                name: {key: float(np.mean([r.numbers[key] for r in repeats])) for key in names}
                for name in NAMES
                if (repeats := results.where(problem=problem, method=name))
            }
            for problem in PROBLEMS
        }

    def figures(self, results: Results) -> dict[str, "Figure"]:
        return {
            self.name: _figure(results, 0, "update"),
            f"{self.name}-seconds": _figure(results, 1, "seconds from the call"),
        }

    def report(self, results: Results) -> str:
        parts = []
        header = ["method", "per point", "joint", "accuracy", "calibration error", "Brier", "seconds", "updates"]
        for name, rows in self.summary(results).items():
            labels = methods(PROBLEMS[name])
            lines = [
                [
                    labels[method].label,
                    *(number(row[key]) for key in FINAL),
                    number(row["fit_seconds"], 0),
                    f"{row['updates']:,.0f}",
                ]
                for method, row in rows.items()
            ]
            parts += [f"**{PROBLEMS[name].label}**", markdown_table(header, lines)] if lines else []
        settings = results.done[0].job.settings
        sizes = {"curve": settings["draws"], "last": settings["last_draws"], "chunk": settings["chunk_size"]}
        text = _TEXT.format(**{name: f"{size:,}" for name, size in sizes.items()})
        return "\n\n".join([text, *parts, SETTINGS_TEXT])


def curve_stops(num_steps: int, chunk_size: int) -> list[int]:
    """Where a curve has its points: close together at first, after whole chunks, and at the end."""
    share = np.linspace(0.0, 1.0, NUM_STOPS + 1)[1:-1] ** 2
    stops = {chunk_size * max(1, round(num_steps * s / chunk_size)) for s in share}
    return [*sorted(stop for stop in stops if stop < num_steps), num_steps]


def final_scores(
    model: MultinomialRegression, posterior: Posterior, held_out: Any, num_draws: int, key: int
) -> dict[str, float]:
    """All scores of a fit at its end."""
    scores = classification_scores(model, posterior.sample(num_draws, key=key), held_out)
    return {name: float(getattr(scores, name)) for name in FINAL}


def _figure(results: Results, column: int, xlabel: str) -> "Figure":
    figure, axes = panels(len(SCORES), len(PROBLEMS), size=(4.6, 3.2))
    alone = _milliseconds(results)
    for i, ylabel in enumerate(SCORES.values()):
        for ax, (name, problem) in zip(axes[i], PROBLEMS.items(), strict=True):
            best = []
            for method, style in methods(problem).items():
                result = results.first(problem=name, method=method, seed=0)
                if result is None or (column and alone and (name, method) not in alone):
                    continue
                x, y = result.arrays["curve"][column], result.arrays["curve"][2 + i]
                if column and alone:
                    x = _seconds_from_call(result, alone[name, method])
                ax.plot(x, y, style.line, color=style.colour, linewidth=1.3, label=style.label)
                best.append(float(np.max(y)))
            if best:
                span = 0.15 if i else 0.3
                ax.set_ylim(max(best) - span, max(best) + 0.05 * span)
            ax.set(xlabel=xlabel, ylabel=ylabel if name == next(iter(PROBLEMS)) else "")
            if column:
                ax.set_xscale("log")
            else:
                ax.locator_params(axis="x", nbins=5)
            if i == 0:
                ax.set_title(problem.label)
    common_legend(figure, columns=5)
    return figure


def _seconds_from_call(result: JobResult, milliseconds: float) -> np.ndarray:
    """Those at every point of a curve whose updates take so long each, the first chunk as it was measured."""
    steps, first = result.arrays["curve"][0], float(result.arrays["curve"][-1][0])
    return first + np.maximum(steps - result.job.settings["chunk_size"], 0) * milliseconds / 1000.0


def _milliseconds(results: Results) -> dict[tuple[str, str], float]:
    """Milliseconds of an update alone on the device, from `mlr-seconds` where it has been run: curves may share one."""
    timed = results.related.get("mlr-seconds")
    done = () if timed is None else timed.done
    return {(r.job.settings["problem"], r.job.settings["method"]): r.numbers["milliseconds"] for r in done}
