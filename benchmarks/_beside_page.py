"""The page "Beside other methods", from results of `beside.py`."""

import json
from pathlib import Path
from typing import Any

from battery.posteriors import POSTERIORS
from battery.table import Row, groups, met, middle, worst, wrapped

TITLES = {
    "sivi": "`sivi.fit`",
    "nuts": "NUTS, BlackJAX",
    "numpyro": "NUTS, NumPyro",
    "mvn": "AutoMultivariateNormal",
    "iaf": "AutoIAFNormal",
    "bnaf": "AutoBNAFNormal",
    "maf": "FlowJAX, 400 steps",
    "maf-long": "FlowJAX, 4,000 steps",
    "pathfinder": "Pathfinder",
    "multipathfinder": "Pathfinder, 4 paths",
}
#: Errors of the tables, and the one that says which of two methods is nearer to a posterior.
ERRORS = {"mean_error": "mean error", "sd_ratio_min": "sd ratio, least", "sd_ratio_max": "most", "ks": "KS"}
MORE_ERRORS = {"weights_tv": "TV", "kl": "KL"}

INTRODUCTION = """\
`sivi.fit(target, key=key)`, with nothing else but `dim` or `like`, beside two implementations of NUTS, three guides of
NumPyro, a flow of FlowJAX and Pathfinder, on five posteriors of [the battery](battery.md), keys {keys}. Every run is a
fresh process with {cores}, and on every posterior the methods take turns. Seconds run from the call to 4,000 draws on
the host, compiling included, import excluded; CPU seconds are those of all cores together. {note}

A number is the median over the keys, and in brackets the worst where it differs. Errors are those of the battery: mean
errors and sd ratios in standard deviations of the reference, the largest over all unknowns; KS is the largest marginal
Kolmogorov–Smirnov distance; TV is the total variation between the weights of the modes and the shares of draws; KL is a
k-NN estimate of KL(posterior ‖ draws), of 50,000 draws; of NUTS and of Pathfinder with four paths there are 4,000, and
their KL is larger by that; SW is the sliced Wasserstein distance over that between two sets of the reference. A dash:
not measured, or not finite.

Versions: {versions}. `python benchmarks/beside.py` measures this, with results in `benchmarks/results/{file}`, and its
`--report` writes this page.
"""
SETTINGS = """\
## Settings

Each method as its own documentation uses it; no setting was chosen by looking at these posteriors.

* NUTS: four chains of 1,000 + 1,000 transitions, by `sivi.samplers.nuts` (BlackJAX) and by NumPyro with vectorised
  chains; all else is default.
* NumPyro's guides: Adam at 0.003, 10,000 steps of `Trace_ELBO()`, as in NumPyro's example [Neural
  Transport](https://num.pyro.ai/en/stable/examples/neutra.html) for `AutoBNAFNormal`. The other two have the same: the
  2,000 steps at 0.0005 of the page of `SVI` would leave them near their start.
* FlowJAX: `masked_autoregressive_flow` with affine layers and `invert=False`, 100 samples, learning rate 1e-3, 400
  steps, as in its example [Variational inference](https://danielward27.github.io/flowjax/examples/), which fits a
  Gaussian in two dimensions; and ten times as many steps.
* Pathfinder: `blackjax.pathfinder` with its defaults; and `blackjax.multipathfinder` with the four paths of 1,000 draws
  of [Stan's guide](https://mc-stan.org/docs/cmdstan-guide/pathfinder_config.html), resampled by importance, so that
  points repeat.
"""


def write_page(results: Path, path: Path) -> None:
    """The page, and its line in the list of pages beside it."""
    path.write_text(page(json.loads(results.read_text()), results.name))
    index = path.with_name("index.md")
    if index.exists() and f"\n{path.stem}\n" not in index.read_text():
        index.write_text(index.read_text().replace("\nbattery\n", f"\nbattery\n{path.stem}\n", 1))


