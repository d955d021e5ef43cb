"""Reference posteriors of multinomial regression on MNIST and HAPT by Hamiltonian Monte Carlo.

    SIVI_DATA_DIR=... python benchmarks/mlr_reference.py [--problems mnist,hapt] [--quick] [--out FOLDER]

The chains run in the coordinates of the Gaussian warm-up of `sivi.fit`, x = m + L u, with L a rotation along the two
axes of the coefficients, a diagonal and directions of their own: in u the posterior is close to N(0, I), which takes
the place of a mass matrix. All products are in full float32. The chains start at draws of the warm-up Gaussian made
twice as wide. R-hat is of 200 random coordinates of x and of the predictive probability of the label of 200 test rows;
the moments are of all coordinates and all draws. `results/mlr_reference_<problem>.npz` has the moments,
`results/mlr_reference.json` the rest; problems that are not run keep their row.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from _common import RESULTS, environment, write
from sivi import defaults
from sivi.experiments._multinomial import PROBLEMS, load_model
from sivi.metrics import classification_scores
from sivi.samplers import effective_sample_size, hmc, split_rhat
from sivi.targets import MultinomialRegression, Whitened

SEED, WATCHED = 0, 200
FULL = {
    "hapt": {"num_chains": 16, "num_samples": 750, "num_warmup": 300, "num_leapfrog": 32},
    "mnist": {"num_chains": 8, "num_samples": 250, "num_warmup": 150, "num_leapfrog": 16},
}
QUICK = {"num_chains": 2, "num_samples": 20, "num_warmup": 20, "num_leapfrog": 4}


def run_problem(name: str, quick: bool, seed: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    model, held_out = load_model(name, "quick" if quick else "full")
    recipe = defaults.recipe(model.dim, model.num_data)
    settings = QUICK if quick else FULL[name]
    start = time.perf_counter()
    warm_up = jax.jit(lambda key: recipe.warm_up(key, model, recipe.batch_size))
    affine = jax.block_until_ready(warm_up(jax.random.key(seed)))
    warmed = time.perf_counter()
    init = 2.0 * np.random.default_rng(seed).normal(size=(settings["num_chains"], model.dim))
    run = hmc(Whitened(model, affine), key=seed, init=init, chunk_size=50, progress=False, **settings)
    done = time.perf_counter()
    print(f"{name}: warm-up {warmed - start:.0f} s, chains {done - warmed:.0f} s", flush=True)
    to_x = jax.jit(jax.vmap(affine.forward))
    chains = [np.asarray(to_x(jnp.asarray(chain))) for chain in run.draws]
    stacked = np.stack(chains)
    watched = np.random.default_rng(seed).choice(model.dim, WATCHED, replace=False)
    coordinates = stacked[:, :, watched].astype(float)
    predictions = label_probabilities(model, stacked, held_out)
    flat = stacked.reshape(-1, model.dim)
    moments = {"mean": flat.mean(0, dtype=float), "sd": flat.std(0, dtype=float)}
    thinned = flat[:: max(1, len(flat) // 8000)]
    scores = classification_scores(model, thinned, held_out)
    warm = np.sqrt(np.asarray(affine.covariance_diagonal, float)) / moments["sd"]
    row = {
        "problem": name,
        "settings": settings,
        "step_size": run.step_size,
        "acceptance": float(run.acceptance.mean()),
        "divergences": int(run.diverging.sum()),
        "rhat_coordinates": float(split_rhat(coordinates).max()),
        "rhat_predictions": float(split_rhat(predictions).max()),
        "ess_coordinates": float(effective_sample_size(coordinates).min()),
        "per_point": scores.per_point,
        "joint": scores.joint,
        "accuracy": scores.accuracy,
        "calibration_error": scores.calibration_error,
        "scored_draws": len(thinned),
        "warm_up_sd_ratio": np.quantile(warm, [0.05, 0.5, 0.95]).tolist(),
        "seconds_of_warm_up": warmed - start,
        "seconds_of_chains": done - warmed,
    }
    return row, {key: value.astype(np.float32) for key, value in moments.items()}


def label_probabilities(model: MultinomialRegression, chains: np.ndarray, held_out: Any) -> np.ndarray:
    """(chains, draws, rows): of the label of the first test rows, draw by draw."""
    inputs, labels = (jnp.asarray(part[:WATCHED]) for part in held_out)

    @jax.jit
    def probabilities(x: jax.Array) -> jax.Array:
        return jax.vmap(lambda own: jnp.exp(model.log_likelihoods(own, (inputs, labels.astype(jnp.int32)))))(x)

    return np.stack([np.asarray(probabilities(jnp.asarray(chain)), float) for chain in chains])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--quick", action="store_true", help="few rows, chains and draws")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    file = args.out / "mlr_reference.json"
    rows = {row["problem"]: row for row in json.loads(file.read_text())["rows"]} if file.exists() else {}
    for name in args.problems.split(","):
        with jax.default_matmul_precision("highest"):  # the acceptance is of small differences of large numbers
            row, moments = run_problem(name, args.quick, args.seed)
        rows[name] = {**row, "seed": args.seed, "environment": environment()}
        print(json.dumps(row), flush=True)
        np.savez_compressed(args.out / f"mlr_reference_{name}.npz", **moments)
        write(file, {"rows": list(rows.values())})


if __name__ == "__main__":
    main()
