"""Rows as lines of text, and tables of them."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy.stats import beta

Row = dict[str, Any]
#: Severities beyond which a real fit must be flagged, and below which it must not.
WRONG, GOOD = 2.0, 1.0


def line_of(row: Row) -> str:
    """One row, for the screen."""
    name = " ".join(str(row[k]) for k in ("target", "posterior", "method", "length", "defect", "start") if row.get(k))
    case = f"{name}, {row.get('fault', 'key')} {row.get('seed', row.get('key', ''))}"
    if "failed" in row:
        return f"{case}: failed, {row['failed']}"
    if "skipped" in row:
        return f"{case}: true effect {row['severity']:.2f} limits, not planted"
    if "after" in row:
        return f"{case}: {row['before']} -> {row['after']}, {row['ended']}, {row['seconds']:.1f} s"
    effect = f"true effect {row['severity']:.2f} limits ({row['worst']}), " if "severity" in row else ""
    if "path" in row:
        missed = "within the bars" if row["met"] else f"misses {', '.join(row['missed'])}"
        said = "believed" if row["believed"] else "not believed"
        return f"{case}: {' → '.join(row['path'])}, {missed}, {said}, {row['seconds']:.0f} s"
    if "level" not in row:
        return f"{case}: {effect}not checked, {row['job_seconds']:.0f} s; warned of {[w[0] for w in row['warned']]}"
    said = f"; {row['said'][0]}" if row["said"] else ""
    return f"{case}: {effect}{row['level']}, {row['seconds']:.1f} s{said}"


def share(rows: Iterable[Row]) -> str:
    """How many are flagged, of how many."""
    flags = [bool(row["flagged"]) for row in rows]
    return f"{sum(flags)} of {len(flags)}" if flags else "–"


def interval(count: int, num: int) -> tuple[float, float]:
    """Clopper and Pearson's, 95 %."""
    low = beta.ppf(0.025, count, num - count + 1) if count else 0.0
    high = beta.ppf(0.975, count + 1, num - count) if count < num else 1.0
    return float(low), float(high)


def percent(rows: list[Row]) -> str:
    """The share that is flagged, with its interval."""
    count, num = sum(bool(row["flagged"]) for row in rows), len(rows)
    if not num:
        return "none run"
    low, high = interval(count, num)
    return f"{count} of {num} ({100 * count / num:.1f} %; {100 * low:.1f} to {100 * high:.1f} %)"


def done(rows: list[Row]) -> list[Row]:
    """Rows that have a verdict."""
    return [row for row in rows if "flagged" in row]


def failures(rows: list[Row]) -> list[str]:
    """Those that failed, by name."""
    return [line_of(row) for row in rows if "failed" in row]


