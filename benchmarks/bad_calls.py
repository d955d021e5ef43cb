"""Generated bad calls and changed fit files, on any version of the library: what becomes of them.

    python benchmarks/bad_calls.py                                   # 5,000 on the installed version
    PYTHONPATH=/elsewhere/src python benchmarks/bad_calls.py --as 0.1 --out old.json   # on a checkout
    python benchmarks/bad_calls.py --merge old.json new.json         # both in benchmarks/results/bad_calls.json

The cases are those of `tests/bad_calls`. Each is one call with one wrong argument, or one file that `load` is given.
`clear` is a sentence of the library on the argument; `accepted` a value that works after all; `absent` a name that this
version has not. `raw` is an error from below the library's checks, `hang` no end within a minute, `nonsense` a value
that was taken and gave something that is not finite, `partial` a temporary file left behind.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import sivi


def _with_todays_names() -> None:
    """Puts the rooms that version 0.1 had elsewhere, or kept private, where the cases look for them."""
    if hasattr(sivi, "critics"):
        return
    from sivi import _affine, _rotation, objectives

    vars(sivi)["critics"] = SimpleNamespace(
        MLPCritic=objectives.MLPCritic, StructuredCritic=objectives.StructuredCritic
    )
    maps = {name: value for name, value in vars(_affine).items() if name.endswith("Map")}
    vars(sivi)["coordinates"] = SimpleNamespace(rotation=_rotation, IS_PRIVATE=True, **maps)


_with_todays_names()

from bad_calls import GOOD, cases, run  # noqa: E402  (which makes critics)


def measured(num: int, seed: int, seconds: float, part: tuple[int, int]) -> dict[str, Any]:
    """The counts by room and kind, and every case that is not as it should be."""
    os.chdir(tempfile.mkdtemp())  # a file name may be a value that works after all
    counts: dict[str, Counter[str]] = {}
    bad, begin = [], time.perf_counter()
    for case in cases(num, seed)[part[0] :: part[1]]:
        outcome = run(case, seconds)
        counts.setdefault(case.room, Counter())[outcome.kind] += 1
        if outcome.kind not in GOOD:
            bad.append([str(case), *outcome])
            print(case, *outcome, flush=True)
        plt.close("all")
    total = sum(counts.values(), Counter())
    return {
        "version": sivi.__version__,
        "cases": num,
        "seed": seed,
        "total": dict(total),
        "rooms": {room: dict(kinds) for room, kinds in counts.items()},
        "bad": bad,
        "seconds": round(time.perf_counter() - begin),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60.0, help="until a call is given up")
    parser.add_argument("--part", type=int, nargs=2, default=(0, 1), help="which of how many parts")
    parser.add_argument("--as", dest="name", default="now", help="what the version is called")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--merge", type=Path, nargs="+", help="results of versions, in order")
    arguments = parser.parse_args()
    if arguments.merge:
        from _common import RESULTS, environment, write  # not of an old version

        found: dict[str, Any] = {}
        for path in arguments.merge:
            found |= json.loads(path.read_text())
        write(RESULTS / "bad_calls.json", {"environment": environment(), "versions": found})
        return
    result = {arguments.name: measured(arguments.num, arguments.seed, arguments.seconds, tuple(arguments.part))}
    print(json.dumps(result[arguments.name]["total"]))
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
