"""HMC and NUTS against exact draws on four targets that have them.

    python benchmarks/reference_samplers.py [--draws 10000] [--pairs 50] [--seed 0] [--out FILE]

Each run is thinned until its effective sample size is at least 0.9 of the draws left in every coordinate; 10,000 of
them, spread over all chains, are compared with 10,000 exact draws by the sliced Wasserstein distance (order 1, 100
fixed slices, coordinates divided by the interquartile range of the exact draws). The bar is the 99th percentile of
the same distance between 50 pairs of exact sets. Exact draws pass it about 98 times in 100.
"""

import argparse
import time
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import jax
import numpy as np

from _common import RESULTS, environment, write
from sivi.metrics import noise_floor, sliced_wasserstein
from sivi.samplers import SamplerRun, hmc, nuts
from sivi.targets import Banana, ExactTarget, GaussianMixture, Multimodal, XShaped

SHARE = 0.9
#: Thinning aims higher: the effective sample size of the last draws alone is a noisier number than that of all.
MARGIN = 0.05
DISTANCE = {"order": 1.0, "num_slices": 100, "scale": "iqr"}
CHAINS = {"num_chains": 20, "num_samples": 15_000, "num_warmup": 1000}
MAX_RHAT = 1.01


def correlated_gaussian(dim: int = 20) -> GaussianMixture:
    """Random directions, standard deviations from 0.3 to 3, a mean off the origin."""
    rng = np.random.default_rng(20)
    basis = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    return GaussianMixture([rng.normal(size=dim)], [basis @ np.diag(np.geomspace(0.1, 10.0, dim)) @ basis.T])


TARGETS = {
    "banana": Banana,
    "multimodal": Multimodal,
    "x-shaped": XShaped,
    "gaussian-20": correlated_gaussian,
}
SAMPLERS = {"hmc": hmc, "nuts": nuts}
#: The banana's tails bend so sharply that the usual step sizes diverge there.
OWN_SETTINGS = {
    ("banana", "hmc"): {"target_acceptance": 0.99, "num_leapfrog": 100},
    ("banana", "nuts"): {"target_acceptance": 0.99},
}


def exact_draws(target: ExactTarget, num: int, seed: int) -> np.ndarray:
    return np.asarray(jax.vmap(target.sample)(jax.random.split(jax.random.key(seed), num)))


def last_draws(run: SamplerRun, num_samples: int) -> SamplerRun:
    """The last `num_samples` of a run, spread over all its chains."""
    left = num_samples // run.draws.shape[0]
    if run.draws.shape[1] < left:
        raise RuntimeError(f"{run.draws.shape[1]} of {left} draws per chain are left: run longer chains.")
    return replace(run, draws=run.draws[:, -left:], diverging=run.diverging[:, -left:])


def one_row(name: str, sampler: str, bar: float, num_samples: int, seed: int) -> dict[str, object]:
    target, settings = TARGETS[name](), CHAINS | OWN_SETTINGS.get((name, sampler), {})
    start = time.perf_counter()
    run = SAMPLERS[sampler](target, key=seed, **settings)
    seconds = time.perf_counter() - start
    # A little more than asked for, since part of the thinned draws is kept and measured anew.
    thinned = run.thinned(SHARE + MARGIN)
    kept = last_draws(thinned, num_samples)
    distance = sliced_wasserstein(exact_draws(target, num_samples, 1000 + seed), kept.flat(), **DISTANCE)
    return {
        "target": name,
        "sampler": sampler,
        "distance": distance,
        "percentile_99": bar,
        "rhat": float(run.rhat.max()),
        "min_ess": float(kept.ess.min()),
        "min_ess_of_the_whole_run": float(run.ess.min()),
        "divergences": run.divergences,
        "acceptance": float(run.acceptance.mean()),
        "step_size": float(np.mean(run.step_size)),
        "thinned_by": round(settings["num_samples"] / thinned.draws.shape[1]),
        "seconds": seconds,
        "passed": bool(
            distance < bar
            and kept.ess.min() >= SHARE * num_samples
            and (sampler == "hmc" or run.rhat.max() <= MAX_RHAT)
        ),
        "settings": settings,
        "seed": seed,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--pairs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS / "reference_samplers.json")
    args = parser.parse_args()

    print("target       sampler  distance  99th pct    R-hat  min ESS  divergences  seconds")
    rows, floors = [], {}
    for name, target in TARGETS.items():
        floor = noise_floor(
            sliced_wasserstein, target(), num_samples=args.draws, repeats=args.pairs, key=2000 + args.seed, **DISTANCE
        )
        floors[name] = {"mean": float(floor.mean()), "sd": float(floor.std(ddof=1)), "max": float(floor.max())}
        for sampler in SAMPLERS:
            row = one_row(name, sampler, float(np.quantile(floor, 0.99)), args.draws, args.seed)
            rows.append(row)
            print(
                f"{name:12s} {sampler:7s} {row['distance']:9.5f} {row['percentile_99']:9.5f} {row['rhat']:8.4f} "
                f"{row['min_ess']:8.0f} {row['divergences']:12d} {row['seconds']:8.1f}"
                f"{'' if row['passed'] else '   NOT MET'}",
                flush=True,
            )
    content = environment()
    content["versions"] |= {"blackjax": version("blackjax")}
    settings = {"num_samples": args.draws, "pairs": args.pairs, "seed": args.seed, "share": SHARE, **DISTANCE}
    write(
        args.out,
        {
            "script": "benchmarks/reference_samplers.py",
            "settings": settings,
            **content,
            "exact_vs_exact": floors,
            "rows": rows,
        },
    )


if __name__ == "__main__":
    main()
