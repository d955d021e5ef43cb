"""The command line."""

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
EPILOG = """\
Many cases of one target share a process, so that programs are compiled once. Every row is written to --output as soon
as it is there; --resume leaves out what is there already.

  python benchmarks/verdict --set first --jobs 16 --cores 1 --output benchmarks/results/verdict_first.json
  python benchmarks/verdict --set second --jobs 16 --cores 1 --output benchmarks/results/verdict_second.json
  python benchmarks/verdict --fits --jobs 16 --cores 1 --output benchmarks/results/verdict_fits.json
  python benchmarks/verdict --cost --jobs 8 --cores 2 --output benchmarks/results/verdict_cost.json
  python benchmarks/verdict --refine --jobs 8 --cores 2 --output benchmarks/results/verdict_refine.json
  python benchmarks/verdict --infer --jobs 2 --cores 1 --output benchmarks/results/verdict_infer.json
  python benchmarks/verdict --report benchmarks/results/verdict_*.json
"""
#: Of --refine: where separated modes have wrong weights, fits of what is curved or a funnel, and fits by a method that
#: is wrong there.
REFINED = {
    "weights": ("two-modes-2", "two-modes-10", "five-uneven", "eight-even"),
    "fit": ("eight-even", "five-uneven", "curved-pairs", "schools-centred", "funnel-2", "funnel-10"),
    "wrong-fit": ("curved-pairs", "schools-centred"),
}


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of_arguments()
    args = parser.parse_args(arguments)
    if args.report:
        from .report import write_page

        write_page(args.report, args.page)
        return
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    args.cores = args.cores or max(1, count // max(args.jobs, 1))
    if args.jobs < 1 or args.jobs * args.cores > count:
        parser.error(f"--jobs times --cores must be at most the number of cores, {count}")
    mode = next((name for name in ("fits", "cost", "refine", "infer") if getattr(args, name)), "planted")
    try:
        jobs = {"planted": planted, "fits": fits, "cost": cost, "refine": refinement, "infer": inferences}[mode](args)
    except KeyError as error:
        parser.error(f"no such target or fault: {error}")
    run(args, mode, jobs)


def planted(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Jobs of a set of targets; leaves out cases that a file has."""
    from .faults import FAULTS
    from .runner import planted_jobs
    from .sets import SETS

    known = {name: SETS[args.set][name] for name in args.targets or SETS[args.set]}
    wanted = args.faults if args.faults is not None else list(FAULTS)
    faults = {name: [fault for fault in wanted if FAULTS[fault].applies(item)] for name, item in known.items()}
    dims = {name: item.dim for name, item in known.items()}
    return planted_jobs(args.set, dims, faults, args.seeds, args.exact, args.chunk)


def fits(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Jobs of real fits: full ones first."""
    from battery.posteriors import POSTERIORS

    from .fits import OBJECTIVES, WRONG_SIGN
    from .sets import SETS

    names = sorted((name for name in args.targets or POSTERIORS if name in POSTERIORS), key=_longest_first())
    jobs = [
        {"kind": "fit", "posterior": name, "method": method, "length": length, "key": key}
        for length in args.lengths
        for method in args.methods or OBJECTIVES
        for name in names
        for key in args.keys
    ]
    if "tenth" not in args.lengths:
        return jobs
    defects = [(name, "wrong-sign") for name in names if name in WRONG_SIGN]
    models = [name for name, known in SETS["first"].items() if known.batch_size is not None]
    defects += [(name, "forgotten") for name in models if not args.targets or name in args.targets]
    return jobs + [
        {"kind": "fit", "posterior": name, "method": "default", "length": "tenth", "defect": defect, "key": key}
        for name, defect in defects
        for key in args.keys
    ]


def _longest_first() -> Callable[[str], float]:
    """By the seconds that the battery's page has of the default call."""
    path, seconds = ROOT / "benchmarks" / "results" / "battery.json", {}
    for row in json.loads(path.read_text())["rows"] if path.exists() else []:
        seconds[row["posterior"]] = max(seconds.get(row["posterior"], 0.0), row.get("seconds", 0.0))
    return lambda name: -seconds.get(name, 0.0)


def cost(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Jobs of one check each, of a default fit or of exact draws in many dimensions."""
    from battery.posteriors import POSTERIORS

    from .fits import WIDE_DIMS

    names = args.targets or [*(f"wide-{dim}" for dim in reversed(WIDE_DIMS)), *POSTERIORS]
    common = {"kind": "cost", "method": "default", "length": "full"}
    return [common | {"posterior": name, "key": key} for name in names for key in args.keys[:1]]


def refinement(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Jobs of draws that are refined."""
    common = {"kind": "refine", "length": "full", "no_nuts": args.no_nuts}
    return [
        common
        | {"posterior": name, "start": start, "key": key}
        | {"method": "mixture-kl" if start == "wrong-fit" else "default"}
        for start, names in REFINED.items()
        for name in names
        for key in args.keys
        if not args.targets or name in args.targets
    ]


def inferences(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Jobs of one call of `sivi.infer` each, by default on the hard part of the battery."""
    from battery.posteriors import POSTERIORS

    hard = [name for name, entry in POSTERIORS.items() if entry.part == "hard"]
    common = {"kind": "infer", "method": "default", "length": "full"}
    return [common | {"posterior": name, "key": key} for name in args.targets or hard for key in args.keys]


def run(args: argparse.Namespace, mode: str, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run jobs, print their rows and write them."""
    from . import runner, table

    rows = old_rows(args.output) if args.resume and args.output else []
    jobs = without(jobs, rows)
    common = {"folder": str(args.folder) if args.folder else None, "no_check": args.no_check}
    jobs = [job if "cases" in job else job | common for job in jobs]
    if mode == "fits" and args.together:
        groups: dict[str, list[dict[str, Any]]] = {}
        for job in jobs:
            groups.setdefault(job["posterior"], []).append(job)
        jobs = [{"kind": "fits", "posterior": name, "jobs": own} for name, own in groups.items()]
    content = {
        "script": "benchmarks/verdict",
        "mode": mode,
        "set": args.set if mode == "planted" else None,
        "seeds": args.seeds if mode == "planted" else args.keys,
        "exact": args.exact if mode == "planted" else None,
        "note": args.note,
        "versions": runner.versions(None),
        "machine": runner.machine(args.jobs, args.cores),
    }
    for row in runner.rows_of(jobs, args.jobs, args.cores, args.limit, args.cache):
        rows.append(row)
        print(table.line_of(row), flush=True)
        if args.output:
            _write(args.output, content | {"rows": rows})
    print("\n" + "\n".join(table.lines(mode, rows)))
    return rows


#: What a row is known by.
_NAMES = ("target", "fault", "seed", "posterior", "method", "length", "defect", "start", "key")


def _identity(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in _NAMES)


def without(jobs: list[dict[str, Any]], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Jobs less what rows say is done."""
    done, left = {_identity(row) for row in rows}, []
    for job in jobs:
        if "cases" in job:
            cases = [
                c for c in job["cases"] if _identity({"target": job["target"], "fault": c[0], "seed": c[1]}) not in done
            ]
            left += [job | {"cases": cases}] if cases else []
        elif _identity(job) not in done:
            left.append(job)
    return left


def old_rows(path: Path) -> list[dict[str, Any]]:
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    return [row for row in rows if not row.get("unfinished")]


def _write(path: Path, content: dict[str, Any]) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {name: value for name, value in content.items() if name != "rows"}
    rows = ",\n".join(json.dumps(row) for row in content["rows"])  # a line each
    path.with_suffix(".tmp").write_text(f'{json.dumps(about, indent=1)[:-2]},\n "rows": [\n{rows}\n ]\n}}\n')
    path.with_suffix(".tmp").replace(path)


def parser_of_arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python benchmarks/verdict",
        description="Planted faults, exact draws and real fits, and what `sivi.check` says of them.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--set", choices=("first", "second"), default="first", help="targets of planted faults (%(default)s)")
    add("--fits", action="store_true", help="real fits of the battery instead")
    add("--cost", action="store_true", help="seconds of a check of every battery posterior instead")
    add("--refine", action="store_true", help="draws before and after refinement instead, with NUTS beside")
    add("--infer", action="store_true", help="`sivi.infer` on the hard part of the battery instead")
    add("--targets", nargs="+", metavar="NAME", help="targets or posteriors (default: all)")
    add("--faults", nargs="*", metavar="NAME", help="planted faults (default: all; none after the option: exact alone)")
    add("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4], help="of planted faults")
    add("--exact", type=int, default=17, metavar="N", help="sets of exact draws of every target (%(default)s)")
    add("--keys", type=int, nargs="+", default=[0, 1], help="of real fits")
    add("--methods", nargs="+", choices=("default", "mixture-kl", "score-matching"), help="of real fits (default: all)")
    add("--lengths", nargs="+", choices=("full", "tenth"), default=["full", "tenth"], help="of real fits")
    add("--folder", type=Path, help="take fits that are kept there, and keep new ones there")
    add("--together", action="store_true", help="with --fits: all fits of a posterior in one process")
    add("--no-check", action="store_true", help="with --fits: fit alone, to be checked later from --folder")
    add("--cache", type=Path, metavar="FOLDER", help="share compiled programs: fits are then faster than cold ones")
    add("--no-nuts", action="store_true", help="with --refine: leave out NUTS")
    add("--chunk", type=int, default=25, metavar="N", help="cases of a process, at most (%(default)s)")
    add("--jobs", type=int, default=1, help="processes at once")
    add("--cores", type=int, help="cores of each")
    add("--limit", type=float, default=float("inf"), metavar="SECONDS", help="stop then; rows that are done are kept")
    add("--output", type=Path, metavar="FILE.json")
    add("--resume", action="store_true", help="leave out what --output has, and add to it")
    add("--note", metavar="TEXT", help="what else to say of the machine")
    add("--report", type=Path, nargs="+", metavar="FILE.json", help="write the page of tables from these results")
    add("--page", type=Path, default=ROOT / "docs" / "verdict_tables.md")
    return parser
