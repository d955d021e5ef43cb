"""Seconds per update of every method on MNIST and HAPT."""

import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from .._fitting.fit import fit
from .._fitting.report import FitReport
from ._curves import CHUNK
from ._multinomial import NAMES, PROBLEMS, all_jobs, fit_arguments, load_model, methods
from .base import Experiment, Job, Results
from .report import markdown_table, number

#: Milliseconds in the paper, on an RTX 2080.
PAPER = {
    "mnist": {"sivi-1": 4.2, "sivi-10": 6.5, "sivi-20": 10.7, "sivi-sm-100": 5.8, "sivi-sm-200": 8.8, "uivi-1": 50.7},
    "hapt": {"sivi-1": 4.2, "sivi-10": 4.5, "sivi-20": 4.8, "sivi-sm-100": 5.7, "sivi-sm-200": 5.9, "uivi-1": 49.3},
}
#: Updates of a chunk and chunks run, the first of which is left out. A full run's programs are those of the curves.
CHUNKS = {"full": (CHUNK, 4), "quick": (2, 3)}

_TEXT = """\
Milliseconds per update: the median over {chunks} stretches of {updates} updates each, after a first one that holds the
compiling; the paper's were measured on an RTX 2080. The default call makes two critic updates per family update, with
256 particles.\
"""


class MLRSeconds(Experiment):
    """Table 4 of the paper."""

    name = "mlr-seconds"
    title = "Seconds per update on MNIST and HAPT"
    paper = "Table 4, appendix I"

    def jobs(self, mode: str, seeds: int) -> list[Job]:
        updates, chunks = CHUNKS[mode]
        timed = {"chunk_size": updates, "chunks": chunks, "num_steps": updates * chunks}
        return all_jobs(mode, seeds, updates, timed)

    def run_job(self, job: Job, scratch: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        settings = job.settings
        model, _ = load_model(settings["problem"], settings["mode"])
        arguments = fit_arguments(PROBLEMS[settings["problem"]], settings["method"], settings["seed"], settings["mode"])
        marks: list[tuple[int, float]] = []

        def mark(report: FitReport) -> None:
            marks.append((report.step, time.perf_counter()))

        arguments |= {"chunk_size": settings["chunk_size"], "callbacks": [mark]}
        fit(model, num_steps=settings["num_steps"], progress=False, **arguments)
        each = [1000.0 * float(seconds / updates) for updates, seconds in np.diff(marks, axis=0)]
        return {"milliseconds": median(each), "all": each}, {}

    def summary(self, results: Results) -> dict[str, Any]:
        return {
            problem: {
                name: median(r.numbers["milliseconds"] for r in repeats)
                for name in NAMES
                if (repeats := results.where(problem=problem, method=name))
            }
            for problem in PROBLEMS
        }

    def report(self, results: Results) -> str:
        cells = self.summary(results)
        labels = methods(PROBLEMS["mnist"])
        rows = [[labels[name].label, *(cell for p in PROBLEMS for cell in _pair(cells[p], p, name))] for name in NAMES]
        header = ["method", *(text for p in PROBLEMS.values() for text in (p.label, f"{p.label}, paper"))]
        settings = results.done[0].job.settings
        text = _TEXT.format(chunks=settings["chunks"] - 1, updates=settings["chunk_size"])
        return f"{text}\n\n{markdown_table(header, rows)}"


def _pair(row: dict[str, float], problem: str, name: str) -> tuple[str, str]:
    paper = PAPER[problem].get(name)
    return number(row[name], 2) if name in row else "not run", "–" if paper is None else number(paper, 1)
