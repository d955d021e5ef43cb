"""The two modes of `sivi demo`: `sivi.infer`, `sivi.fit` and NUTS beside the exact answer.

    python benchmarks/kinetics.py [--keys 0 1 2 3 4] [--methods infer fit nuts] [--resume] [--quick] [--note TEXT]
        [--output FILE]

The model is that of `sivi/cli/_kinetics.py`, four unknowns and twelve concentrations; the truth is the quadrature of
`sivi/cli/_kinetics_exact.py`. Every run is a process of its own, without compiled programs of earlier ones; the methods
take turns. Seconds run from the call to 4,000 draws on the host, compiling included, imports excluded. NUTS is that of
BlackJAX: four chains of 1,000 draws after 1,000 of warm-up, from N(0, 4I) on the log scale.

A run is right if its probability of slow absorption, ka < ke, is within 0.05 of the exact one, the limit of
`sivi.check`. The distances are the largest differences of distribution functions from the exact ones; draws of the fit
and of NUTS are 4,000, and those of refined draws are picked from fewer chains.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np

import sivi
from _clock import Clock
from _common import RESULTS, environment, write
from _others import Others
from _processes import cold, run_json
from sivi._version import package_version
from sivi.cli import _kinetics as kinetics
from sivi.cli._demo_kinetics import NUM_CHAINS, NUM_DRAWS, NUM_TRANSITIONS, chain_draws
from sivi.cli._kinetics_exact import Exact, exact
from sivi.verdict import limits

QUICK_STEPS, QUICK_TRANSITIONS, QUICK_EFFORT = 200, 100, 0.1
METHODS = ("infer", "fit", "nuts")
FINE = (1201, 121)  # points of the grid


def run_job(job: dict[str, Any]) -> dict[str, Any]:
    """One method, once."""
    others = Others()
    facts, draws = {"infer": infer, "fit": fit, "nuts": nuts}[job["method"]](job)
    facts["other_cores_in_use"] = round(others.cores(), 2)
    return job | {name: _rounded(value) for name, value in (facts | errors(draws, exact(*FINE))).items()}


def infer(job: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    settings = {"num_steps": QUICK_STEPS, "effort": QUICK_EFFORT} if job["quick"] else {}
    clock = Clock()
    inference = sivi.infer(kinetics.log_density, like=kinetics.unknowns(), key=job["key"], progress=False, **settings)
    draws = jax.device_get(inference.sample(NUM_DRAWS, job["key"]))
    facts: dict[str, Any] = clock.read()
    steps = {step.name: {"seconds": round(step.cost.seconds, 2), "said": step.said} for step in inference.steps}
    return facts | {"path": inference.path, "level": inference.level, "steps": steps}, draws


def fit(job: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    settings = {"num_steps": QUICK_STEPS} if job["quick"] else {}
    clock = Clock()
    posterior = sivi.fit(kinetics.log_density, like=kinetics.unknowns(), key=job["key"], progress=False, **settings)
    draws = jax.device_get(posterior.sample(NUM_DRAWS, job["key"]))
    facts: dict[str, Any] = clock.read()
    return facts | {"updates": posterior.step, "warnings": [str(remark) for remark in posterior.warnings]}, draws


def nuts(job: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    import blackjax  # noqa: F401  # which NUTS would do within its seconds

    num = QUICK_TRANSITIONS if job["quick"] else NUM_TRANSITIONS
    lengths = {"num_chains": NUM_CHAINS, "num_samples": num, "num_warmup": num, "progress": False}
    clock = Clock()
    run = sivi.samplers.nuts(kinetics.log_density, like=kinetics.unknowns(), key=job["key"], **lengths)
    draws = chain_draws(run)
    facts: dict[str, Any] = clock.read()
    shares = [kinetics.slow_share({name: value[i] for name, value in draws.items()}) for i in range(NUM_CHAINS)]
    facts |= {"rhat_max": float(np.max(run.rhat)), "divergences": run.divergences, "share_by_chain": shares}
    return facts, {name: value.ravel() for name, value in draws.items()}


def errors(draws: Any, truth: Exact) -> dict[str, Any]:
    """The share of slow absorption and how far it is off, and distances of the marginals of both rates."""
    share = kinetics.slow_share(draws)
    mass = truth.density * (truth.log_rates[1] - truth.log_rates[0]) ** 2
    found: dict[str, Any] = {"slow_share": share, "error": share - truth.slow_share}
    for axis, (name, values) in enumerate(zip(("ka", "ke"), kinetics.rates(draws), strict=True)):
        below = np.cumsum(mass.sum(1 - axis)) - 0.5 * mass.sum(1 - axis)  # at the points: half of a point's own mass
        distribution = np.interp(np.sort(np.log(values)), truth.log_rates, below)
        steps = np.arange(len(values) + 1) / len(values)
        found[f"ks_{name}"] = max(np.max(steps[1:] - distribution), np.max(distribution - steps[:-1]))
    return found


def summary(rows: list[dict[str, Any]], most: float) -> dict[str, Any]:
    """How many keys of each method are right, the largest error, and medians of seconds."""
    found: dict[str, Any] = {}
    for method in METHODS:
        own = [row for row in rows if row["method"] == method and "failed" not in row]
        if own:
            found[method] = {
                "right": f"{sum(abs(row['error']) <= most for row in own)} of {len(own)}",
                "shares": [row["slow_share"] for row in own],
                "largest_error": max(abs(row["error"]) for row in own),
                "seconds": float(np.median([row["seconds"] for row in own])),
                "cpu_seconds": float(np.median([row["cpu_seconds"] for row in own])),
            }
    return found


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return round(float(value), 4) if isinstance(value, (float, np.floating)) else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--quick", action="store_true", help="few updates and transitions: does everything run?")
    parser.add_argument("--resume", action="store_true", help="keep the runs in the file, and add what is missing")
    parser.add_argument("--note", help="what else to say of the machine")
    parser.add_argument("--output", type=Path, default=RESULTS / "kinetics.json")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print("\n" + json.dumps(run_job(json.loads(args.child))))
        return
    most = limits.LIMITS["mode weight"].doubtful
    content = {"script": "benchmarks/kinetics.py", "keys": args.keys, "quick": args.quick, "note": args.note}
    content |= {"data_seed": 0, "exact": exact(*FINE).slow_share, "most_error": most, **environment()}
    content["versions"] |= {"blackjax": package_version("blackjax")}
    rows: list[dict[str, Any]] = []
    if args.resume and args.output.exists():
        rows = [row for row in json.loads(args.output.read_text())["rows"] if "failed" not in row]
    done = {(row["method"], row["key"], row["quick"]) for row in rows}
    for job in [{"method": method, "key": key, "quick": args.quick} for key in args.keys for method in args.methods]:
        if tuple(job.values()) in done:
            continue
        try:
            rows.append(run_json(__file__, ["--child", json.dumps(job)], cold()))
        except RuntimeError as error:
            rows.append(job | {"failed": str(error)})
        print(json.dumps(rows[-1]), flush=True)
        rows.sort(key=lambda row: (row["key"], METHODS.index(row["method"])))
        write(args.output, content | {"summary": summary(rows, most), "rows": rows})
    print(json.dumps(summary(rows, most), indent=1))


if __name__ == "__main__":
    main()
