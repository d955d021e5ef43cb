"""Points side by side or in blocks that fit a CPU's caches, and two scores that have become cheaper.

    python benchmarks/cache_blocks.py [--rounds 7] [--output FILE]

Each row times two programs in turns, and gives the median of each in milliseconds and the ratio of the medians:

`network`: scores of many points by `sivi.targets.evaluate.scores_at`, with all points side by side, as far as 64 MB an
array allow, and in blocks of four megabytes an array, as on a CPU. `logistic`: the same for a regression, which keeps
all points side by side; there "now" is what blocks would be. Rows of data are made up.

`last layer`: scores of a network in the coordinates of its last layer, eight at once, by the derivative of the map
(`Whitened`) and in closed form (`KnownLastLayer`).

`sivi`: the gradient of the log mixture density of SIVI, with 10 particles and 100 auxiliary draws of a family of 751
unknowns, when all pairs of a point and a component are taken one by one, and by products of matrices.
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
from sivi import DiagonalGaussian, NormalMixing, SemiImplicit
from sivi.families.base import ConditionalDistribution
from sivi.families.diagonal_gaussian import GaussianAt
from sivi.objectives.log_mixture import log_mixture
from sivi.targets import BayesianNeuralNetwork, LogisticRegression, Target, Whitened, evaluate

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


def of_last_layer() -> dict[str, Callable[[], Any]]:
    model = network(456, 13)
    points = 0.3 * jax.random.normal(jax.random.key(SEED), (8, model.dim))
    coordinates, known = model.conditional_coordinates, model.in_conditional_coordinates
    assert coordinates is not None
    assert known is not None
    score = eqx.filter_jit(lambda target, points: jax.vmap(target.score)(points))
    before = Whitened(model, coordinates)
    return {"before": lambda: score(before, points), "now": lambda: score(known, points)}


def of_sivi() -> dict[str, Callable[[], Any]]:
    key = jax.random.key(SEED)
    family = SemiImplicit(NormalMixing(3), DiagonalGaussian(3, 751, hidden=(10, 10), sigma_init=0.02, key=key))
    x = jax.vmap(family.sample)(jax.random.split(key, 10))
    arrays, static = eqx.partition(family, eqx.is_inexact_array)

    def total(arrays: Any, x: jax.Array) -> jax.Array:
        family = eqx.combine(arrays, static)
        return jnp.sum(log_mixture((family, x, jnp.zeros(len(x))), key, 100, 100))

    def program() -> Callable[[], Any]:
        compiled = jax.jit(jax.grad(total)).lower(arrays, x).compile()
        return lambda: compiled(arrays, x)

    by_products = GaussianAt.log_prob_pairs
    GaussianAt.log_prob_pairs = ConditionalDistribution.log_prob_pairs  # type: ignore[method-assign]
    before = program()
    GaussianAt.log_prob_pairs = by_products  # type: ignore[method-assign]
    return {"before": before, "now": program()}


def logistic(rows: int, features: int) -> LogisticRegression:
    rng = np.random.default_rng(SEED)
    return LogisticRegression(rng.normal(size=(rows, features)), rng.integers(0, 2, rows))


CASES: dict[str, Callable[[], dict[str, Callable[[], Any]]]] = {
    "network, 927 rows, 512 points": lambda: of_points(network(927, 8), 512),
    "network, 1,000 rows, 100 points": lambda: of_points(network(1000, 9), 100),
    "logistic, 10,000 rows, 256 points": lambda: of_points(logistic(10_000, 50), 256),
    "logistic, 100,000 rows, 256 points": lambda: of_points(logistic(100_000, 50), 256),
    "last layer, 456 rows, 8 points": of_last_layer,
    "sivi, 751 unknowns": of_sivi,
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
