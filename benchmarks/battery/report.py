"""The page of the documentation, from a file of results."""

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from .beside_nuts import beside_nuts
from .posteriors import POSTERIORS
from .reference import summary as references
from .table import TITLES, geometric_seconds, groups, met, middle, with_faster_nuts, worst, wrapped

Rows = list[dict[str, Any]]

INTRODUCTION = """\
# The battery

One and the same call, `sivi.fit(target, key=key)` with nothing else but `dim` or `like`, on {num} posteriors. The
everyday part has models of applied statistics; the hard part has separated modes, funnels, curved and heavy-tailed
targets. Choices are made on the tuning half alone; the confirmation half says what they are worth. Every kind of
posterior is in both.

Two of the everyday posteriors are no sample of practice: `intervals` and `gp-poisson`, one in either half, were varied
until the warm-up of commit d110998 failed on most keys (ten settings tried of the one, five of the other). They show
whether those two faults are mended, and comparisons with 0.1 should be read with and without them.

{keys} Mean errors are in standard
deviations of the reference, the largest over all unknowns, which are judged as free numbers; sd ratios are the
smallest and the largest; KS is the largest marginal Kolmogorov–Smirnov distance; SW is the sliced Wasserstein distance
in units of the reference's standard deviations, over the distance between two reference sets of that size; TV is the
total variation between the weights of the modes and the shares of draws nearest to each; KL is a k-NN estimate of
KL(posterior ‖ fit). Seconds run from the call to 4,000 draws on the host, compiling included, import excluded, each in
a fresh process with {cores}. NUTS is {nuts} with four chains of 1,000 + 1,000 transitions, on the same machine.

{versions} `python benchmarks/battery` measures this, with results in `benchmarks/results/{file}`, and its `--report`
writes this page.
"""
BARS = {
    "everyday": "Bars: mean error at most 0.1, sd ratios 0.9 to 1.1, KS at most 0.05, or its noise where larger.",
    "hard": "Bars: even modes TV 0.05 and KL 0.10; uneven ones 0.06 and 0.15; 2-d funnel KS 0.03; 10-d funnel with "
    "v ~ N(0, 1) KS 0.06; centred schools sd ratios 0.85 to 1.15; horseshoe's coefficients mean error 0.2; the paper's "
    "three KL 0.015; curved pairs sd ratios 0.88 to 1.12; and 150 seconds each, which is the only bar of the others.",
}


def write_page(
    results: Path, baseline: Path | None, path: Path, beside: Path | None = None, more: Path | None = None
) -> None:
    old, alternating, longer = (json.loads(p.read_text()) if p else None for p in (baseline, beside, more))
    path.write_text(page(json.loads(results.read_text()), old, results.name, alternating, longer))


def page(
    results: dict[str, Any],
    baseline: dict[str, Any] | None = None,
    file: str = "battery.json",
    beside: dict[str, Any] | None = None,
    longer: dict[str, Any] | None = None,
) -> str:
    """The whole page in Markdown.

    Args:
        results: The runs that are judged.
        baseline: Those of version 0.1.
        file: What the results are called.
        beside: Fits and NUTS in turn, in one run, for their seconds and the errors of NUTS.
        longer: Runs with more updates, without a stop rule.
    """
    rows, old = results["rows"], baseline["rows"] if baseline else []
    judged = rows
    if beside:
        rows = [row for row in rows if row["method"] == "sivi"]
        rows = rows + [row for row in beside["rows"] if row["method"] != "sivi"]
    said, rows = rows, with_faster_nuts(rows)
    names = [name for name in POSTERIORS if (name, "sivi") in groups(rows)]
    both = {row["method"] for row in said} >= {"nuts", "numpyro"}
    nuts = (
        "on each posterior the faster of `sivi.samplers.nuts` and NumPyro's NUTS," if both else "`sivi.samplers.nuts`"
    )
    lines = [_introduction(results, len(names), file, nuts)]
    for part, title in (("everyday", "Everyday posteriors"), ("hard", "Hard posteriors")):
        own = [name for name in names if POSTERIORS[name].part == part]
        if own:
            lines += [f"## {title}\n", wrapped(BARS[part]) + "\n", *_table(own, rows, old, part), ""]
            lines += [*_nuts(own, rows), ""]
    lines += ["## Seconds\n", *_seconds(names, rows, old), ""]
    if beside:
        lines += ["## Seconds beside NUTS\n", *beside_nuts(beside)]
    if longer:
        lines += ["## More updates\n", *_longer(longer, judged), ""]
    lines += [*_failures(said)]
    lines += ["## The posteriors and their references\n", *_posteriors()]
    return "\n".join(lines).rstrip() + "\n"


