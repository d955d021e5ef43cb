"""Real fits: what the check says of them, what it costs, and what refinement mends."""

import time
import warnings
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import sivi
from battery.measure import measure
from battery.posteriors import POSTERIORS
from battery.reference import Reference, reference_of
from sivi.objectives import MixtureKL, ScoreMatching
from sivi.targets import Target, as_target
from sivi.verdict.refine import refine

from .child import check_of_draws, facts_of, generator
from .effects import BEYOND, log_probs, mode_effects, true_effects
from .faults import FAULTS, moments_of
from .kept import keep, kept, path_of
from .known import Known, Unscaled, of_battery
from .sets import SETS

Row = dict[str, Any]
OBJECTIVES = {"default": lambda: None, "mixture-kl": MixtureKL, "score-matching": ScoreMatching}
#: Posteriors that are also fitted with the sign of their log density wrong.
WRONG_SIGN = ("linear", "logistic", "schools", "far", "banana", "curved-pairs")
#: Draws of a fit, for its true effect, and of the sets whose distance is measured.
FIT_DRAWS = 20_000
#: Gaussians for the cost in many dimensions.
WIDE_DIMS = (100, 2000)


def known_of(name: str) -> Known | None:
    """A target of the first set, or a posterior of the battery with exact draws."""
    if name in SETS["first"]:
        return SETS["first"][name]
    return of_battery(POSTERIORS[name]) if POSTERIORS[name].exact is not None else None


def target_of(name: str) -> Target:
    known = known_of(name)
    if known is not None:
        return known.target
    return _whole(name, None)


@cache
def reference_draws(name: str) -> np.ndarray:
    """Free numbers: exact, or those of NUTS that the battery has stored."""
    known = known_of(name)
    return known.exact(np.random.default_rng(4), 50_000) if known is not None else reference_of(POSTERIORS[name]).free


@cache
def problem_of(name: str, defect: str | None) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """What is fitted: a target or a function, its `dim` or `like`, and settings of the fit that belong to it."""
    settings = {}
    if defect == "forgotten":
        known = SETS["first"][name]
        target, what, settings = Unscaled(known.target), {}, {"batch_size": known.batch_size}
    else:
        target, what = SETS["first"][name].problem() if name in SETS["first"] else POSTERIORS[name].problem()
    if defect == "wrong-sign":
        density = target.log_prob if isinstance(target, Target) else target
        what = what or {"dim": target.dim}
        target = _negative(density)
    return target, what, settings


@cache
def _whole(name: str, defect: str | None) -> Target:
    """The same object always, so that its programs are compiled once."""
    target, what, _ = problem_of(name, defect)
    return as_target(target, **what)


