"""Logistic regression with many data: the default call in minibatches beside NUTS, both against Newton and Laplace.

    python benchmarks/many_data.py [--keys 0] [--methods sivi nuts] [--transitions 1000] [--timeout 7200] [--quick]
        [--output FILE]

200,000 rows and 50 unknowns, generated with a seed. Every run is a process of its own, without compiled programs of
earlier ones; the methods take turns. Seconds run from the call to 4,000 draws on the host, compiling included, import
and data excluded. The reference is the Gaussian at the posterior's mode with the inverse of its Hessian, by Newton's
method in float64. How far the posterior is from it is in the file: the largest skewness of a marginal and the largest
distance of a mean from the mode, in standard deviations, to the order that third derivatives give.

NUTS runs four chains with `--transitions` of warm-up and as many draws each. With fewer than 1,000, or stopped by
`--timeout`, its seconds are less than those of a full run, and the ratio of seconds is an upper bound, which the file
says; `seconds_in_proportion` are then those of 1,000, compiling multiplied too.
"""

import argparse
import json
import subprocess
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
    """An intercept and 49 inputs, neighbours of which correlate by a half."""
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
    slopes, weights = inputs @ covariance, p * (1.0 - p) * (1.0 - 2.0 * p)
    third = -(slopes**3).T @ weights
    shift = -0.5 * slopes.T @ (weights * (slopes * inputs).sum(1))
    sd = np.sqrt(np.diag(covariance))
    off = {"skewness": float(np.abs(third / sd**3).max()), "mean_in_sd": float(np.abs(shift / sd).max())}
    return {"mean": x, "sd": sd, "off": off}


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
            "reference_off": reference["off"],
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
        run = sivi.samplers.nuts(target, key=job["key"], num_warmup=num, num_samples=num, progress=False)
        draws = run.flat()
        facts = clock.read() | {"divergences": run.divergences, "gradients": run.num_gradients}
        facts |= {"rhat_max": float(np.max(run.rhat)), "ess_min": float(np.min(run.ess))}
    if num < FULL:
        facts["seconds_in_proportion"] = facts["seconds"] * FULL / num
    return facts, np.asarray(draws, float)


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over keys, and the fit's seconds over those of the faster NUTS."""
    found: dict[str, Any] = {}
    for method in METHODS:
        own = [row for row in rows if row["method"] == method and "failed" not in row]
        names = [name for name in ("seconds", "cpu_seconds", "seconds_in_proportion") if own and name in own[0]]
        if own:
            found[method] = {name: float(np.median([row[name] for row in own])) for name in names}
            found[method]["mean_error"] = max(row["mean_error"] for row in own)
            found[method]["sd_ratios"] = [min(r["sd_ratio_min"] for r in own), max(r["sd_ratio_max"] for r in own)]
    stopped = {row["method"]: {"seconds": row["stopped_after"]} for row in rows if "stopped_after" in row}
    samplers = {m: numbers["seconds"] for m, numbers in (stopped | found).items() if m != "sivi"}
    if "sivi" in found and samplers:
        faster = min(samplers, key=lambda method: samplers[method])
        found["faster_nuts"] = faster
        found["seconds_over_nuts"] = found["sivi"]["seconds"] / samplers[faster]
        found["is_an_upper_bound"] = faster not in found or "seconds_in_proportion" in found[faster]
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
        except subprocess.TimeoutExpired:
            rows.append(job | {"failed": f"stopped after {args.timeout:.0f} s", "stopped_after": args.timeout})
        except RuntimeError as error:
            rows.append(job | {"failed": str(error)})
        print(json.dumps(rows[-1]), flush=True)
        write(args.output, content | {"summary": summary(rows), "rows": rows})
    print(json.dumps(summary(rows), indent=1))


if __name__ == "__main__":
    main()