def _introduction(results: dict[str, Any], num: int, file: str, nuts: str) -> str:
    keys, machine, versions = results["keys"], results["machine"], results["versions"]
    said = f"A number is the median over {len(keys)} keys, and in brackets the worst of them where it differs."
    said = said if len(keys) > 1 else f"All numbers are those of one key, {keys[0]}."
    cores = f"{machine['cores_each']} CPU core{'s' if machine['cores_each'] != 1 else ''}"
    packages = ", ".join(f"{name} {versions[name]}" for name in ("python", "jax", "numpy") if versions.get(name))
    extra = {name: results[name] for name in ("settings", "steps_times") if results.get(name)}
    note = f"Not the default call: {json.dumps(extra)}. " if extra else ""
    note += f"{results['note'].rstrip('.')}. " if results.get("note") else ""
    note += "A quick run, to see that everything runs. " if results.get("quick") else ""
    about = f"{note}Versions: {packages}."
    whole = INTRODUCTION.format(num=num, keys=said, cores=cores, versions=about, file=file, nuts=nuts)
    return "\n\n".join(wrapped(paragraph) for paragraph in whole.split("\n\n")) + "\n"


def _cell(rows: Rows, name: str, form: str = "{:.3f}") -> str:
    """Median, and the worst key in brackets where it reads differently; a dash for nothing."""
    value, most = middle(rows, name), worst(rows, name)
    if value is None:
        return "–"
    shown = form.format(value)
    bad = "failed" if most is None else form.format(most)
    return shown if bad == shown else f"{shown} ({bad})"


def _over_floor(rows: Rows) -> str:
    ratios = [{"r": row["distance"] / row["distance_floor"]} for row in rows if row.get("distance") is not None]
    return _cell(ratios, "r", "{:.1f}")


def _verdict(rows: Rows) -> str:
    missed = sorted({name for row in rows for name in row["missed"]})
    return "met" if not missed else f"**missed** {met(rows)}: {', '.join(missed)}".replace("_", " ")


def _table(names: list[str], rows: Rows, old: Rows, part: str) -> Iterator[str]:
    modes = part == "hard"
    head = ["posterior", "half", "unknowns", "mean error", "sd ratio, least", "most", "KS", "SW / floor"]
    head += ["TV", "KL"] if modes else []
    head += ["updates", "s", "NUTS, s", *(["0.1, s", "0.1"] if old else []), "bars"]
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    ours, before = groups(rows), groups(old)
    for name in names:
        own, nuts, entry = ours[name, "sivi"], ours.get((name, "nuts"), []), POSTERIORS[name]
        cells = [name, entry.half, str(entry.dim), _cell(own, "mean_error"), _cell(own, "sd_ratio_min")]
        cells += [_cell(own, "sd_ratio_max"), _cell(own, "ks"), _over_floor(own)]
        cells += [_cell(own, "weights_tv"), _cell(own, "kl")] if modes else []
        cells += [_cell(own, "updates", "{:.0f}"), _cell(own, "seconds", "{:.0f}"), _cell(nuts, "seconds", "{:.0f}")]
        if old:
            then = before.get((name, "sivi"), [])
            cells += [_cell(then, "seconds", "{:.0f}"), f"{met(then)} met" if then else "–"]
        yield f"| {' | '.join([*cells, _verdict(own)])} |"


