"""Makes the references that are not exact: long chains of NUTS in float64.

    python benchmarks/battery --make-references [NAMES...] [--times 2]

The chains start around the posterior's mode, two Laplace standard deviations wide. Of every posterior, about 4,000
thinned draws of what is judged are stored, and the mean and standard deviation of all draws; `summary.json` says how
good they are. `--times` lengthens the chains.
"""

import json
import platform
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

import sivi
from sivi._version import package_version
from sivi.samplers import SamplerRun, effective_sample_size, split_rhat
from sivi.samplers.diagnostics import scale_sample_size
from sivi.targets import as_target

from .entry import Entry
from .posteriors import POSTERIORS
from .reference import FOLDER, SUMMARY

SEED, NUM_CHAINS, NUM_WARMUP, NUM_DRAWS = 0, 4, 2000, 6000
STORED, STORED_FREE = 4000, 500
RHAT = 1.005


def laplace_starts(target: Any, num: int, rng: np.random.Generator) -> np.ndarray:
    """Points around the mode, with twice the standard deviations of the curvature there, and at most 1."""
    value = jax.jit(jax.value_and_grad(lambda x: -target.log_prob(x)))

    def finite(x: np.ndarray) -> tuple[float, np.ndarray]:
        loss, slope = value(jnp.asarray(x))
        return float(jnp.nan_to_num(loss, nan=1e30, posinf=1e30)), np.nan_to_num(np.asarray(slope))

    mode = minimize(finite, np.zeros(target.dim), jac=True, method="L-BFGS-B", options={"maxiter": 2000}).x
    hessian = np.asarray(jax.jit(jax.hessian(lambda x: -target.log_prob(x)))(jnp.asarray(mode)))
    values, vectors = np.linalg.eigh(hessian)
    scales = 2.0 / np.sqrt(np.maximum(values, 4.0))
    return mode + (rng.normal(size=(num, target.dim)) * scales) @ vectors.T


def chains(entry: Entry, times: float) -> tuple[SamplerRun, dict[str, Any]]:
    target, what = entry.problem()
    target = as_target(target, **what)
    settings = {"num_samples": NUM_DRAWS, "num_warmup": NUM_WARMUP, "target_acceptance": 0.9} | dict(entry.nuts)
    settings["num_samples"] = int(times * settings["num_samples"])
    starts = laplace_starts(target, NUM_CHAINS, np.random.default_rng(SEED))
    run = sivi.samplers.nuts(target, key=SEED, num_chains=NUM_CHAINS, init=starts, progress=False, **settings)
    return run, settings


def make(entry: Entry, times: float) -> dict[str, Any]:
    """Runs the chains, stores them, and says what they are worth."""
    start = time.perf_counter()
    run, settings = chains(entry, times)
    judged = entry.quantities(run.flat()).reshape(*run.draws.shape[:2], -1)
    both = [judged] if entry.judged is None else [judged, run.draws]
    rhat, ess = split_rhat(judged), effective_sample_size(judged)
    every = max(1, judged.shape[1] * NUM_CHAINS // STORED)
    flat = judged.reshape(-1, judged.shape[2])
    arrays = {"draws": judged[:, every - 1 :: every].reshape(-1, judged.shape[2]), "mean": flat.mean(0)}
    arrays["sd"] = flat.std(0, ddof=1)
    if entry.judged is not None:
        step = run.draws.shape[1] * NUM_CHAINS // STORED_FREE
        arrays["free"] = run.draws[:, step - 1 :: step].reshape(-1, run.draws.shape[2])
    stored = {name: a.astype(np.float32 if name in ("draws", "free") else float) for name, a in arrays.items()}
    np.savez_compressed(FOLDER / f"{entry.name}.npz", **stored)
    return {
        "seed": SEED,
        "num_chains": NUM_CHAINS,
        **settings,
        "rhat_max": float(rhat.max()),
        "rhat_max_free": float(max(split_rhat(part).max() for part in both)),
        "ess_min": float(ess.min()),
        "ess_scale_min": float(scale_sample_size(judged).min()),
        "mcse_max_in_sd": float(1.0 / np.sqrt(ess.min())),
        "divergences": run.divergences,
        "cut_short": run.max_depth_hits,
        "seconds": round(time.perf_counter() - start, 1),
    }


def write(rows: dict[str, Any]) -> None:
    content = {
        "script": "benchmarks/battery/references.py",
        "machine": "2 cores of a shared cloud CPU",
        "versions": {"python": platform.python_version()}
        | {name: package_version(name) for name in ("jax", "blackjax", "numpy", "sivi")},
        "dtype": "float64",
        "rhat_wanted": RHAT,
        "exceptions": {name: row["rhat_max"] for name, row in rows.items() if not row["rhat_max"] <= RHAT},
        "posteriors": dict(sorted(rows.items())),
    }
    SUMMARY.write_text(json.dumps(content, indent=1) + "\n")


def make_all(names: list[str], times: float) -> None:
    """One posterior after the other; what is done is written at once."""
    jax.config.update("jax_enable_x64", True)
    FOLDER.mkdir(exist_ok=True)
    for name in names or [name for name, entry in POSTERIORS.items() if entry.exact is None]:
        row = make(POSTERIORS[name], times)
        rows = json.loads(SUMMARY.read_text())["posteriors"] if SUMMARY.exists() else {}
        write(rows | {name: row})
        print(f"{name:18s} R-hat {row['rhat_max']:.4f}  ESS {row['ess_min']:,.0f}  {row['seconds']} s", flush=True)
