"""`sivi.fit`, samplers and other variational methods on five posteriors of the battery: seconds and errors.

    python benchmarks/beside.py [--keys 0 1] [--names banana ...] [--methods sivi ...] [--jobs 1]
        [--cores N] [--quick] [--output FILE]
    python benchmarks/beside.py --report FILE [--page ../docs/beside.md]

Every run is a process of its own without compiled programs of earlier ones, and on every posterior the methods take
turns. The settings are those of `_other_methods.py`, which says where they are from. NumPyro, FlowJAX and BlackJAX are
needed. `--report` writes the page of the documentation, and puts it into the list of pages of `docs/index.md`.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from _processes import ROOT

RESULTS = ROOT / "benchmarks" / "results"
NAMES = ("banana", "five-uneven", "funnel-10", "schools", "logistic")
METHODS = ("sivi", "nuts", "numpyro", "mvn", "iaf", "bnaf", "maf", "maf-long", "pathfinder", "multipathfinder")
PACKAGES = ("numpyro", "flowjax", "equinox", "optax")


def run(args: argparse.Namespace) -> None:
    """All methods on all posteriors; what is there is written at once."""
    from _common import write
    from battery import runner, table

    jobs = [
        {"posterior": name, "key": key, "method": method, "quick": args.quick}
        for name in args.names
        for key in args.keys
        for method in args.methods
    ]
    content = {
        "script": "benchmarks/beside.py",
        "keys": args.keys,
        "quick": args.quick,
        "note": args.note,
        "versions": runner.versions(None, PACKAGES),
        "machine": runner.machine(args.jobs, args.cores),
    }
    rows: list[dict[str, Any]] = []
    for row in runner.rows_of(jobs, args.jobs, args.cores, None, args.timeout, script=Path(__file__).resolve()):
        rows.append(row)
        print(f"{table.line_of(row)}  CPU s {row.get('cpu_seconds', float('nan')):.1f}", flush=True)
        write(args.output, content | {"rows": rows})


def child(job: dict[str, Any]) -> None:
    if job["cores"]:  # before anything counts them
        os.sched_setaffinity(0, job["cores"])
    from _other_methods import OTHERS
    from battery.child import METHODS as OWN
    from battery.child import run_job

    print("\n" + json.dumps(run_job(job, {**OWN, **OTHERS})))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", nargs="+", default=list(NAMES), help="posteriors of the battery")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--keys", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--quick", action="store_true", help="few steps and transitions: does everything run?")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds after which a process is stopped")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--cores", type=int, help="cores of each process; all of them by default")
    parser.add_argument("--note", help="what else to say of the machine")
    parser.add_argument("--output", type=Path, default=RESULTS / "beside.json")
    parser.add_argument("--report", type=Path, metavar="FILE.json", help="write the page from these results")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "beside.md")
    parser.add_argument("--child", type=json.loads, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child)
    elif args.report:
        from _beside_page import write_page

        write_page(args.report, args.page)
    else:
        run(args)


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent)
    main()
