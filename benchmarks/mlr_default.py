"""The default call, `sivi.fit(model, key=seed)`, on multinomial regression: seconds, test scores, moments against HMC.

    SIVI_DATA_DIR=... python benchmarks/mlr_default.py [--problems mnist,hapt] [--precisions default] [--seeds 1]
        [--seconds 60] [--first] [--quick] [--out FILE]

Every fit has a process of its own, so its seconds hold all compiling; importing and loading the data come before. A
fit that is not done after a minute, or what --seconds says, is stopped there. The moments are of 20,000 draws, against
those of `results/mlr_reference_<problem>.npz`, which `mlr_reference.py` writes: sds as quantiles of the ratio over all
coordinates, means as the root mean square of the difference in units of HMC's sd. Problems that are not run keep their
rows in FILE. With --first, seconds from the call to its first update are measured too, in three more processes: one
that compiles everything, one that fills JAX's persistent cache, and one that finds it filled.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import sivi
from _common import RESULTS, environment, write
from _processes import cold, run_json, warm
from sivi.experiments._multinomial import PROBLEMS, load_model
from sivi.metrics import classification_scores

SECONDS = 60.0
DRAWS, SCORED, BLOCK, TIMED = 20_000, 8_000, 2_000, 4_000
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
    parts, ends = [], []
    for i, size in enumerate(blocks):
        parts.append(np.asarray(posterior.sample(size, key=1000 + i)))
        ends.append(time.perf_counter() - start)
    draws = np.concatenate(parts)
    scores = classification_scores(model, draws[:SCORED], held_out)
    (first_step, first), (last_step, last) = marks[0], marks[-1]
    row = {
        "problem": name,
        "precision": precision,
        "seed": seed,
        "seconds": seconds,
        "seconds_with_4000_draws": ends[min(len(ends), TIMED // BLOCK) - 1],
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


def to_first_update(name: str, precision: str, seed: int, quick: bool) -> dict[str, float]:
    model, _ = load_model(name, "quick" if quick else "full")
    marks: list[float] = []
    start = time.perf_counter()

    def stop(report: sivi.FitReport) -> bool:
        marks.append(time.perf_counter() - start)
        return True

    how = None if precision == "default" else precision
    sivi.fit(model, key=seed, precision=how, chunk_size=1, callbacks=[stop], progress=False)
    return {"seconds_to_first_update": marks[0]}


def first_updates(arguments: list[str]) -> dict[str, float]:
    """Cold, while a cache is filled, and with that cache; each in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        environments = {"cold": cold(), "filling": warm(Path(folder)), "warm": warm(Path(folder))}
        found = {how: run_json(__file__, [*arguments, "--first"], e) for how, e in environments.items()}
    return {f"seconds_to_first_update_{how}": one["seconds_to_first_update"] for how, one in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--precisions", default="default", help="names that jax.default_matmul_precision takes")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="after which a fit is stopped")
    parser.add_argument("--first", action="store_true", help="also seconds to the first update, cold and warm")
    parser.add_argument("--quick", action="store_true", help="few rows and updates")
    parser.add_argument("--reference", type=Path, default=RESULTS, help="folder of the reference's moments")
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--job", nargs=3, metavar=("PROBLEM", "PRECISION", "SEED"), help="only this, as JSON")
    args = parser.parse_args()
    if args.job is not None:
        name, precision, seed = args.job
        if args.first:
            print(json.dumps(to_first_update(name, precision, int(seed), args.quick)))
            return
        print(json.dumps(run_problem(name, precision, int(seed), args.quick, args.reference, args.seconds)))
        return
    rows: list[dict[str, Any]] = []
    if args.out is not None and args.out.exists():
        rows = [row for row in json.loads(args.out.read_text())["rows"] if row["problem"] not in args.problems]
    for name in args.problems.split(","):
        for precision in args.precisions.split(","):
            for seed in range(args.seeds):
                arguments = ["--job", name, precision, str(seed), "--reference", str(args.reference)]
                arguments += ["--seconds", str(args.seconds), *(["--quick"] if args.quick else [])]
                row = run_json(__file__, arguments, cold())
                row |= first_updates(arguments) if args.first and seed == 0 else {}
                rows.append({**row, "environment": environment()})
                print(json.dumps(rows[-1]), flush=True)
                if args.out is not None:
                    write(args.out, {"rows": rows})


if __name__ == "__main__":
    main()
