"""Bayesian neural networks on seven regressions: the paper's methods, with its precisions and with the library's."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ._bnn_data import SPLITS, linear_scores, parts_of
from ._bnn_default import default_rows
from ._bnn_methods import OBJECTIVES, described, fit_rows, hamiltonian_rows, langevin_rows, optima_rows
from ._bnn_precisions import find_precisions
from ._bnn_report import SET_LABELS, summary_of, text_of
from ._bnn_stein import NUM_STEPS
from .base import Experiment, Job, Results

#: What a method does with a job's settings, the set's job of precisions, and its folder.
_ROWS: dict[str, Callable[[Mapping[str, Any], Job, Path], dict[str, Any]]] = {
    **dict.fromkeys(OBJECTIVES, fit_rows),
    "sgld": langevin_rows,
    "hmc": hamiltonian_rows,
    "optima": optima_rows,
    "default": default_rows,
}

_FIRST = ("precisions", "linear")

_FULL: dict[str, dict[str, Any]] = {
    "precisions": {"num_steps": NUM_STEPS},
    **{name: {"num_steps": 20_000, "num_draws": 1000} for name in OBJECTIVES},
    "sgld": {"num_steps": 100_000},
    "hmc": {"chains": {"num_warmup": 500, "num_chains": 4, "num_kept": 125, "thin": 4, "start_steps": 1000}},
    "optima": {"networks": 5, "num_steps": 10_000, "rate": 0.01},
    "default": {"num_steps": None, "num_draws": 1000},
    "linear": {},
}
_QUICK: dict[str, dict[str, Any]] = {
    "precisions": {"num_steps": 40},
    **{name: {"num_steps": 60, "num_draws": 100} for name in OBJECTIVES},
    "sgld": {"num_steps": 60},
    "hmc": {"chains": {"num_warmup": 40, "num_chains": 2, "num_kept": 10, "thin": 2, "start_steps": 100}},
    "optima": {"networks": 5, "num_steps": 200, "rate": 0.01},
    "default": {"num_steps": 100, "num_draws": 100},
    "linear": {},
}
#: Most of a quick run is compiling, and another set has other shapes: the second one has the methods that compile fast.
_QUICK_SETS = {"boston": tuple(_ROWS), "yacht": ("hmc", "optima", "default")}
_QUICK_SPLITS, _QUICK_ROWS = (0, 1), 120


class BNNTable(Experiment):
    """The last table of the paper, twice, and what stands beside it; a job is a method on all splits of a set."""

    name = "bnn-table"
    title = "Bayesian neural networks"
    paper = "Table 1, section 4.4"

    def jobs(self, mode: str, seeds: int) -> list[Job]:
        sets = dict.fromkeys(SET_LABELS, tuple(_ROWS)) if mode == "full" else _QUICK_SETS
        # What other jobs read comes first, so that processes side by side find it.
        pairs = [(name, method) for method in _FIRST for name in sets]
        pairs += [(name, method) for name, methods in sets.items() for method in methods]
        return [self._job(mode, name, method, seed) for seed in range(seeds) for name, method in pairs]

    def run_job(self, job: Job, scratch: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        settings = job.settings
        method, mode = settings["method"], "full" if settings["most_rows"] is None else "quick"
        if method == "linear":
            rows = [
                {"split": s, "precisions": None, **linear_scores(parts_of(settings["set"], s, settings["most_rows"]))}
                for s in settings["splits"]
            ]
            return {"rows": rows, "seconds": 0.0, "members": len(rows)}, {}
        if method == "precisions":
            return find_precisions(settings, scratch), {}
        return _ROWS[method](settings, self._job(mode, settings["set"], "precisions", settings["seed"]), scratch), {}

    def summary(self, results: Results) -> dict[str, Any]:
        return summary_of(results)

    def report(self, results: Results) -> str:
        return text_of(results)

    def _job(self, mode: str, name: str, method: str, seed: int) -> Job:
        is_full = mode == "full"
        settings = {
            "set": name,
            "method": method,
            "seed": seed,
            "splits": SPLITS if is_full else _QUICK_SPLITS,
            "most_rows": None if is_full else _QUICK_ROWS,
            **(_FULL if is_full else _QUICK)[method],
            **described(method),
        }
        return Job(f"{name}-{method}-{seed}", settings)
