"""Memory and time of updates on MNIST on a CPU.

    SIVI_DATA_DIR=... python benchmarks/mlr_cpu.py [--quick] [--out FILE]

SIVI-SM with the paper's settings at 100 particles, and the default call's family and objective without its warm-up,
for 200 updates on all rows of the data; each has a process of its own. Its peak memory covers importing and loading
the data as well. The seconds are of the call, with all compiling; milliseconds per update are the median over chunks
of updates without the first, which may hold compiling. The matrix rate is that of a large square product in float32,
measured just before and just after the call; the share is of the better of the two.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

import sivi
from _common import RESULTS, environment, write
from _others import MAX_OTHERS, Others
from mlr_speed import PROBLEM, flop_per_update, matrix_rate
from sivi.experiments._multinomial import load_model, sivi_sm

SEED, PARTICLES = 0, 100
METHODS = ("sivi-sm-100", "default")
#: GB that the process may take at its peak.
MEMORY_BAR = 4.0
#: Updates, updates per chunk, and size of the square product; the second for a quick run.
SETTINGS = {"num_steps": 200, "chunk_size": 20, "matrix_size": 2048}
QUICK_SETTINGS = {"num_steps": 6, "chunk_size": 2, "matrix_size": 512}


def peak_gb() -> float:
    """Largest resident set so far.

    It also covers the parent process at the start of this one; that one has imported the same and loaded no data, so
    its size is no more than this one's own.
    """
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e9


def run_method(method: str, quick: bool) -> dict[str, Any]:
    settings = QUICK_SETTINGS if quick else SETTINGS
    model, _ = load_model("mnist", "quick" if quick else "full")
    if method == "default":
        whiten = np.zeros(model.dim, np.float32), np.ones(model.dim, np.float32)
        arguments: dict[str, Any] = {"key": SEED, "whiten": whiten, "stop": None}
    else:
        arguments = sivi_sm(PROBLEM, PARTICLES).arguments(model.dim, SEED)
        arguments["batch_size"] = min(arguments["batch_size"], model.num_data // 3)
    others, before = Others(), peak_gb()
    rates = [matrix_rate("float32", settings["matrix_size"])]
    marks: list[float] = []
    start = time.perf_counter()
    posterior = sivi.fit(
        model,
        num_steps=settings["num_steps"],
        chunk_size=settings["chunk_size"],
        progress=False,
        callbacks=[lambda report: marks.append(time.perf_counter())],
        **arguments,
    )
    seconds = time.perf_counter() - start
    peak = peak_gb()
    rates.append(matrix_rate("float32", settings["matrix_size"]))
    ms = [1e3 * value / settings["chunk_size"] for value in np.diff(marks)]
    row = {
        "method": method,
        "seed": SEED,
        "rows": model.num_data,
        "rows_per_update": posterior.settings.batch_size or model.num_data,
        "updates": posterior.step,
        "skipped": sum(posterior.skipped),
        "peak_gb": peak,
        "peak_gb_before_the_call": before,
        "bar_gb": MEMORY_BAR,
        "under_bar": peak < MEMORY_BAR,
        "seconds": seconds,
        "seconds_to_first_chunk": marks[0] - start,
        "ms": ms,
        "median_ms": statistics.median(ms),
        "matrix_gflop_per_second": {"before": rates[0], "after": rates[1]},
        "cores_used_by_others": others.cores(),
    }
    if method != "default":
        gflop = flop_per_update(PARTICLES, row["rows_per_update"]) / 1e9
        row |= {
            "gflop_per_update": gflop,
            "share_of_matrix_rate": 1e3 * gflop / row["median_ms"] / max(rates),
        }
    return row


def show(row: dict[str, Any]) -> None:
    rates = row["matrix_gflop_per_second"]
    print(
        f"{row['method']}: peak {row['peak_gb']:.2f} GB (bar {row['bar_gb']:.0f}), {row['updates']} updates in "
        f"{row['seconds']:.1f} s, {row['median_ms']:.1f} ms an update; matrix rate "
        f"{rates['before']:.0f} GFLOP/s before, {rates['after']:.0f} after",
        flush=True,
    )
    if "share_of_matrix_rate" in row:
        share = row["share_of_matrix_rate"]
        print(f"    {row['gflop_per_update']:.1f} GFLOP an update, {share:.0%} of the matrix rate")
    if row["cores_used_by_others"] > MAX_OTHERS:
        print(f"    TIMES NOT VALID: other processes used {row['cores_used_by_others']:.1f} cores meanwhile")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rows and updates")
    parser.add_argument("--out", type=Path, default=RESULTS / "mlr_cpu.json")
    parser.add_argument("--job", choices=METHODS, help="only this, as JSON")
    args = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    if args.job is not None:
        print(json.dumps(run_method(args.job, args.quick)))
        return
    rows = []
    for method in METHODS:
        command = [sys.executable, __file__, "--job", method, *(["--quick"] if args.quick else [])]
        found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        rows.append(json.loads(found.stdout.splitlines()[-1]))
        show(rows[-1])
    settings = QUICK_SETTINGS if args.quick else SETTINGS
    write(args.out, {"rows": rows, "quick": args.quick, "settings": settings, "environment": environment()})


if __name__ == "__main__":
    main()