def fitted(job: Row) -> tuple[sivi.Posterior, Target, Row]:
    """The fit that a job asks for, what it was fitted to, and facts: seconds with compilation, warnings, errors.

    With a `folder`, a fit that is there is taken from it, and a new one is left there.
    """
    target, what, settings = problem_of(job["posterior"], job.get("defect"))
    whole, settings = _whole(job["posterior"], job.get("defect")), dict(settings)
    path = path_of(job["folder"], job) if job.get("folder") else None
    if path is not None and path.exists():
        posterior, facts = kept(path)
        return posterior, whole, facts
    if job.get("length") == "tenth":
        settings |= {"num_steps": sivi.defaults.recipe(whole.dim, whole.num_data).num_steps // 10, "stop": None}
    objective = OBJECTIVES[job.get("method", "default")]()
    settings |= {} if objective is None else {"objective": objective}
    start, facts = time.perf_counter(), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            posterior = sivi.fit(target, **what, key=job["key"], progress=False, **settings)
        except sivi.FitDiverged as error:  # which has the last good state
            posterior, facts["raised"] = error.posterior, " ".join(str(error).split())[:300]
        np.asarray(posterior.unconstrained(4000, key=0))
    facts |= {"fit_seconds": round(time.perf_counter() - start, 2), "updates": int(posterior.step)}
    facts |= {"warned": [[remark.kind, str(remark)] for remark in posterior.warnings]}
    if path is not None:
        keep(path, posterior, facts)
    return posterior, whole, facts


def _negative(density: Any) -> Any:
    return lambda x: -density(x)


def fit_row(job: Row) -> Row:
    """A fit, how wrong it truly is, and what its check says."""
    name = job["posterior"]
    posterior, target, facts = fitted(job)
    row: Row = {"dim": posterior.dim} | facts
    drawn = np.asarray(posterior.unconstrained(FIT_DRAWS, key=1000 + job["key"]), float)
    row |= severity_of(name, drawn)
    if job.get("no_check"):
        return row
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return row | facts_of(sivi.check(posterior, target, key=job["key"]))
        except Exception as error:
            return row | {"failed": f"check: {type(error).__name__}: {' '.join(str(error).split())}"[:500]}


@cache
def _reference_log_probs(name: str) -> np.ndarray:
    return log_probs(target_of(name), reference_draws(name))


def severity_of(name: str, drawn: np.ndarray) -> Row:
    """Against the reference; draws that are no numbers are as wrong as can be."""
    if not np.isfinite(drawn).all() or np.abs(drawn).max() > 1e18:
        return {"severity": BEYOND, "worst": "not finite"}
    if (drawn.std(0) <= 1e-6 * np.abs(drawn).max(0)).any():
        return {"severity": BEYOND, "worst": "constant"}
    found = true_effects(reference_draws(name), drawn, _reference_log_probs(name), log_probs(target_of(name), drawn))
    if (known := known_of(name)) is not None:
        found |= mode_effects(known, drawn)
    worst = max(found, key=lambda kind: found[kind])
    return {"severity": round(float(min(found[worst], BEYOND)), 3), "worst": worst}


def cost_row(job: Row) -> Row:
    """Seconds of a check with compilation: of the default call's fit, or of exact draws in many dimensions."""
    name = job["posterior"]
    if not name.startswith("wide-"):
        posterior, target, facts = fitted(job)
        return {"dim": posterior.dim} | facts | facts_of(sivi.check(posterior, target, key=job["key"]))
    known = wide(int(name.removeprefix("wide-")))
    draws = known.exact(np.random.default_rng(0), 22_000)
    return {"dim": known.dim} | facts_of(check_of_draws(draws, known.target, job["key"], None))


def wide(dim: int) -> Known:
    """A Gaussian with three common factors, x = B f + e; by Woodbury's identity its density takes O(dim) steps."""
    rng = np.random.default_rng(41)
    loading, variance = 0.5 * rng.normal(size=(dim, 3)), rng.uniform(0.5, 2.0, size=dim)
    scaled = loading / variance[:, None]
    inner = np.linalg.inv(np.linalg.cholesky(np.eye(3) + loading.T @ scaled))
    correction, precision = jnp.asarray(scaled @ inner.T), jnp.asarray(1.0 / variance)

    def log_density(x: jax.Array) -> jax.Array:
        return -0.5 * (jnp.sum(precision * x**2) - jnp.sum((x @ correction) ** 2))

    def draws(rng: np.random.Generator, num: int) -> np.ndarray:
        return rng.normal(size=(num, 3)) @ loading.T + np.sqrt(variance) * rng.normal(size=(num, dim))

    return Known(f"wide-{dim}", "three common factors", lambda: (log_density, {"dim": dim}), draws)


def refine_row(job: Row) -> Row:
    """Numbers before and after refinement, and those of NUTS."""
    name, key = job["posterior"], job["key"]
    known = known_of(name)
    if known is None:
        raise ValueError(f"posterior must have exact draws for --refine; {name} has none.")
    if job["start"].endswith("fit"):
        start, target, facts = fitted(job)
        seconds = facts["fit_seconds"]
        before = np.asarray(start.unconstrained(FIT_DRAWS, key=1000 + key), float)
    else:
        variant = key % FAULTS[job["start"]].variants(known)
        rng = generator(known, job["start"], key, 6)
        before = start = FAULTS[job["start"]].draws(known, moments_of(known), rng, 22_000, variant)
        seconds, target = 0.0, known.target
    refined = refine(start, target, key=key)
    after = np.asarray(refined.unconstrained(min(FIT_DRAWS, len(refined.draws)), key=0), float)
    row: Row = {"dim": known.dim, "fit_seconds": round(seconds, 2), "before": numbers(known, before)}
    row |= {"after": numbers(known, after), "ended": refined.ended, "seconds": round(refined.cost.seconds, 2)}
    row |= {"gradients": refined.cost.gradients}
    return row | ({} if job.get("no_nuts") else {"nuts": _nuts(known, key)})


def numbers(known: Known, draws: np.ndarray) -> Row:
    """Weights of modes, sliced Wasserstein distance in floors, sd ratios."""
    exact = known.exact(np.random.default_rng(4), 50_000)
    reference = Reference(exact, exact.mean(0), exact.std(0, ddof=1), exact, exact=True)
    found = measure(draws, reference, modes=known.modes)
    row = {"sd_ratio_min": found["sd_ratio_min"], "sd_ratio_max": found["sd_ratio_max"]}
    row |= {"distance": found["distance"], "floors": found["distance"] / found["distance_floor"]}
    if known.modes is not None:
        nearest = ((draws[:, None, :] - known.modes.means) ** 2).sum(-1).argmin(1)
        shares = np.bincount(nearest, minlength=len(known.modes.weights)) / len(draws)
        row["weight_error"] = float(np.abs(shares - known.modes.weights).max())
    return {name: round(float(value), 4) for name, value in row.items()}


def _nuts(known: Known, key: int) -> Row:
    """Four chains with default settings."""
    start = time.perf_counter()
    run = sivi.samplers.nuts(known.target, key=key, progress=False)
    draws = np.asarray(run.flat(), float)
    facts = {"seconds": round(time.perf_counter() - start, 2), "divergences": int(run.divergences)}
    return facts | {"rhat_max": round(float(np.max(run.rhat)), 3)} | numbers(known, draws)
