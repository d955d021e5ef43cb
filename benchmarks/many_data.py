"""Logistic regression with many data: the default call in minibatches beside NUTS, both against Newton and Laplace.

    python benchmarks/many_data.py [--keys 0] [--methods sivi nuts] [--transitions 1000] [--timeout 7200] [--quick]
        [--output FILE]

200,000 rows and 50 unknowns, generated with a seed. Every run is a process of its own, without compiled programs of
earlier ones; the methods take turns. Seconds run from the call to 4,000 draws on the host, compiling included, import
and data excluded. The reference is the Gaussian at the posterior's mode with the inverse of its Hessian, by Newton's
method in float64: with so many data the posterior is that Gaussian up to far less than the errors measured here, and
the file says how far, by the largest skewness of a marginal that the third derivatives give.

NUTS runs four chains with `--transitions` of warm-up and as many draws each. With fewer than 1,000 its seconds are
also given in proportion, as `seconds_extrapolated`; a full run is what counts.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import sivi
from _clock import Clock
from _common import RESULTS, environment, write
from _processes import cold, run_json
from sivi._version import package_version

SEED, NUM_DATA, DIM, PRIOR_SCALE = 0, 200_000, 50, 10.0
QUICK_DATA, QUICK_STEPS, QUICK_TRANSITIONS = 20_000, 200, 20
TIMED, MEASURED, FULL = 4000, 100_000, 1000
#: What is asked: seconds over those of NUTS, mean errors in sds, and how far sds are off.
BARS = {"seconds_over_nuts": 0.1, "mean_error": 0.05, "sd_ratio": 0.03}
METHODS = ("sivi", "nuts", "numpyro")


def data(num_data: int) -> tuple[np.ndarray, np.ndarray]:
    """An intercept and 49 inputs, neighbours of which correlate by a half; two thirds of the labels are hard to tell."""
    rng = np.random.default_rng(SEED)
    noise = rng.normal(size=(num_data, DIM - 1))
    inputs = noise.copy()
    for i in range(1, DIM - 1):
        inputs[:, i] = 0.5 * inputs[:, i - 1] + np.sqrt(0.75) * noise[:, i]
    inputs = np.column_stack([np.ones(num_data), inputs])
    coefficients = rng.normal(size=DIM) / np.sqrt(DIM)
    labels = rng.uniform(size=num_data) < 1.0 / (1.0 + np.exp(-inputs @ coefficients))
    return inputs, labels.astype(float)


def laplace(inputs: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """Mode, standard deviations and the largest skewness, in float64."""
    x = np.zeros(DIM)
    for _ in range(100):
        p = 1.0 / (1.0 + np.exp(-inputs @ x))
        hessian = (inputs.T * (p * (1.0 - p))) @ inputs + np.eye(DIM) / PRIOR_SCALE**2
        step = np.linalg.solve(hessian, inputs.T @ (labels - p) - x / PRIOR_SCALE**2)
        x = x + step
        if np.abs(step).max() < 1e-12:
            break
    else:
        raise RuntimeError("Newton's method has not converged")
    covariance = np.linalg.inv(hessian)
    # E[(x_i − m_i)³] ≈ Σ_abc C_ia C_ib C_ic T_abc, and T = −Σ_n p (1 − p)(1 − 2p) x_n x_n x_n.
    third = -((inputs @ covariance) ** 3).T @ (p * (1.0 - p) * (1.0 - 2.0 * p))
    sd = np.sqrt(np.diag(covariance))
    return {"mean": x, "sd": sd, "skewness_max": float(np.abs(third / sd**3).max())}


def run_job(job: dict[str, Any]) -> dict[str, Any]:
    """One method, once."""
    inputs, labels = data(job["num_data"])
    target = sivi.targets.LogisticRegression(inputs, labels, prior_scale=PRIOR_SCALE)
    facts, draws = (fit if job["method"] == "sivi" else sample)(target, job)
    reference = laplace(inputs, labels)
    ratios = draws.std(0, ddof=1) / reference["sd"]
    return (
        job
        | facts
        | {
            "mean_error": float((np.abs(draws.mean(0) - reference["mean"]) / reference["sd"]).max()),
            "sd_ratio_min": float(ratios.min()),
            "sd_ratio_max": float(ratios.max()),
            "draws_measured": len(draws),
            "skewness_of_reference": reference["skewness_max"],
        }
    )


def fit(target: sivi.targets.Target, job: dict[str, Any]) -> tuple[dict[str, Any], np.ndarray]:
    settings = {"num_steps": QUICK_STEPS} if job["quick"] else {}
    clock = Clock()
    posterior = sivi.fit(target, key=job["key"], progress=False, **settings)
    np.asarray(posterior.sample(TIMED, key=1000 + job["key"]))
    facts: dict[str, Any] = clock.read()
    draws = np.asarray(posterior.sample(TIMED if job["quick"] else MEASURED, key=2000 + job["key"]), float)
    return facts | {"updates": int(posterior.step), "warnings": list(posterior.warnings)}, draws


def sample(target: sivi.targets.Target, job: dict[str, Any]) -> tuple[dict[str, Any], np.ndarray]:
    num = job["transitions"]
    if job["method"] == "numpyro":
        from battery.numpyro_nuts import numpyro_nuts

        facts, draws = numpyro_nuts(target, {}, job["key"], num, num)
    else:
        import blackjax  # noqa: F401  # which NUTS would do within its seconds

        clock = Clock()
        run = sivi.samplers.nuts(target, key=job["key"], num_warmup=num, num_draws=num, progress=False)
        draws = run.flat()
        facts = clock.read() | {"divergences": run.divergences, "gradients": run.num_gradients}
        facts |= {"rhat_max": float(np.max(run.rhat)), "ess_min": float(np.min(run.ess))}
    if num < FULL:
        facts["seconds_extrapolated"] = facts["seconds"] * FULL / num
    return facts, np.asarray(draws, float)


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over keys, and the fit's seconds over those of the faster NUTS."""
    found: dict[str, Any] = {}
    for method in METHODS:
        own = [row for row in rows if row["method"] == method and "failed" not in row]
        names = [name for name in ("seconds", "cpu_seconds", "seconds_extrapolated") if own and name in own[0]]
        if own:
            found[method] = {name: float(np.median([row[name] for row in own])) for name in names}
            found[method]["mean_error"] = max(row["mean_error"] for row in own)
            found[method]["sd_ratios"] = [min(r["sd_ratio_min"] for r in own), max(r["sd_ratio_max"] for r in own)]
    samplers = {m: found[m].get("seconds_extrapolated", found[m]["seconds"]) for m in METHODS[1:] if m in found}
    if "sivi" in found and samplers:
        faster = min(samplers, key=lambda method: samplers[method])
        found["faster_nuts"], found["extrapolated"] = faster, "seconds_extrapolated" in found[faster]
        found["seconds_over_nuts"] = found["sivi"]["seconds"] / samplers[faster]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, nargs="+", default=[0])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["sivi", "nuts"])
    parser.add_argument("--transitions", type=int, default=FULL, help="of NUTS: warm-up, and draws, of each chain")
    parser.add_argument("--timeout", type=float, default=7200.0, help="seconds after which a process is stopped")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, few updates and transitions")
    parser.add_argument("--output", type=Path, default=RESULTS / "many_data.json")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print("\n" + json.dumps(run_job(json.loads(args.child))))
        return
    common = {"num_data": QUICK_DATA if args.quick else NUM_DATA, "quick": args.quick}
    common["transitions"] = QUICK_TRANSITIONS if args.quick else args.transitions
    content = {"script": "benchmarks/many_data.py", "seed": SEED, "dim": DIM, "bars": BARS, **common, **environment()}
    content["versions"] |= {name: package_version(name) for name in ("blackjax", "numpyro")}
    rows: list[dict[str, Any]] = []
    for job in [{"method": method, "key": key} | common for key in args.keys for method in args.methods]:
        try:
            rows.append(run_json(__file__, ["--child", json.dumps(job)], cold(), args.timeout))
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            rows.append(job | {"failed": str(error).split("]' ")[-1][:200]})
        print(json.dumps(rows[-1]), flush=True)
        write(args.output, content | {"summary": summary(rows), "rows": rows})
    print(json.dumps(summary(rows), indent=1))


if __name__ == "__main__":
    sys.exit(main())
