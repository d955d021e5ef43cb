"""KL(target ‖ q) of SIVI-SM with the paper's settings on its three toy targets.

    python benchmarks/toy_kl.py [--steps 50000] [--seeds 5] [--workers 1] [--out FILE]

Each number is the k-NN estimate (k = 3) from 100,000 exact draws of the target and 100,000 of the fit. Beside them
stands the same estimate between two exact sample sets, its noise floor.
"""

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import jax
import numpy as np

import sivi
from _common import RESULTS, environment, paper_family, paper_objective, write
from sivi.metrics import knn_kl

NUM_DRAWS = 100_000
TARGETS = {
    "banana": sivi.targets.Banana,
    "multimodal": sivi.targets.Multimodal,
    "x-shaped": sivi.targets.XShaped,
}
ANNEALED = {"multimodal", "x-shaped"}  # as the paper's text says
PAPER = {"banana": (0.1936, 0.0169), "multimodal": (0.0005, 0.0007), "x-shaped": (0.0046, 0.0038)}
BARS = {"banana": 0.30, "multimodal": 0.01, "x-shaped": 0.01}


def exact(target: sivi.targets.ExactTarget, seed: int) -> np.ndarray:
    return np.asarray(jax.vmap(target.sample)(jax.random.split(jax.random.key(seed), NUM_DRAWS)))


def one_fit(job: tuple[str, int, int, tuple[int, ...]]) -> dict[str, object]:
    name, seed, steps, cores = job
    os.sched_setaffinity(0, cores)
    target = TARGETS[name]()
    start = time.perf_counter()
    posterior = sivi.fit(
        target,
        family=paper_family(1000 + seed),
        objective=paper_objective(annealed=name in ANNEALED),
        num_steps=steps,
        key=seed,
    )
    seconds = time.perf_counter() - start
    draws = np.asarray(posterior.sample(NUM_DRAWS, key=2000 + seed))
    kl = knn_kl(exact(target, 3000 + seed), draws, k=3)
    return {"target": name, "seed": seed, "kl": kl, "seconds": seconds, "skipped": posterior.skipped}


def noise_floor(name: str, pairs: int) -> list[float]:
    target = TARGETS[name]()
    return [knn_kl(exact(target, 4000 + 2 * i), exact(target, 4001 + 2 * i), k=3) for i in range(pairs)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS / "toy_kl.json")
    args = parser.parse_args()

    cores = sorted(os.sched_getaffinity(0))
    share = max(1, len(cores) // args.workers)
    slots = [tuple(cores[i * share : (i + 1) * share]) for i in range(args.workers)]
    pairs = [(name, seed) for seed in range(args.seeds) for name in TARGETS]
    jobs = [(name, seed, args.steps, slots[i % args.workers]) for i, (name, seed) in enumerate(pairs)]
    with ProcessPoolExecutor(args.workers, mp_context=get_context("spawn")) as pool:
        runs = list(pool.map(one_fit, jobs))
        floors = dict(zip(TARGETS, pool.map(noise_floor, TARGETS, [5] * len(TARGETS)), strict=True))

    table = {}
    for name in TARGETS:
        values = np.array([run["kl"] for run in runs if run["target"] == name])
        table[name] = {
            "mean": float(values.mean()),
            "sd": float(values.std(ddof=1)) if len(values) > 1 else None,
            "paper_mean": PAPER[name][0],
            "paper_sd": PAPER[name][1],
            "bar": BARS[name],
            "exact_vs_exact_mean": float(np.mean(floors[name])),
            "exact_vs_exact_sd": float(np.std(floors[name], ddof=1)),
        }
        print(f"{name:12s} KL {values.mean():.4f} (paper {PAPER[name][0]}, bar {BARS[name]})", values.round(4))
    settings = {
        "updates": args.steps,
        "seeds": args.seeds,
        "num_draws": NUM_DRAWS,
        "k": 3,
        "workers": args.workers,
        "annealed": sorted(ANNEALED),
    }
    write(
        args.out,
        {
            "script": "benchmarks/toy_kl.py",
            "settings": settings,
            **environment(),
            "table": table,
            "runs": runs,
        },
    )


if __name__ == "__main__":
    main()
