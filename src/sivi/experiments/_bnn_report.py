"""What the rows of the table of networks say together: means and standard errors, paired differences, and the text."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._bnn_data import SPLITS
from ._bnn_published import PUBLISHED
from .base import Results
from .report import markdown_table, number

SET_LABELS = {
    "boston": "Boston",
    "concrete": "Concrete",
    "power": "Power",
    "protein": "Protein",
    "winered": "Wine red",
    "winewhite": "Wine white",
    "yacht": "Yacht",
}


@dataclass(frozen=True)
class Line:
    """One line of a set's table: a method, and whose precisions it has."""

    method: str
    precisions: str | None
    label: str


LINES = (
    Line("sivi", "paper", "SIVI, paper's λ, γ"),
    Line("uivi", "paper", "UIVI, paper's λ, γ"),
    Line("sgld", "paper", "SGLD, paper's λ, γ"),
    Line("sivi-sm", "paper", "SIVI-SM, paper's λ, γ"),
    Line("sivi", "own", "SIVI"),
    Line("uivi", "own", "UIVI"),
    Line("sgld", "own", "SGLD"),
    Line("sivi-sm", "own", "SIVI-SM"),
    Line("default", "own", "default call"),
    Line("hmc", "own", "HMC, short"),
    Line("optima", "own", "five MAP networks"),
    Line("linear", None, "linear regression"),
)
_DEFAULT = ("default", "own")
#: The two halves of the splits; the one with seed 42 stands by itself.
_HALVES = {"0–9": tuple(range(10)), "10–19": tuple(range(10, 20))}
_SCORES = ("rmse", "nll")

_TEXT = """\
Root mean squared error and negative log likelihood of the rows held out, in the units of the targets: mean ± standard
error over splits 0 to 9 and over 10 to 19. Split s holds out the first tenth of `RandomState(100 + s).permutation(n)`,
and split 42 that of `RandomState(42)`. All networks have 50 ReLU units. With "paper's λ, γ" the noise precision is
found in the units of the dataset and used where the targets are standardised, as in the paper's runs, and one row in
ten is left aside; all other lines have the precisions that `BayesianNeuralNetwork.with_precisions` finds, as in the
default call. "Default −" is the paired difference of the default call and the line's method over splits 0 to 19, with
its standard error: below zero the default call is better.\
"""

_SPLITS_TEXT = """\
The paper's splits are not known, and over the splits here the RMSE of one and the same linear regression varies with a
standard deviation of {spread}, often more than the published methods differ by. So the paper's row stands beside for
orientation, and methods are compared by paired differences on the same splits alone.\
"""

_SEMI_IMPLICIT = """\
SIVI, UIVI and SIVI-SM have the paper's family (z of length 3, two hidden layers of 10 units, log σ² from −8), start
from 99 Adam steps on the squared error of the averaged prediction, and make {updates} updates on minibatches of 100
rows with Adam at a rate of 2·10⁻⁵, times 0.9 every 1000 updates: what the paper's authors ran for SIVI-SM on Boston.
SIVI-SM has 100 particles and a critic of 16 units; SIVI has 10 particles and L = 100; UIVI has one.\
"""
_SGLD = """\
SGLD is 100 particles. Its step size, one of 10⁻⁴, 10⁻⁵ and 10⁻⁶, and its length, {sgld} steps or half as many, have the
best likelihood on a tenth of the rows for fitting, which it does not see; ten particles choose them, in place of all.\
"""
_HMC = "HMC is short: {chains} chains of {kept} transitions after {warmup} of warm-up."
_SHARES = """\
The paper's λ and γ are means over the particles of a run of Stein variational gradient descent. "From z" is the share
of the variance of the weights of a fit that comes from z. Of the default call it is that within a component, and, where
the last layer has its exact conditional, the share of that layer's variance that comes from the other weights.\
"""


def by_split(results: Results, name: str, method: str, precisions: str | None) -> dict[int, Mapping[str, Any]]:
    """The rows of one line by split, of the first seed."""
    result = results.first(set=name, method=method, seed=0)
    rows = () if result is None else result.numbers["rows"]
    return {row["split"]: row for row in rows if row.get("precisions") == precisions}


def mean_and_error(values: Iterable[float | None]) -> dict[str, Any] | None:
    """Mean and standard error of the finite values, how many they are, and how many are none; None without any."""
    values = list(values)
    finite = [value for value in values if value is not None]
    if not finite:
        return None
    error = float(np.std(finite, ddof=1)) / math.sqrt(len(finite)) if len(finite) > 1 else None
    return {"mean": float(np.mean(finite)), "error": error, "count": len(finite), "failed": len(values) - len(finite)}


def paired(
    ours: Mapping[int, Mapping[str, Any]], theirs: Mapping[int, Mapping[str, Any]], score: str
) -> dict[str, Any] | None:
    """Mean and standard error of the differences on the splits, other than 42, where both have a number."""
    both = [s for s in ours if s in theirs and s != 42 and None not in (ours[s][score], theirs[s][score])]
    return mean_and_error([ours[s][score] - theirs[s][score] for s in both])


def summary_of(results: Results) -> dict[str, Any]:
    """By set and line, as JSON values."""
    summary: dict[str, Any] = {}
    for name in SET_LABELS:
        lines = {line: by_split(results, name, line.method, line.precisions) for line in LINES}
        default = next(rows for line, rows in lines.items() if (line.method, line.precisions) == _DEFAULT)
        cells = {line.label: _cells(rows, default) for line, rows in lines.items() if rows}
        for line in LINES:
            if line.label in cells:
                published = PUBLISHED[name].get(line.method) if line.precisions == "paper" else None
                cells[line.label] |= {
                    "paper": None if published is None else published._asdict(),
                    "seconds": _seconds(results, name, line.method),
                }
        if cells:
            summary[name] = cells
    return summary


