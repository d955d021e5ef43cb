"""The part of the page where fits and NUTS take turns: their seconds."""

import math
from collections.abc import Iterator
from typing import Any

from .posteriors import POSTERIORS
from .table import TITLES, Row, groups, met, middle, with_faster_nuts, wrapped

PARTS = {"everyday": "Everyday", "hard": "Hard"}


def beside_nuts(beside: dict[str, Any]) -> Iterator[str]:
    """What the run is, and a table for each part of the battery."""
    rows, cores = beside["rows"], beside["machine"]["cores_each"]
    samplers = [method for method in ("nuts", "numpyro") if any(row["method"] == method for row in rows)]
    both = "the faster of `sivi.samplers.nuts` (BlackJAX) and NumPyro's NUTS with vectorised chains, by its seconds"
    which = both if len(samplers) > 1 else f"that of {'BlackJAX' if 'nuts' in samplers else 'NumPyro'}"
    text = (
        f"All in turn, in one run, each in a fresh process with {cores} CPU core{'s' if cores != 1 else ''}, key "
        f"{', '.join(map(str, beside['keys']))}; from the call to 4,000 draws on the host, compiling included, import "
        f"excluded. Medians over keys. NUTS is {which}; where it misses its bars, its time still counts. "
        f"{beside.get('note') or ''}"
    )
    yield wrapped(text) + "\n"
    for part, title in PARTS.items():
        names = [name for name, entry in POSTERIORS.items() if entry.part == part]
        lines = list(_table(names, rows, samplers, title))
        if lines:
            yield from [*lines, ""]


def ratios(rows: list[Row]) -> dict[str, float]:
    """By posterior, seconds of the fit over those of the faster NUTS."""
    found = groups(with_faster_nuts(rows))
    seconds = {name: [middle(found.get((name, by), []), "seconds") for by in ("sivi", "nuts")] for name, _ in found}
    return {name: fit / nuts for name, (fit, nuts) in seconds.items() if fit and nuts}


def _table(names: list[str], rows: list[Row], samplers: list[str], title: str) -> Iterator[str]:
    own = {name: ratio for name, ratio in ratios(rows).items() if name in names}
    if not own:
        return
    every, faster = groups(rows), groups(with_faster_nuts(rows))
    seconds = " | ".join(f"{TITLES[method]}, s" for method in ("sivi", *samplers))
    which = " faster NUTS |" if len(samplers) > 1 else ""
    yield f"| posterior | {seconds} |{which} fit / NUTS | fit meets its bars | NUTS does |"
    yield "|" + "---|" * (5 + len(samplers) + bool(which))
    for name in names:
        if name in own:
            cells = [_seconds(every.get((name, method), [])) for method in ("sivi", *samplers)]
            nuts = faster[name, "nuts"]
            cells += [{"nuts": "BlackJAX's", "numpyro": "NumPyro's"}[nuts[0]["by"]]] if which else []
            cells += [f"{own[name]:.2f}", met(every[name, "sivi"]), met(nuts)]
            yield f"| {name} | {' | '.join(cells)} |"
    mean = math.exp(sum(map(math.log, own.values())) / len(own))
    worst = max(own, key=lambda name: own[name])
    yield (
        f"\n{title}: the geometric mean of the {len(own)} ratios is {mean:.2f}, the largest {own[worst]:.2f} ({worst})."
    )


def _seconds(rows: list[Row]) -> str:
    value = middle(rows, "seconds")
    return "–" if value is None else f"{value:.1f}"
