"""An update of a model with named, constrained unknowns and minibatches, beside that of the same flat model.

    python benchmarks/named_models.py [--rounds 9] [--quick] [--output FILE]

A regression with 20 slopes and an unknown noise, 20,000 rows in batches of 1,000, by the default objective of that
size; three ways: `sivi.model`, a `StructuredModel`, and a flat `BayesianModel` with the logarithm and its Jacobian by
hand. The fits take turns in one process, and the ratio of the medians is what counts.
"""

import argparse
import statistics
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

import sivi
from _common import environment, write
from sivi.targets import BayesianModel, StructuredModel

ROWS, SLOPES, BATCH, CHUNK, SEED = 20_000, 20, 1_000, 100, 0


def log_prior(p):
    return jnp.sum(norm.logpdf(p["slopes"], 0.0, 2.0)) - p["sigma"]


def log_likelihood(p, datum):
    return norm.logpdf(datum["y"], datum["x"] @ p["slopes"], p["sigma"])


class Structured(StructuredModel):
    data: dict

    @property
    def like(self):
        return {"sigma": sivi.positive(), "slopes": jnp.zeros(SLOPES)}

    def log_prior(self, x):
        return log_prior(x)

    def log_likelihood(self, x, datum):
        return log_likelihood(x, datum)


class Flat(BayesianModel):
    data: dict
    dim: int = SLOPES + 1

    def log_prior(self, x):
        return log_prior({"sigma": jnp.exp(x[0]), "slopes": x[1:]}) + x[0]

    def log_likelihood(self, x, datum):
        return log_likelihood({"sigma": jnp.exp(x[0]), "slopes": x[1:]}, datum)


def models():
    rng = np.random.default_rng(SEED)
    x = rng.normal(size=(ROWS, SLOPES)).astype(np.float32)
    y = (x @ rng.normal(size=SLOPES) + 0.5 * rng.normal(size=ROWS)).astype(np.float32)
    data = {"x": jnp.asarray(x), "y": jnp.asarray(y)}
    like = {"sigma": sivi.positive(), "slopes": jnp.zeros(SLOPES)}
    return {
        "flat": Flat(data),
        "structured": Structured(data),
        "sivi.model": sivi.model(log_prior, log_likelihood, data=data, like=like),
    }


def ms_per_update(target, whiten, chunks):
    marks = []
    sivi.fit(
        target,
        key=SEED,
        batch_size=BATCH,
        whiten=whiten,
        stop=None,
        num_steps=CHUNK * chunks,
        chunk_size=CHUNK,
        progress=False,
        callbacks=[lambda report: marks.append(time.perf_counter())],
    )
    return 1e3 * statistics.median(b - a for a, b in zip(marks[1:], marks[2:], strict=False)) / CHUNK


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "named_models.json")
    args = parser.parse_args()
    rounds, chunks = (1, 3) if args.quick else (args.rounds, 8)
    targets = models()
    whiten = sivi.fit(targets["flat"], key=SEED, batch_size=BATCH, num_steps=1, progress=False).affine
    found = {name: [] for name in targets}
    for i in range(rounds + 1):  # the first round compiles
        for name, target in list(targets.items())[:: 1 if i % 2 else -1]:
            ms = ms_per_update(target, whiten, chunks)
            if i:
                found[name].append(ms)
    medians = {name: statistics.median(values) for name, values in found.items()}
    ratios = {name: value / medians["flat"] for name, value in medians.items()}
    print(medians, ratios)
    about = {"script": "benchmarks/named_models.py", "seed": SEED, "quick": args.quick, "environment": environment()}
    write(args.output, about | {"bar": 1.05, "ms": found, "median_ms": medians, "ratio_to_flat": ratios})


if __name__ == "__main__":
    main()
