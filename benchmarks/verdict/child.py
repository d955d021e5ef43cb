"""The rows of one job, in the process that it is called in."""

import resource
import time
import zlib
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

import sivi
from sivi._traced import float_types_of
from sivi.targets import Target
from sivi.verdict import limits
from sivi.verdict.check_draws import check_draws
from sivi.verdict.draws import as_chains, given_draws
from sivi.verdict.quantities import quantities_of

from .effects import Severities, log_probs, minibatch_effects, mode_effects, true_effects
from .faults import EXACT, FAULTS, Moments, moments_of
from .known import Known, Unscaled
from .sets import SETS

Row = dict[str, Any]
#: Draws that are checked: half of them give coordinates, as many as a posterior's would.
CHECKED_DRAWS = 22_000
#: Draws of either side of a true effect, and where there are many unknowns.
TRUE_DRAWS, TRUE_DRAWS_MANY, MANY_DIM = 100_000, 40_000, 20


#: What a job says that a row does not.
NOT_IN_ROWS = ("cores", "kind", "cases", "folder", "no_check", "no_nuts")


def rows_of_job(job: Row) -> Iterator[Row]:
    """Rows as they are done; what goes wrong with one is part of it."""
    if job["kind"] == "planted":
        yield from planted_rows(SETS[job["set"]][job["target"]], job["cases"])
    else:
        from .fits import cost_row, fit_row, refine_row
        from .inferences import infer_row

        work = {"fit": fit_row, "cost": cost_row, "refine": refine_row, "infer": infer_row}
        for each in job.get("jobs", [job]):
            yield guarded(each, work[each["kind"]])


def guarded(job: Row, work: Any) -> Row:
    row = {name: value for name, value in job.items() if name not in NOT_IN_ROWS}
    start = time.perf_counter()
    try:
        row |= work(job)
    except Exception as error:
        row["failed"] = f"{type(error).__name__}: {' '.join(str(error).split())}"[:500]
    return row | {"job_seconds": round(time.perf_counter() - start, 2), "peak_gb": peak_gb()}


def peak_gb() -> float:
    """The most memory that this process has had."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2)


def planted_rows(known: Known, cases: list[tuple[str, int]]) -> Iterator[Row]:
    """Checks of one target: programs are compiled by the first of them."""
    moments = moments_of(known)
    true: dict[tuple[str, int], Severities] = {}
    reference: list[np.ndarray] = []
    for number, (fault, seed) in enumerate(cases):
        variant = variant_of(known, fault, seed)
        if (fault, variant) not in true:
            true[fault, variant] = severities_of(known, moments, fault, variant, reference)
        found = true[fault, variant]
        worst = max(found, key=lambda name: found[name])
        row = {"target": known.name, "dim": known.dim, "fault": fault, "seed": seed, "variant": variant}
        row |= {"severity": round(found[worst], 3), "worst": worst}
        row |= {"severities": {name: round(value, 3) for name, value in found.items()}}
        if fault != "exact" and found[worst] <= 1.0:
            yield row | {"skipped": "within the limits"}
            continue
        job = {"first_of_its_process": number == 0}
        yield row | guarded(job, lambda _, f=fault, s=seed, v=variant: checked(known, moments, f, s, v))


def variant_of(known: Known, fault: str, seed: int) -> int:
    """Which unknown or mode is changed, at random."""
    variants = 1 if fault == "exact" else FAULTS[fault].variants(known)
    return int(generator(known, fault, seed, 3).integers(variants))


def generator(known: Known, fault: str, seed: int, use: int) -> np.random.Generator:
    """One for every use of every case."""
    return np.random.default_rng([use, seed, zlib.crc32(known.name.encode()), zlib.crc32(fault.encode())])


def severities_of(known: Known, moments: Moments, fault: str, variant: int, reference: list[np.ndarray]) -> Severities:
    """How wrong a fault truly is; `reference` keeps exact draws and their log density for the next call."""
    num = TRUE_DRAWS if known.dim <= MANY_DIM else TRUE_DRAWS_MANY
    if not reference:
        draws = known.exact(np.random.default_rng(4), num)
        reference += [draws, log_probs(known.target, draws)]
    if fault == "minibatch":
        return minibatch_effects(known.target.num_data or 0, known.batch_size or 0)
    change = EXACT if fault == "exact" else FAULTS[fault]
    wrong = change.draws(known, moments, generator(known, fault, variant, 5), num, variant)
    found = true_effects(reference[0], wrong, reference[1], log_probs(known.target, wrong))
    return found | mode_effects(known, wrong)


def checked(known: Known, moments: Moments, fault: str, seed: int, variant: int) -> Row:
    """What the check says of one set of draws."""
    change = EXACT if fault == "exact" else FAULTS[fault]
    draws = change.draws(known, moments, generator(known, fault, seed, 6), CHECKED_DRAWS, variant)
    target = known.target
    if fault == "minibatch":
        target = Unscaled(target)
    verdict = check_of_draws(draws, target, seed, known.batch_size if fault in ("exact", "minibatch") else None)
    return facts_of(verdict)


def check_of_draws(draws: np.ndarray, target: Target, seed: int, batch_size: int | None) -> sivi.Verdict:
    """`sivi.check` of an array; with a batch size, as of a posterior that was fitted with minibatches."""
    if batch_size is None:
        return sivi.check(draws, target, key=seed)
    begin = time.perf_counter()
    draw_key, check_key = jax.random.split(jax.random.key(seed))
    with float_types_of(target):
        parts = given_draws(as_chains(draws, target.layout), quantities_of(target), draw_key, limits.CHAINS)
        return check_draws(check_key, target, parts, effort=1.0, modes=True, begin=begin, batch_size=batch_size)


def facts_of(verdict: sivi.Verdict) -> Row:
    """What a table needs of a verdict."""
    kinds: dict[str, int] = {}
    for finding in verdict.findings:
        kinds[finding.kind] = kinds.get(finding.kind, 0) + 1
    return {
        "level": verdict.level,
        "flagged": verdict.level != limits.NO_FAULT,
        "kinds": kinds,
        "said": [finding.sentence for finding in verdict.findings[:3]],
        "effects": [
            [finding.kind, _number(finding.effect), _number(finding.error)] for finding in verdict.findings[:3]
        ],
        "num_modes": len(verdict.modes),
        "memory": _number(verdict.memory),
        "seconds": round(verdict.cost.seconds, 2),
        "gradients": verdict.cost.gradients,
        "not_looked_at": list(verdict.not_looked_at),
    }


def _number(value: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return round(float(value), 4) if np.isfinite(value) else None