def text_of(results: Results) -> str:
    """The section of the results page."""
    summary = summary_of(results)
    parts = [_TEXT, _SPLITS_TEXT.format(spread=_spreads(results))]
    for name, cells in summary.items():
        parts += [f"**{SET_LABELS[name]}**", _table(cells)]
    return "\n\n".join([*parts, _settings(results), _device_time(results)])


def _cells(rows: Mapping[int, Mapping[str, Any]], default: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for score in _SCORES:
        halves = {
            half: mean_and_error([rows[s][score] for s in splits if s in rows]) for half, splits in _HALVES.items()
        }
        own = rows[42][score] if 42 in rows else None
        cells[score] = {**halves, "42": own, "default_minus": None if rows is default else paired(default, rows, score)}
    shares = [row["z_share"] for row in rows.values() if row.get("z_share") is not None]
    return {**cells, "z_share": float(np.mean(shares)) if shares else None}


def _seconds(results: Results, name: str, method: str) -> float | None:
    result = results.first(set=name, method=method, seed=0)
    if result is None or not result.numbers.get("members"):
        return None
    return result.numbers["seconds"] / result.numbers["members"]


def _table(cells: Mapping[str, Mapping[str, Any]]) -> str:
    header = ["method"]
    for score in ("RMSE", "NLL"):
        header += [f"{score}, {half}" for half in _HALVES] + ["42", "paper", "default −"]
    header += ["from z", "seconds a fit"]
    lines = []
    for label, cell in cells.items():
        line = [label]
        for score in _SCORES:
            paper = cell["paper"]
            line += [_with_error(cell[score][half]) for half in _HALVES]
            line.append("–" if cell[score]["42"] is None else number(cell[score]["42"], 3))
            line.append("–" if paper is None else f"{number(paper[score], 3)} ± {number(paper[f'{score}_sd'], 2)}")
            line.append(_with_error(cell[score]["default_minus"]))
        line.append("–" if cell["z_share"] is None else number(cell["z_share"], 3))
        line.append("–" if cell["seconds"] is None else number(cell["seconds"], 1))
        lines.append(line)
    return markdown_table(header, lines)


def _with_error(cell: Mapping[str, Any] | None) -> str:
    if cell is None:
        return "–"
    failed = f", {cell['failed']} not finite" if cell["failed"] else ""
    error = "" if cell["error"] is None else f" ± {number(cell['error'], 3)}"
    return f"{number(cell['mean'], 3)}{error}{failed}"


def _spreads(results: Results) -> str:
    """Standard deviations over splits of the RMSE of linear regression, set by set."""
    found = []
    for name, label in SET_LABELS.items():
        rows = by_split(results, name, "linear", None)
        values = [row["rmse"] for split, row in rows.items() if split != 42]
        if len(values) > 1:
            found.append(f"{number(float(np.std(values, ddof=1)), 3)} on {label}")
    return _listed(found) or "much"


def _settings(results: Results) -> str:
    """A paragraph on the methods of which there are results, and a sentence on those of which there are not."""
    first = {method: results.first(method=method, seed=0) for method in dict.fromkeys(line.method for line in LINES)}
    settings = {method: {} if r is None else r.job.settings for method, r in first.items()}
    chains, sentences = settings["hmc"].get("chains", {}), []
    if updates := next((settings[m]["num_steps"] for m in ("sivi-sm", "sivi", "uivi") if settings[m]), None):
        sentences.append(_SEMI_IMPLICIT.format(updates=_count(updates)))
    if settings["sgld"]:
        sentences.append(_SGLD.format(sgld=_count(settings["sgld"]["num_steps"])))
    if chains:
        kept = chains["thin"] * chains["num_kept"]
        numbers = {"chains": chains["num_chains"], "kept": _count(kept), "warmup": chains["num_warmup"]}
        sentences.append(_HMC.format(**numbers))
    return " ".join([*sentences, _SHARES, *_not_run(results)])


def _not_run(results: Results) -> list[str]:
    """Which lines are missing, and of which sets."""
    found = []
    for method in dict.fromkeys(line.method for line in LINES):
        sets = [label for name, label in SET_LABELS.items() if results.first(set=name, method=method, seed=0) is None]
        if sets and results.mode == "full":
            label = next(line.label for line in reversed(LINES) if line.method == method)
            found.append(f"{label} ({_listed(sets) if len(sets) < len(SET_LABELS) else 'all'})")
    return [f"Not run yet: {'; '.join(found)}."] if found else []


def _device_time(results: Results) -> str:
    """Seconds by device, compiling and waiting included."""
    totals: dict[str, float] = {}
    for result in results.done:
        device = str(result.environment.get("machine", {}).get("device", "an unknown device"))
        totals[device] = totals.get(device, 0.0) + float(result.numbers.get("seconds", 0.0))
    times = [f"{seconds / 60:.1f} minutes on {device}" for device, seconds in sorted(totals.items())]
    count = sum(int(result.numbers.get("members", 0)) for result in results.done)
    splits = f"{len(SPLITS)} splits" if results.mode == "full" else "two splits"
    return (
        f"All {count:,} runs together took {_listed(times)}, compiling included. Seconds a fit are those of the "
        f"program of all members, {splits} with one or two kinds of λ and γ, divided by their number."
    )


def _count(value: int) -> str:
    return f"{value:,}"


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)
