"""One posterior, fitted or sampled once, in the process that it is called in.

With another checkout's `src` in front, this is run with version 0.1 too, so it uses only what that version has.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import numpy as np

import sivi
from _clock import Clock

from .entry import Entry
from .measure import measure
from .posteriors import POSTERIORS
from .reference import reference_of

#: Draws on the host at which the clock stops; those that are measured, also where KL is; all of a quick run.
TIMED, MEASURED, MEASURED_KL, QUICK = 4000, 20_000, 50_000, 2000
QUICK_STEPS, QUICK_TRANSITIONS = 150, 100

#: An entry and a job → seconds, errors and more.
Work = Callable[[Entry, dict[str, Any]], dict[str, Any]]


def run_job(job: dict[str, Any], methods: Mapping[str, Work] | None = None) -> dict[str, Any]:
    """The row of a job, which has `posterior`, `key`, `method` and more; what goes wrong is part of it.

    Args:
        job: What to do.
        methods: By name; `METHODS` when left out.
    """
    entry = POSTERIORS[job["posterior"]]
    row = {name: job[name] for name in ("posterior", "key", "method", "variant") if name in job}
    work = (methods or METHODS)[job["method"]]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            row |= work(entry, job)
        except Exception as error:
            row["failed"] = f"{type(error).__name__}: {' '.join(str(error).split())}"[:500]
    said = list(dict.fromkeys(" ".join(str(w.message).split())[:300] for w in caught))
    return row | ({"warnings": said} if said else {}) | {"device": jax.default_backend()}


def fit(entry: Entry, job: dict[str, Any]) -> dict[str, Any]:
    """`sivi.fit` with nothing but the target and the key, unless the job says otherwise."""
    settings = dict(job.get("settings") or {})
    target, what = entry.problem()
    if job.get("recipe"):
        _change_recipe(job["recipe"])
    if job.get("steps_times"):
        data = getattr(target, "num_data", None)
        default = job.get("steps_of") or sivi.defaults.recipe(entry.dim, data).num_steps
        settings |= {"num_steps": int(job["steps_times"] * default), "stop": None}
    if job.get("quick"):
        settings = {"num_steps": QUICK_STEPS} | settings
    clock = Clock()
    posterior = sivi.fit(target, **what, key=job["key"], progress=False, **settings)
    timed = np.asarray(posterior.unconstrained(TIMED, key=1000 + job["key"]))
    seconds = clock.read()
    losses = np.asarray(posterior.history.get("loss", [])).ravel()
    facts: dict[str, Any] = seconds | {"updates": int(posterior.step)}
    if "own_weight" in posterior.history:
        facts["own_weight"] = _number(np.mean(posterior.history["own_weight"][..., -100:]))
    if len(losses) and np.isfinite(losses[-1]):
        facts["loss"] = float(losses[-1])
    return facts | numbers_of_more(entry, job, timed, lambda num: posterior.unconstrained(num, key=2000 + job["key"]))


def _change_recipe(numbers: dict[str, Any]) -> None:
    """Let `fit` use these numbers instead of those of `sivi.defaults.recipe`."""
    from sivi._fitting import start

    chosen = {name: tuple(value) if isinstance(value, list) else value for name, value in numbers.items()}
    start.recipe_for = lambda dim, num_data=None: replace(sivi.defaults.recipe(dim, num_data), **chosen)


def sample(entry: Entry, job: dict[str, Any]) -> dict[str, Any]:
    """`sivi.samplers.nuts` with its defaults: four chains, 1,000 transitions of warm-up and 1,000 draws each."""
    import blackjax  # noqa: F401  # which NUTS would do within its seconds

    target, what = entry.problem()
    clock = Clock()
    run = sivi.samplers.nuts(target, **what, key=job["key"], progress=False, **_lengths(job))
    draws = run.flat()
    facts = clock.read() | {"divergences": run.divergences, "rhat_max": _number(np.max(run.rhat))}
    return facts | {"ess_min": _number(np.min(run.ess))} | numbers_of(entry, draws, QUICK if job.get("quick") else None)


def sample_by_numpyro(entry: Entry, job: dict[str, Any]) -> dict[str, Any]:
    """The same with NumPyro's NUTS, its chains vectorised."""
    from .numpyro_nuts import numpyro_nuts

    facts, draws = numpyro_nuts(*entry.problem(), job["key"], **_lengths(job))
    facts = {name: _number(value) for name, value in facts.items()}
    return facts | numbers_of(entry, draws, QUICK if job.get("quick") else None)


#: By name, what a job can ask for.
METHODS: Mapping[str, Work] = {"sivi": fit, "nuts": sample, "numpyro": sample_by_numpyro}


def _lengths(job: dict[str, Any]) -> dict[str, int]:
    return {"num_warmup": QUICK_TRANSITIONS, "num_samples": QUICK_TRANSITIONS} if job.get("quick") else {}


def numbers_of_more(entry: Entry, job: dict[str, Any], timed: np.ndarray, draw: Callable[[int], Any]) -> dict[str, Any]:
    """Errors of more draws than those that were timed, which cost nothing but memory."""
    if job.get("quick"):
        return numbers_of(entry, timed[:QUICK], QUICK)
    return numbers_of(entry, np.asarray(draw(MEASURED_KL if entry.kl else MEASURED)))


def numbers_of(entry: Entry, free: np.ndarray, num_exact: int | None = None) -> dict[str, Any]:
    reference = reference_of(entry) if num_exact is None else reference_of(entry, num_exact)
    return {
        name: value if isinstance(value, str) else _number(value)
        for name, value in measure(
            entry.quantities(free), reference, names=entry.names, modes=entry.modes, kl=entry.kl
        ).items()
    }


def _number(value: Any) -> float | None:
    """JSON has no NaN and no infinity."""
    return float(value) if value is not None and np.isfinite(value) else None
