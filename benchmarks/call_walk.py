"""The walk of one call, `sivi.fit(log_density, dim=2)`, through the files of the library.

Counts the files of `src/sivi` in which a function is called, the distinct edges from a file to the file of a function
it calls, and the pairs of files with an edge both ways. The caller is the innermost function of the library on the
stack: frames of JAX and Equinox in between do not count. A function that one file hands to another to call counts as a
call of the other, so a pair is also what such a callback makes.

    python benchmarks/call_walk.py [--edges] [--output results/call_walk.json]

The exit code is 1 if the walk is longer than `MOST_FILES` and `MOST_EDGES` allow, if a file is too long, or if two
files call each other.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import jax.numpy as jnp

import sivi

SOURCE = Path(sivi.__file__).parent
#: Bounds of the walk; the script fails beyond them.
MOST_FILES, MOST_EDGES, LONGEST_FILE = 33, 90, 333


def walk(call: Callable[[], object]) -> set[tuple[str, str]]:
    """Edges (from, to) between files of the library while `call` runs; its own calls come from "user"."""
    edges: set[tuple[str, str]] = set()
    names: dict[str, str | None] = {}

    def name_of(frame: FrameType) -> str | None:
        path = frame.f_code.co_filename
        if path not in names:
            file = Path(path)
            names[path] = str(file.relative_to(SOURCE)) if file.is_relative_to(SOURCE) else None
        return names[path]

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or (here := name_of(frame)) is None:
            return
        caller = frame.f_back
        while caller is not None and name_of(caller) is None:
            caller = caller.f_back
        edges.add(("user" if caller is None else str(name_of(caller)), here))

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return {(a, b) for a, b in edges if a != b}


def summary(edges: set[tuple[str, str]]) -> dict[str, Any]:
    between = {(a, b) for a, b in edges if a != "user"}
    files = {b for _, b in edges} | {a for a, _ in between}
    longest = max(SOURCE.rglob("*.py"), key=lambda path: len(path.read_text().splitlines()))
    return {
        "files": len(files),
        "edges": len(between),
        "pairs": sorted([a, b] for a, b in between if (b, a) in between and a < b),
        "longest_file": [str(longest.relative_to(SOURCE)), len(longest.read_text().splitlines())],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", action="store_true", help="print every edge")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    edges = walk(lambda: sivi.fit(lambda x: -0.5 * jnp.sum(x**2), dim=2, num_steps=1, progress=False))
    found = summary(edges)
    if arguments.edges:
        print("\n".join(f"{a} -> {b}" for a, b in sorted(edges)))
    print(json.dumps(found, indent=1))
    if arguments.output:
        arguments.output.write_text(json.dumps(found, indent=1) + "\n")
    within = found["files"] <= MOST_FILES and found["edges"] <= MOST_EDGES and found["longest_file"][1] <= LONGEST_FILE
    sys.exit(not within or bool(found["pairs"]))


if __name__ == "__main__":
    main()
