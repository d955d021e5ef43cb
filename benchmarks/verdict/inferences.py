"""`sivi.infer` on posteriors of the battery: which path it takes, what that costs, and whether it says what is true."""

import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

import sivi
from battery.child import numbers_of
from battery.entry import EVERYDAY
from battery.measure import judge
from battery.posteriors import POSTERIORS
from sivi.verdict import infer as infer_module

from .fits import fitted

Row = dict[str, Any]
#: Draws that are measured, if there are as many.
MEASURED = 20_000


def infer_row(job: Row) -> Row:
    """One call, judged by the everyday bars. With a `folder`, its first step is the kept fit of the same call."""
    entry = POSTERIORS[job["posterior"]]
    target, what = entry.problem()
    facts: Row = {}
    if job.get("folder"):
        posterior, whole, facts = fitted(job)
        original, infer_module.fit = infer_module.fit, lambda *_, **__: replace(posterior, target=whole)
    start = time.perf_counter()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            inference = sivi.infer(target, **what, key=job["key"], progress=False)
    finally:
        if job.get("folder"):
            infer_module.fit = original
    seconds = time.perf_counter() - start + facts.get("fit_seconds", 0.0)
    stored = MEASURED if inference.source == "fit" else len(inference.result.draws)
    draws = np.asarray(inference.unconstrained(min(MEASURED, stored), key=1), float)
    numbers = numbers_of(entry, draws)
    judged = judge(replace(entry, bars=EVERYDAY), numbers)
    return {
        "dim": entry.dim,
        "path": list(inference.path),
        "source": inference.source,
        "believed": inference.believed,
        "level": inference.level,
        "said": list(inference.warnings[:3]),
        "warned": any(issubclass(w.category, sivi.FitWarning) for w in caught),
        "seconds": round(seconds, 1),
        "steps": [[step.name, round(step.cost.seconds, 1), step.cost.gradients] for step in inference.steps],
        "numbers": {name: numbers.get(name) for name in (*EVERYDAY, "mean_error_at", "sd_ratio_min_at", "ks_at")},
        "floors": round(numbers["distance"] / numbers["distance_floor"], 2),
        "missed": judged["missed"],
        "met": judged["met"],
    }
