"""The test suite of two versions: how long it takes, its slowest tests, and what share of the lines it runs.

    pytest -n 2 --dist worksteal --junitxml=FILE.xml                # a timed run, alone on the machine
    pytest -n 2 --cov=sivi --cov-report=json:FILE.json              # another one, for the lines (pytest-cov)
    python benchmarks/suite.py --before A.xml A.json --after B.xml B.json [--note TEXT] --output results/suite.json

A test is a function: the seconds of all its cases together, set-up included. The list of tests that were removed,
merged or moved since 0.1, with what covers them now, is in `benchmarks/results/suite.md`.
"""

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from _common import environment, write

SHOWN = 30


def summary(junit: Path, coverage: Path) -> dict[str, Any]:
    suite = ElementTree.parse(junit).getroot().find("testsuite")
    assert suite is not None
    seconds, cases = Counter[str](), Counter[str]()
    for case in suite.iter("testcase"):
        name = str(case.get("classname")) + "::" + str(case.get("name")).partition("[")[0]
        seconds[name] += float(case.get("time", 0))
        cases[name] += 1
    lines = json.loads(coverage.read_text())["totals"]
    return {
        "tests": int(suite.get("tests", 0)),
        "failed": int(suite.get("failures", 0)) + int(suite.get("errors", 0)),
        "seconds": float(suite.get("time", 0)),
        "coverage_percent": round(lines["percent_covered"], 2),
        "lines": lines["num_statements"],
        "lines_not_run": lines["missing_lines"],
        "slowest": [[name, cases[name], round(time, 1)] for name, time in seconds.most_common(SHOWN)],
    }


def table(found: dict[str, Any]) -> str:
    rows = [f"{time:8.1f} s {count:4d} {name}" for name, count, time in found["slowest"]]
    head = (
        f"{found['tests']} tests in {found['seconds']:.0f} s on two workers, {found['coverage_percent']} % of "
        f"{found['lines']} lines"
    )
    return "\n".join([head, *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for when in ("before", "after"):
        parser.add_argument(f"--{when}", nargs=2, type=Path, metavar=("JUNIT", "COVERAGE"), required=True)
    parser.add_argument("--note", default="", help="how the runs differ")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    found = {when: summary(*getattr(arguments, when)) for when in ("before", "after")}
    for when, one in found.items():
        print(f"{when}: {table(one)}\n")
    if arguments.output:
        write(arguments.output, {"about": {"note": arguments.note, "environment": environment()}, **found})


if __name__ == "__main__":
    main()
