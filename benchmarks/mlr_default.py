"""The default call, `sivi.fit(model, key=seed)`, on multinomial regression: seconds, test scores, moments against HMC.

    SIVI_DATA_DIR=... python benchmarks/mlr_default.py [--problems mnist,hapt] [--precisions default] [--seeds 1]
        [--seconds 60] [--quick] [--out FILE]

Every fit has a process of its own, so its seconds hold all compiling; importing and loading the data come before. A
fit that is not done after a minute, or what --seconds says, is stopped there. The moments are of 20,000 draws, against
those of `results/mlr_reference_<problem>.npz`, which `mlr_reference.py` writes: sds as quantiles of the ratio over all
coordinates, means as the root mean square of the difference in units of HMC's sd. Problems that are not run keep their
rows in FILE.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import sivi
from _common import RESULTS, environment, write
from sivi.experiments._multinomial import PROBLEMS, load_model
from sivi.metrics import classification_scores

SECONDS = 60.0
DRAWS, SCORED, BLOCK = 20_000, 8_000, 2_000
QUANTILES = (0.05, 0.5, 0.95)
#: Log likelihood per test row to reach.
BARS = {"mnist": -0.268, "hapt": -0.175}


def run_problem(
    name: str, precision: str, seed: int, quick: bool, reference: Path, most_seconds: float
) -> dict[str, Any]:
    model, held_out = load_model(name, "quick" if quick else "full")
    marks: list[tuple[int, float]] = []
    start = time.perf_counter()

    def mark(report: sivi.FitReport) -> bool:
        marks.append((report.step, time.perf_counter() - start))
        return marks[-1][1] > most_seconds

    settings: dict[str, Any] = {"num_steps": 20} if quick else {}
    posterior = sivi.fit(
        model,
        key=seed,
        precision=None if precision == "default" else precision,
        callbacks=[mark],
        progress=False,
        **settings,
    )
    seconds = time.perf_counter() - start
    blocks = (200,) if quick else (BLOCK,) * (DRAWS // BLOCK)
    draws = np.concatenate([np.asarray(posterior.sample(size, key=1000 + i)) for i, size in enumerate(blocks)])
    scores = classification_scores(model, draws[:SCORED], held_out)
    (first_step, first), (last_step, last) = marks[0], marks[-1]
    row = {
        "problem": name,
        "precision": precision,
        "seed": seed,
        "seconds": seconds,
        "seconds_to_first_chunk": first,
        "updates": posterior.step,
        "finished": posterior.finished,
        "ms_per_update": 1e3 * (last - first) / max(1, last_step - first_step),
        "per_point": scores.per_point,
        "joint": scores.joint,
        "accuracy": scores.accuracy,
        "calibration_error": scores.calibration_error,
        "bar": BARS[name],
    }
    file = reference / f"mlr_reference_{name}.npz"
    if file.exists() and not quick:
        exact = np.load(file)
        warm = np.sqrt(np.asarray(posterior.affine.covariance_diagonal, float))
        row |= {
            "sd_ratio": np.quantile(draws.std(0, dtype=float) / exact["sd"], QUANTILES).tolist(),
            "sd_ratio_of_warm_up": np.quantile(warm / exact["sd"], QUANTILES).tolist(),
            "mean_error_in_sd": float(
                np.sqrt(np.mean(((draws.mean(0, dtype=float) - exact["mean"]) / exact["sd"]) ** 2))
            ),
        }
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--precisions", default="default", help="names that jax.default_matmul_precision takes")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="after which a fit is stopped")
    parser.add_argument("--quick", action="store_true", help="few rows and updates")
    parser.add_argument("--reference", type=Path, default=RESULTS, help="folder of the reference's moments")
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--job", nargs=3, metavar=("PROBLEM", "PRECISION", "SEED"), help="only this, as JSON")
    args = parser.parse_args()
    if args.job is not None:
        name, precision, seed = args.job
        print(json.dumps(run_problem(name, precision, int(seed), args.quick, args.reference, args.seconds)))
        return
    rows: list[dict[str, Any]] = []
    if args.out is not None and args.out.exists():
        rows = [row for row in json.loads(args.out.read_text())["rows"] if row["problem"] not in args.problems]
    for name in args.problems.split(","):
        for precision in args.precisions.split(","):
            for seed in range(args.seeds):
                command = [sys.executable, __file__, "--job", name, precision, str(seed)]
                command += ["--reference", str(args.reference), "--seconds", str(args.seconds)]
                command += ["--quick"] if args.quick else []
                found = subprocess.run(command, check=True, capture_output=True, text=True)
                rows.append({**json.loads(found.stdout.splitlines()[-1]), "environment": environment()})
                print(json.dumps(rows[-1]), flush=True)
                if args.out is not None:
                    write(args.out, {"rows": rows})


if __name__ == "__main__":
    main()