def _nuts(names: list[str], rows: Rows) -> Iterator[str]:
    """The same errors for NUTS, whose chains are short: its noise is part of them."""
    found = {name: own for name in names if (own := groups(rows).get((name, "nuts")))}
    if not found:
        return
    yield "The same for NUTS, whose 4,000 draws are fewer and dependent:\n"
    yield "| posterior | by | mean error | sd ratio, least | most | KS | TV | KL | largest R-hat | divergences | bars |"
    yield "|" + "---|" * 11
    for name, own in found.items():
        cells = [_cell(own, key) for key in ("mean_error", "sd_ratio_min", "sd_ratio_max", "ks", "weights_tv", "kl")]
        cells += [_cell(own, "rhat_max"), _cell(own, "divergences", "{:.0f}")]
        by = "NumPyro" if own[0]["by"] == "numpyro" else "BlackJAX"
        yield f"| {' | '.join([name, by, *cells, _verdict(own)])} |"


def _seconds(names: list[str], rows: Rows, old: Rows) -> Iterator[str]:
    yield "Geometric means over posteriors, of the medians over keys; in brackets how many posteriors.\n"
    yield "| | now | NUTS | 0.1 | bars met, now | NUTS | 0.1 |"
    yield "|---|---|---|---|---|---|---|"
    for part in ("everyday", "hard"):
        for half in ("tuning", "confirmation"):
            own = {name for name in names if (POSTERIORS[name].part, POSTERIORS[name].half) == (part, half)}
            if own:
                every = [(rows, "sivi"), (rows, "nuts"), (old, "sivi")]
                means = [geometric_seconds(data, method, own) for data, method in every]
                cells = [f"{mean:.1f} ({num})" if num else "–" for mean, num in means]
                cells += [_count(data, method, own) for data, method in every]
                yield f"| {part}, {half} | {' | '.join(cells)} |"


def _longer(longer: dict[str, Any], before: Rows) -> Iterator[str]:
    """The distance after more updates without a stop rule, over that of the default call with the same keys."""
    times = longer["steps_times"]
    yield (
        wrapped(
            f"The same fits with {times:g} times the updates that they had taken, and no stop rule (`stop=None`): one "
            f"long round. Sliced Wasserstein distances are medians over keys, in units of their floor. "
            f"{longer.get('note') or ''}"
        )
        + "\n"
    )
    yield "| posterior | keys | updates | SW / floor before | after | after / before, or the floor where larger |"
    yield "|---|---|---|---|---|---|"
    first = {(row["posterior"], row["key"]): row for row in before if row["method"] == "sivi"}
    for (name, _), runs in groups(longer["rows"]).items():
        pairs = [(first[name, r["key"]], r) for r in runs if r.get("distance") and (name, r["key"]) in first]
        if not pairs:
            continue
        floor = pairs[0][0]["distance_floor"]
        was, now = (median(pair[i]["distance"] for pair in pairs) for i in (0, 1))
        keys, updates = ", ".join(str(r["key"]) for _, r in pairs), median(r["updates"] for _, r in pairs)
        distances = f"{was / floor:.2f} | {now / floor:.2f} | {now / max(was, floor):.2f}"
        yield f"| {name} | {keys} | {updates:.0f} | {distances} |"


def _count(rows: Rows, method: str, names: set[str]) -> str:
    own = [row for (name, by), runs in groups(rows).items() if by == method and name in names for row in runs]
    return f"{sum(row['met'] for row in own)} of {len(own)} runs" if own else "–"


def _failures(rows: Rows) -> Iterator[str]:
    """What went wrong, or was warned of."""
    said = {}
    for row in rows:
        for text in [row["failed"]] if "failed" in row else row.get("warnings", []):
            said.setdefault((row["posterior"], row["method"], text), []).append(str(row["key"]))
    if said:
        yield "## Failures and warnings\n"
        for (name, method, text), keys in said.items():
            yield f"* {name}, {TITLES[method]}, key {', '.join(keys)}: {text}"
        yield ""


def _posteriors() -> Iterator[str]:
    """All of them, measured or not."""
    found = references()
    yield "| posterior | half | unknowns | what it is | reference |"
    yield "|---|---|---|---|---|"
    for name, entry in POSTERIORS.items():
        row = found.get(name)
        how = "exact draws" if row is None else f"NUTS, R-hat {row['rhat_max']:.4f}, ESS {row['ess_min']:,.0f}"
        yield f"| {name} | {entry.half} | {entry.dim} | {entry.about} | {how} |"
