"""Rows as lines of text: one per posterior and method, medians over the keys."""

import math
import textwrap
from collections.abc import Iterable, Iterator
from statistics import median
from typing import Any

Row = dict[str, Any]
#: What the methods are called.
TITLES = {"sivi": "fit", "nuts": "NUTS", "numpyro": "NumPyro's NUTS"}
SHOWN = (
    ("seconds", "s", "{:.1f}"),
    ("updates", "updates", "{:.0f}"),
    ("mean_error", "mean err", "{:.3f}"),
    ("sd_ratio_min", "sd min", "{:.3f}"),
    ("sd_ratio_max", "sd max", "{:.3f}"),
    ("ks", "KS", "{:.3f}"),
    ("distance", "SW", "{:.3f}"),
    ("distance_floor", "floor", "{:.3f}"),
    ("weights_tv", "TV", "{:.3f}"),
    ("kl", "KL", "{:.3f}"),
)


def wrapped(text: str) -> str:
    """A paragraph of a page."""
    return textwrap.fill(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False)


def groups(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    """By posterior and method, the rows of all keys."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row["posterior"], row["method"]), []).append(row)
    return found


def with_faster_nuts(rows: Iterable[Row]) -> list[Row]:
    """The fits, and of each posterior the runs of the NUTS that took fewer seconds, in median: as method `nuts`.

    `by` of these says which it was. A sampler without any finished run is faster than none.
    """
    found = groups(rows)
    kept = [row for (_, method), own in found.items() if method == "sivi" for row in own]
    for posterior in dict.fromkeys(name for name, _ in found):
        runs = [own for method in ("nuts", "numpyro") if (own := found.get((posterior, method)))]
        fastest = min(runs, key=lambda own: middle(own, "seconds") or math.inf, default=[])
        kept += [row | {"method": "nuts", "by": row["method"]} for row in fastest]
    return kept


def middle(rows: list[Row], name: str) -> float | None:
    """The median over the keys, of those that have the number."""
    values = [row[name] for row in rows if row.get(name) is not None]
    return median(values) if values else None


def worst(rows: list[Row], name: str) -> float | None:
    """The largest over the keys, or for `sd_ratio_min` the smallest; None where a key has no such number."""
    values = [row.get(name) for row in rows]
    if not values or None in values:
        return None
    return min(values) if name == "sd_ratio_min" else max(values)


def met(rows: list[Row]) -> str:
    return f"{sum(row['met'] for row in rows)}/{len(rows)}"


def line_of(row: Row) -> str:
    """One run, for the terminal."""
    head = f"{row['posterior']:18s} {row['method']:7s} key {row['key']}"
    if "failed" in row:
        return f"{head}  FAILED: {row['failed']}"
    shown = [f"{label} {form.format(row[name])}" for name, label, form in SHOWN if row.get(name) is not None]
    return f"{head}  {'met' if row['met'] else 'MISSED ' + ', '.join(row['missed'])}  {'  '.join(shown)}"


def lines(rows: list[Row]) -> Iterator[str]:
    """The table, and last the geometric means of the seconds."""
    yield f"{'posterior':18s} {'dim':>3s} {'half':12s} {'by':7s} {'met':>5s} " + " ".join(f"{s[1]:>8s}" for s in SHOWN)
    for (posterior, method), own in groups(rows).items():
        values = [(form, middle(own, name)) for name, _, form in SHOWN]
        cells = " ".join(f"{'' if value is None else form.format(value):>8s}" for form, value in values)
        yield f"{posterior:18s} {own[0]['dim']:3d} {own[0]['half']:12s} {method:7s} {met(own):>5s} {cells}"
    yield summary(rows)


def summary(rows: list[Row]) -> str:
    found = {label: geometric_seconds(rows, method) for method, label in (TITLES | {"sivi": "sivi"}).items()}
    parts = [f"{label} {mean:.1f} s over {num}" for label, (mean, num) in found.items() if num]
    failed = sum("failed" in row for row in rows)
    return f"geometric mean of seconds: {', '.join(parts) or 'none'}; failed runs: {failed}"


def geometric_seconds(rows: list[Row], method: str, only: set[str] | None = None) -> tuple[float, int]:
    """Of the medians over the keys, and of how many posteriors."""
    medians = [
        middle(own, "seconds")
        for (posterior, by), own in groups(rows).items()
        if by == method and (only is None or posterior in only)
    ]
    values = [math.log(value) for value in medians if value is not None]
    return (math.exp(sum(values) / len(values)), len(values)) if values else (math.nan, 0)
