"""The command line of the battery."""

import argparse
import json
import os
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .entry import SPLIT

EPILOG = """\
Without names, --part or --half, all posteriors run. Every fit is a process of its own without compiled programs of
earlier ones, so that its seconds hold all the compiling. Every row is written to --output as soon as it is there.

  python benchmarks/battery --half tuning --keys 0 1 2 --no-nuts --jobs 8 --cores 2 --output tuning.json
  python benchmarks/battery --part everyday --samplers nuts numpyro --output beside.json
  python benchmarks/battery --source ../sivi-0.1 --output baseline.json --no-nuts
  python benchmarks/battery --report results.json --baseline baseline.json
"""
QUICK = ("linear", "banana", "five-even")
#: Samplers beside the fit, and the package that each needs.
SAMPLERS = {"nuts": ("NUTS", "BlackJAX"), "numpyro": ("NumPyro's NUTS", "NumPyro")}


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of_arguments()
    args = parser.parse_args(arguments)
    if unknown := [name for name in args.names if name not in SPLIT]:
        parser.error(f"names must be of {', '.join(SPLIT)}; got {', '.join(unknown)}")
    if args.make_references:
        from .references import make_all

        make_all(args.names, args.times)
    elif args.report:
        from .report import write_page

        write_page(args.report, args.baseline, args.page, args.beside, args.longer)
    else:
        _check_cores(parser, args)
        run(args)


def chosen(args: argparse.Namespace) -> list[str]:
    """The posteriors asked for."""
    names = args.names or (QUICK if args.quick else list(SPLIT))
    wanted = {key: value for key, value in (("part", args.part), ("half", args.half)) if value}
    return [name for name in names if all(SPLIT[name][key] == value for key, value in wanted.items())]


def run(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Run what was asked for, print it, and write it."""
    from . import runner, table

    common = {"settings": args.settings, "steps_times": args.steps_times, "quick": args.quick}
    methods = _methods(args)
    names = chosen(args)
    taken = _updates_taken(args.of) if args.of else {}
    jobs = [
        {"posterior": name, "key": key, "method": method}
        | (common | {"steps_of": taken.get((name, key))} if method == "sivi" else {"quick": args.quick})
        for name in names
        for key in args.keys
        for method in methods
        if method == "sivi" or key in (args.nuts_keys or args.keys)
    ]
    content = {
        "script": "benchmarks/battery",
        "call": "sivi.fit(target, key=key), and dim= or like= for a function",
        **common,
        "steps_of": args.of.name if args.of else None,
        "keys": args.keys,
        "source": args.source.resolve().name if args.source else None,
        "note": args.note,
        "versions": runner.versions(args.source),
        "machine": runner.machine(args.jobs, args.cores),
    }
    rows: list[dict[str, Any]] = []
    for row in (
        _quick_rows(jobs)
        if args.quick
        else runner.rows_of(jobs, args.jobs, args.cores, args.source, args.timeout, time.monotonic() + args.limit)
    ):
        rows.append(row)
        print(table.line_of(row), flush=True)
        rows.sort(key=lambda row: (names.index(row["posterior"]), methods.index(row["method"]), row["key"]))
        if args.output:
            write(args.output, content | {"rows": rows})
    print("\n" + "\n".join(table.lines(rows)))
    return rows


def _methods(args: argparse.Namespace) -> list[str]:
    """The fit and the samplers asked for, of those that are installed; on every posterior they take turns."""
    methods = ["sivi"]
    for sampler in [] if args.no_nuts else args.samplers:
        title, package = SAMPLERS[sampler]
        if find_spec(package.lower()):
            methods.append(sampler)
        else:
            print(f"without {title}: {package} is not installed")
    return methods


def _updates_taken(path: Path) -> dict[tuple[str, int], int]:
    rows = json.loads(path.read_text())["rows"]
    return {(row["posterior"], row["key"]): row["updates"] for row in rows if row.get("updates")}


def write(path: Path, content: dict[str, Any]) -> None:
    """Whole or not at all; a row a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    about = json.dumps({name: value for name, value in content.items() if name != "rows"}, indent=1)
    rows = ",\n".join(f"  {json.dumps(row)}" for row in content["rows"])
    path.with_suffix(".tmp").write_text(about.removesuffix("\n}") + f',\n "rows": [\n{rows}\n ]\n}}\n')
    path.with_suffix(".tmp").replace(path)


def _quick_rows(jobs: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """In this process, and compiled without most optimisations."""
    import jax

    from .child import run_job
    from .runner import judged

    jax.config.update("jax_disable_most_optimizations", True)
    for job in jobs:
        yield judged(run_job(job))


def _check_cores(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if args.jobs < 1 or args.jobs * (args.cores or (count if args.jobs == 1 else 1)) > count:
        parser.error(f"--jobs times --cores must be at most the number of cores, {count}")
    if args.jobs > 1 and args.cores is None:
        args.cores = count // args.jobs


def parser_of_arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python benchmarks/battery",
        description="The default call on many posteriors, judged by references, beside NUTS.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="posteriors; see split.json")
    add("--part", choices=("everyday", "hard"))
    add("--half", choices=("tuning", "confirmation"))
    add("--keys", type=int, nargs="+", default=[0])
    add("--quick", action="store_true", help="three posteriors, few updates, in this process: does everything run?")
    add("--no-nuts", action="store_true", help="leave out NUTS")
    add("--samplers", nargs="+", choices=tuple(SAMPLERS), default=["nuts"], help="which NUTS: BlackJAX's, NumPyro's")
    add("--nuts-keys", type=int, nargs="+", metavar="KEY", help="NUTS with these keys alone (default: those of --keys)")
    add("--output", type=Path, metavar="FILE.json")
    add("--jobs", type=int, default=1, help="processes at once")
    add("--cores", type=int, help="cores of each")
    add("--timeout", type=float, default=600.0, help="seconds after which a process is stopped")
    add("--limit", type=float, default=float("inf"), help="seconds after which all processes are stopped")
    add("--source", type=Path, metavar="DIR", help="another checkout, whose src the fits use")
    add("--steps-times", type=float, metavar="N", help="N times the default number of updates, and no early stop")
    add("--of", type=Path, metavar="FILE.json", help="with --steps-times: N times the updates of the same fit there")
    add("--settings", type=json.loads, metavar="JSON", help="more arguments of sivi.fit")
    add("--note", metavar="TEXT", help="what else to say of the machine")
    add("--report", type=Path, metavar="FILE.json", help="write the page of the documentation from these results")
    add("--baseline", type=Path, metavar="FILE.json", help="results of version 0.1, for the page")
    add("--beside", type=Path, metavar="FILE.json", help="fits and NUTS in turn in one run, for the page")
    add("--longer", type=Path, metavar="FILE.json", help="results with --steps-times, for the page")
    add("--page", type=Path, default=Path(__file__).resolve().parents[2] / "docs" / "battery.md")
    add("--make-references", action="store_true", help="run the chains of NUTS whose draws are the references")
    add("--times", type=float, default=1.0, help="lengthens those chains")
    return parser
