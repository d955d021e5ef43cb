"""Two versions of the library side by side: seconds to the first update of the default call, and of one update.

Each run is a process of its own, and the versions alternate: what else the machine does falls on both. The ratio of
the medians is what counts.

    python benchmarks/versions.py BEFORE [--runs 7] [--only first updates warm] [--quick] [--output FILE]

BEFORE is the root of a clone of the earlier version; the other one is this. All have 22 unknowns: a function that costs
next to nothing, and logistic regression with 400 rows.

* `first`: from the call to its first update, everything compiled anew.
* `updates`: milliseconds of an update with 256 draws, of the default call and of `PathKL` with a critic at equal
  settings, and the share of the machine's rate of matrix products, which the same process measures; the arithmetic is
  that of `_flops.py`. SIVI-SM is that of the paper, on the X-shaped target.
* `warm`: of this version alone, from the call to the first update with JAX's persistent cache, filled by one run that
  is not counted; with the same data, and with other data of that shape.
"""

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

from _common import environment, write
from _processes import ROOT, cold, run_json, warm

CHILD = Path(__file__).with_name("_version_child.py")
MEASURES = ("first", "updates", "warm")
TARGETS = ("function", "logistic")
Runs = dict[str, list[dict[str, float]]]


def run(root: Path, only: list[str], num_chunks: int) -> dict[str, float]:
    """All of one version, once."""
    found: dict[str, float] = {}
    if "first" in only:
        for name in TARGETS:
            seconds = run_json(CHILD, ["first", name, "0"], cold(root))["seconds"]
            found[f"seconds_to_first_update_22d_{name}"] = seconds
    if "updates" in only:
        found |= run_json(CHILD, ["updates", str(num_chunks)], cold(root))
    return found


def side_by_side(before: Path, only: list[str], num_runs: int, num_chunks: int) -> Runs:
    found: Runs = {"before": [], "after": []}
    for i in range(num_runs):
        order = [("before", before), ("after", ROOT)]
        for name, root in order if i % 2 == 0 else order[::-1]:
            found[name].append(run(root, only, num_chunks))
            print(i, name, {key: round(value, 3) for key, value in found[name][-1].items()}, flush=True)
    return found


def with_a_warm_cache(num_runs: int) -> dict[str, Any]:
    """Seconds to the first update of this version: of the run that fills the cache, and of those that find it."""
    with tempfile.TemporaryDirectory() as folder:

        def seconds(data_key: int) -> float:
            return run_json(CHILD, ["first", "logistic", str(data_key)], warm(Path(folder)))["seconds"]

        filling = seconds(0)
        runs = [{"same_data": seconds(0), "other_data": seconds(1 + i)} for i in range(num_runs)]
        files = len(list(Path(folder).iterdir()))
    medians = {name: statistics.median(one[name] for one in runs) for name in ("same_data", "other_data")}
    print("warm cache:", {"filling": round(filling, 2)} | {name: round(value, 2) for name, value in medians.items()})
    return {"seconds_while_filling": filling, "medians": medians, "runs": runs, "files_in_cache": files}


def medians_of(found: Runs) -> dict[str, dict[str, float]]:
    summary = {}
    for key in found["before"][0]:
        before, after = (statistics.median(one[key] for one in found[name]) for name in ("before", "after"))
        summary[key] = {"before": before, "after": after, "ratio": after / before}
        print(f"{key:40} {before:9.3f} {after:9.3f}   ratio {after / before:.3f}")
    return summary


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--only", nargs="+", choices=MEASURES, default=list(MEASURES))
    parser.add_argument("--quick", action="store_true", help="one run, few updates")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    num_runs, num_chunks = (1, 5) if args.quick else (args.runs, 20)
    content: dict[str, Any] = {
        "script": "benchmarks/versions.py",
        "about": {"before": "0.1 (37050dd)", "environment": environment()},
        "seed": 0,
        "quick": args.quick,
        "flops": "matrix products and triangular solves in an update's jaxpr, two per multiplication and addition",
    }
    if {"first", "updates"} & set(args.only):
        found = side_by_side(args.before, args.only, num_runs, num_chunks)
        content |= {"medians": medians_of(found), "runs": found}
    if "warm" in args.only:
        content["warm_cache"] = with_a_warm_cache(num_runs)
    if args.output:
        write(args.output, content)


if __name__ == "__main__":
    main()
