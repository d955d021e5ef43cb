"""Points side by side or in blocks that fit a CPU's caches, and a score that has become cheaper.

    python benchmarks/cache_blocks.py [--rounds 7] [--output FILE]

Each row times two programs in turns, and gives the median of each in milliseconds and the ratio of the medians:

`network`: scores of many points by `sivi.targets.evaluate.scores_at`, with all points side by side, as far as 64 MB an
array allow, and in blocks of four megabytes an array, as on a CPU. `logistic`: the same for a regression, which keeps
all points side by side; there "now" is what blocks would be. Rows of data are made up.

`last layer`: sixty steps of the mean-field Gaussian of a network's warm-up, in the coordinates of its last layer, with
the score by the derivative of the map (`Whitened`) and in closed form (`KnownLastLayer`).
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from _common import RESULTS, environment, write
from _others import Others
from sivi.targets import BayesianNeuralNetwork, LogisticRegression, Target, Whitened, evaluate
from sivi.warmup.mean_field import fit_mean_field

SEED = 0
IN_CACHE = 2**20


def scores(target: Target, points: jax.Array, numbers: int | None) -> Callable[[], Any]:
    """Compiled with so many numbers side by side."""
    kept, evaluate.most_at_once = evaluate.most_at_once, lambda target: numbers
    program = jax.jit(lambda target, points: evaluate.scores_at(target, points)).lower(target, points).compile()
    evaluate.most_at_once = kept
    return lambda: program(target, points)


def network(rows: int, features: int, **settings: Any) -> BayesianNeuralNetwork:
    rng = np.random.default_rng(SEED)
    x = rng.normal(size=(rows, features))
    given = {"noise_precision": 20.0, "weight_precision": (6.0, 2.5)}
    return BayesianNeuralNetwork(x, np.sin(x[:, 0]) + 0.2 * rng.normal(size=rows), (50,), **given | settings)


def of_points(target: Target, count: int) -> dict[str, Callable[[], Any]]:
    points = 0.3 * jax.random.normal(jax.random.key(SEED), (count, target.dim))
    return {"before": scores(target, points, None), "now": scores(target, points, IN_CACHE)}


def of_last_layer(rows: int, features: int) -> dict[str, Callable[[], Any]]:
    model, key = network(rows, features), jax.random.key(SEED)
    coordinates, known = model.conditional_coordinates, model.in_conditional_coordinates
    assert coordinates is not None
    assert known is not None
    scale = jnp.full(model.dim, 0.05)
    steps = eqx.filter_jit(lambda target, start: fit_mean_field(key, target, start, scale, 60).mean)
    before, start = Whitened(model, coordinates), model.random_start(key)
    return {"before": lambda: steps(before, start), "now": lambda: steps(known, start)}


def logistic(rows: int, features: int) -> LogisticRegression:
    rng = np.random.default_rng(SEED)
    return LogisticRegression(rng.normal(size=(rows, features)), rng.integers(0, 2, rows))


CASES: dict[str, Callable[[], dict[str, Callable[[], Any]]]] = {
    "network, 927 rows, 512 points": lambda: of_points(network(927, 8), 512),
    "network, 1,000 rows, 100 points": lambda: of_points(network(1000, 9), 100),
    "logistic, 10,000 rows, 256 points": lambda: of_points(logistic(10_000, 50), 256),
    "logistic, 100,000 rows, 256 points": lambda: of_points(logistic(100_000, 50), 256),
    "last layer, 456 rows of 13 features": lambda: of_last_layer(456, 13),
    "last layer, 928 rows of 8 features": lambda: of_last_layer(928, 8),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--output", type=Path, default=RESULTS / "cache_blocks.json")
    args = parser.parse_args()
    rows = []
    for name, made in CASES.items():
        calls, times, others = made(), {"before": [], "now": []}, Others()
        for _ in range(args.rounds + 1):  # the first is not counted
            for which, call in calls.items():
                begin = time.perf_counter()
                jax.block_until_ready(call())
                times[which].append(1e3 * (time.perf_counter() - begin))
        before, now = (float(np.median(times[which][1:])) for which in ("before", "now"))
        row = {"case": name, "ms_before": round(before, 3), "ms_now": round(now, 3), "ratio": round(before / now, 2)}
        rows.append(row | {"other_cores_in_use": round(others.cores(), 2)})
        print(rows[-1], flush=True)
    write(args.output, {"script": "benchmarks/cache_blocks.py", "seed": SEED, **environment(), "rows": rows})


if __name__ == "__main__":
    main()