def page(results: dict[str, Any], file: str = "beside.json") -> str:
    rows, cores = results["rows"], results["machine"]["cores_each"]
    note = "A quick run, to see that everything runs. " if results.get("quick") else ""
    about = INTRODUCTION.format(
        keys=" and ".join(map(str, results["keys"])),
        cores=f"{cores} CPU core{'s' if cores != 1 else ''}",
        note=note + (results.get("note") or ""),
        versions=", ".join(f"{name} {version}" for name, version in results["versions"].items() if version),
        file=file,
    )
    names = list(dict.fromkeys(row["posterior"] for row in rows))
    lines = ["# Beside other methods\n", *(wrapped(part) + "\n" for part in about.split("\n\n"))]
    lines += ["## Where `sivi.fit` loses\n", *_losses(names, rows), ""]
    for name in names:
        entry = POSTERIORS[name]
        unknowns = f"{entry.dim} unknowns"
        lines += [f"## {name}\n", wrapped(f"{entry.about[0].upper()}{entry.about[1:]}; {unknowns}.") + "\n"]
        lines += [*_table(groups(row for row in rows if row["posterior"] == name)), ""]
    lines += [SETTINGS, *_failures(rows)]
    return "\n".join(lines).rstrip() + "\n"


def _table(found: dict[tuple[str, str], list[Row]]) -> list[str]:
    every = [row for own in found.values() for row in own]
    errors = ERRORS | {name: title for name, title in MORE_ERRORS.items() if any(row.get(name) for row in every)}
    head = ["method", "s", "CPU s", *errors.values(), "SW / floor", "meets the battery's bars"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for (_, method), own in found.items():
        cells = [_cell(own, "seconds", "{:.1f}"), _cell(own, "cpu_seconds", "{:.1f}")]
        cells += [_cell(own, name, "{:.3f}") for name in errors]
        cells += [_cell([row | {"ratio": _over_floor(row)} for row in own], "ratio", "{:.1f}"), met(own)]
        lines.append(f"| {TITLES[method]} | {' | '.join(cells)} |")
    return lines


def _cell(rows: list[Row], name: str, form: str) -> str:
    centre, far = middle(rows, name), worst(rows, name)
    if centre is None:
        return "–"
    said = form.format(centre)
    return said if far is None or form.format(far) == said else f"{said} ({form.format(far)})"


def _over_floor(row: Row) -> float | None:
    return row["distance"] / row["distance_floor"] if row.get("distance") is not None else None


def _losses(names: list[str], rows: list[Row]) -> list[str]:
    """By posterior, the methods that are faster and those that are nearer, and those that are both."""
    found, lines = groups(rows), []
    for name in names:
        own = {method: found[name, method] for method in TITLES if (name, method) in found}
        error = "kl" if POSTERIORS[name].kl else "ks"
        cpu, far = ({m: middle(runs, by) for m, runs in own.items()} for by in ("cpu_seconds", error))
        if cpu.get("sivi") is None or far.get("sivi") is None:
            lines.append(f"* {name}: the fit has no numbers.")
            continue
        faster = [m for m in own if cpu[m] is not None and cpu[m] < cpu["sivi"]]
        nearer = [m for m in own if far[m] is not None and far[m] < far["sivi"]]
        text = f"{name}: fewer CPU seconds: {_titles(faster)}. Smaller {error.upper()}: {_titles(nearer)}. "
        text += f"Both: {_titles([m for m in faster if m in nearer])}."
        lines.append("* " + wrapped(text).replace("\n", "\n  "))
    return lines


def _titles(methods: list[str]) -> str:
    return "; ".join(TITLES[method] for method in methods) or "none"


def _failures(rows: list[Row]) -> list[str]:
    failed = [row for row in rows if "failed" in row]
    lines = [f"* {row['posterior']}, {TITLES[row['method']]}, key {row['key']}: {row['failed']}" for row in failed]
    return ["## Failures\n", *lines] if lines else []
