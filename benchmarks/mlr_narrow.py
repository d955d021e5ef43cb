"""What the two test log likelihoods say of a posterior that is too narrow, or too wide.

    SIVI_DATA_DIR=... python benchmarks/mlr_narrow.py [--problem hapt] [--quick] [--out FILE]

The draws are of the Gaussian warm-up of `sivi.fit`, which on HAPT has the standard deviations of HMC
(`results/mlr_reference_hapt.npz`). Their distance from its mean is then multiplied by several numbers, all else left as
it is.
"""

import argparse
from pathlib import Path

import jax
import numpy as np

from _common import RESULTS, environment, write
from sivi import defaults
from sivi.experiments._multinomial import PROBLEMS, load_model
from sivi.metrics import classification_scores

FACTORS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25)
SEED, DRAWS = 0, 4000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", choices=list(PROBLEMS), default="hapt")
    parser.add_argument("--quick", action="store_true", help="few rows and draws")
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    model, held_out = load_model(args.problem, "quick" if args.quick else "full")
    recipe = defaults.recipe(model.dim, model.num_data)
    affine = jax.jit(lambda key: recipe.warm_up(key, model, recipe.batch_size))(jax.random.key(SEED))
    noise = jax.random.normal(jax.random.key(SEED + 1), (200 if args.quick else DRAWS, model.dim))
    draws, mean = np.asarray(jax.jit(jax.vmap(affine.forward))(noise)), np.asarray(affine.mean)
    rows = []
    for factor in FACTORS:
        scores = classification_scores(model, mean + factor * (draws - mean), held_out)
        rows.append({"factor": factor, "per_point": scores.per_point, "joint": scores.joint})
        print(f"{factor:5.2f}   per point {scores.per_point:.4f}   joint {scores.joint:.4f}", flush=True)
    file = RESULTS / f"mlr_reference_{args.problem}.npz"
    ratio = None
    if file.exists() and not args.quick:
        ratio = np.quantile(draws.std(0, dtype=float) / np.load(file)["sd"], [0.05, 0.5, 0.95]).tolist()
    found = {"problem": args.problem, "seed": SEED, "draws": len(draws), "sd_ratio_to_hmc": ratio, "rows": rows}
    if args.out is not None:
        write(args.out, {**found, "environment": environment()})


if __name__ == "__main__":
    main()