def by(rows: list[Row], name: str) -> dict[Any, list[Row]]:
    """Rows in groups, in the order in which the groups' names come first."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[name], []).append(row)
    return groups


def markdown(header: list[str], rows: Iterable[Iterable[Any]]) -> list[str]:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]


def middle(rows: list[Row], name: str) -> str:
    values = [row[name] for row in rows if row.get(name) is not None]
    return f"{np.median(values):.1f}" if values else "–"


def lines(mode: str, rows: list[Row]) -> list[str]:
    """The tables of a file of results."""
    tables: dict[str, Callable[[list[Row]], list[str]]] = {
        "planted": planted_lines,
        "fits": fit_lines,
        "cost": cost_lines,
        "refine": refine_lines,
        "infer": infer_lines,
    }
    found = tables[mode](rows)
    failed = failures(rows)
    return found + (["", "Failed:", "", *(f"* {line}" for line in failed)] if failed else [])


def planted_lines(rows: list[Row]) -> list[str]:
    """Detection by target and by fault, false alarms, and both by name where they are wrong."""
    told = sorted(done(rows), key=lambda row: (row["target"], row["fault"], row["seed"]))
    exact = [row for row in told if row["fault"] == "exact"]
    planted = [row for row in told if row["fault"] != "exact"]
    bad = sum(row["level"] == "bad" for row in planted)
    found = [
        f"Planted faults flagged: {percent(planted)}, {bad} as bad.",
        "",
        f"Exact sets flagged: {percent(exact)}.",
        "",
    ]
    table = []
    for name, own in by(told, "target").items():
        wrong, right = ([r for r in own if (r["fault"] == "exact") is is_exact] for is_exact in (False, True))
        later = [row for row in own if not row.get("first_of_its_process")]
        first = [row for row in own if row.get("first_of_its_process")]
        seconds = [middle(part, "seconds") for part in (first, later)]
        table.append([name, own[0]["dim"], share(wrong), share(right), *seconds])
    header = ["target", "unknowns", "planted, flagged", "exact, flagged", "seconds with compile", "seconds without"]
    found += [*markdown(header, table), ""]
    table = [
        [fault, share(own), f"{min(r['severity'] for r in own):.1f}", len({r["target"] for r in own})]
        for fault, own in by(sorted(planted, key=lambda row: row["fault"]), "fault").items()
    ]
    found += markdown(["fault", "flagged", "smallest true effect, limits", "targets"], table)
    near = [row for row in planted if row["severity"] <= WRONG]
    found += ["", f"Of those, true effects of one to two limits: {share(near)}."]
    return (
        found
        + _named("Missed", [r for r in planted if not r["flagged"]])
        + _named("False alarms", [r for r in exact if r["flagged"]])
    )


def _named(title: str, rows: list[Row]) -> list[str]:
    return ["", f"{title}:", "", *(f"* {line_of(row)}" for row in rows)] if rows else []


def fit_lines(rows: list[Row]) -> list[str]:
    """Real fits by how wrong they truly are."""
    told = done(rows)
    groups = {
        "more than two limits": [row for row in told if row["severity"] > WRONG],
        "one to two limits": [row for row in told if GOOD < row["severity"] <= WRONG],
        "less than a limit": [row for row in told if row["severity"] <= GOOD],
    }
    table = [[name, percent(own), sum(row["level"] == "bad" for row in own)] for name, own in groups.items()]
    found = [*markdown(["true effect", "flagged", "as bad"], table), ""]
    kinds: dict[tuple[str, ...], list[Row]] = {}
    for row in told:
        kinds.setdefault((row.get("defect") or row["method"], row["length"]), []).append(row)
    table = [
        [*kind, *(share(r for r in own if r in group) for group in groups.values())]
        for kind, own in sorted(kinds.items())
    ]
    found += markdown(["fit", "length", *groups], table)
    if raised := [row for row in rows if row.get("raised")]:
        found += ["", f"Fits that ended in an error of their own, whose last good state was checked: {len(raised)}."]
    missed = [row for row in groups["more than two limits"] if not row["flagged"]]
    alarms = [row for row in groups["less than a limit"] if row["flagged"]]
    return found + _named("Missed", missed) + _named("False alarms", alarms)


def cost_lines(rows: list[Row]) -> list[str]:
    """Seconds with compilation."""
    told = sorted(done(rows), key=lambda row: row["dim"])
    table = [
        [r["posterior"], r["dim"], r.get("fit_seconds", "–"), r["seconds"], f"{r['gradients'] / 1e6:.2f}", r["peak_gb"]]
        for r in told
    ]
    battery = [row for row in told if "fit_seconds" in row]
    within = sum(row["seconds"] <= max(12.0, row["fit_seconds"]) for row in battery)
    within = f"{within} of {len(battery)} within 12 s or the fit's own time"
    found = [f"Median over the battery: {middle(battery, 'seconds')} s; {within}."]
    header = ["posterior", "unknowns", "fit, s", "check with compile, s", "million gradients", "peak memory, GB"]
    return [*found, "", *markdown(header, table)]


def infer_lines(rows: list[Row]) -> list[str]:
    """Which path was taken, whether the draws are within the everyday bars, and whether they are believed."""
    told = [row for row in rows if "path" in row]
    names = by(told, "posterior")
    within = sum(all(row["met"] for row in own) for own in names.values())
    found = [
        f"Within the everyday bars with every key: {within} of {len(names)} posteriors. "
        f"Not within them: {sum(not r['met'] for r in told)} of {len(told)} runs, of which "
        f"{sum(not r['met'] and not r['believed'] for r in told)} say so. "
        f"Within them: {sum(r['met'] for r in told)}, of which "
        f"{sum(r['met'] and not r['believed'] for r in told)} are not believed.",
        "",
    ]
    table = []
    for row in told:
        n = row["numbers"]
        sds = f"{n['sd_ratio_min']:.2f} to {n['sd_ratio_max']:.2f}"
        state = "within" if row["met"] else ", ".join(row["missed"])
        judged = "believed" if row["believed"] else f"not believed ({row['level']})"
        steps = ", ".join(f"{name} {seconds:.0f}" for name, seconds, _ in row["steps"] if name != "fit")
        cost = f"{row['seconds']:.0f} ({steps})"
        name = f"{row['posterior']}, key {row['key']}"
        table.append([name, row["source"], f"{n['mean_error']:.3f}", sds, f"{n['ks']:.3f}", state, judged, cost])
    header = ["posterior", "draws of", "mean error, sd", "sd ratios", "KS", "everyday bars", "said", "seconds"]
    return [*found, *markdown(header, table)]


def refine_lines(rows: list[Row]) -> list[str]:
    """Before, after, and NUTS."""

    def numbers(of: Row | None) -> list[str]:
        if of is None:
            return ["–"] * 3
        weight = f"{of['weight_error']:.3f}" if "weight_error" in of else "–"
        return [weight, f"{of['floors']:.1f}", f"{of['sd_ratio_min']:.2f} to {of['sd_ratio_max']:.2f}"]

    table = []
    for row in (row for row in rows if "after" in row):
        name = f"{row['posterior']} ({row['start']}, key {row['key']})"
        cost = f"{row['seconds']:.0f} s, {row['gradients'] / 1e6:.1f} M"
        table.append([name, "draws", *numbers(row["before"]), f"{row['fit_seconds']:.0f} s"])
        table.append(["", f"refined: {row['ended']}", *numbers(row["after"]), cost])
        if nuts := row.get("nuts"):
            about = f"NUTS, {nuts['divergences']:,} divergences, R-hat {nuts['rhat_max']:.2f}"
            table.append(["", about, *numbers(nuts), f"{nuts['seconds']:.0f} s"])
    return markdown(["target", "", "weight error", "distance, floors", "sd ratios", "cost"], table)
