"""`sivi check`: whether a saved fit can be believed."""

import argparse
from pathlib import Path
from typing import Any

from .._fitting.resume import load
from ..verdict.check import check
from . import _codes
from ._cache import add_cache_option
from ._errors import UsageError
from ._model_file import errors_of_the_model, load_target
from ._output import writable_folder
from ._streams import add_json_option, as_json
from ._verdict import described, write_verdict

_EPILOG = """\
examples:
  sivi check run/fit.sivi model.py
  sivi check run/fit.sivi model.py --effort 4 --seed 1

written beside the fit: verdict.txt, as printed, and verdict.sivi, which sivi.load_verdict opens

exit codes: 0 no fault found, 3 doubtful, 4 bad
"""


def add_to(commands: Any) -> None:
    """Add the `check` command."""
    command = commands.add_parser(
        "check",
        help="whether a saved fit can be believed",
        description="Start chains on the exact target from the draws of a fit, and look for modes without draws. Needs "
        "the model file that the fit was made from, which is run as Python code.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("fit", metavar="FIT", help="a fit file, such as run/fit.sivi")
    command.add_argument("model", metavar="MODEL", help="the Python file that it was fitted to")
    command.add_argument("--seed", type=int, default=0, help="random seed (default: %(default)s)")
    command.add_argument(
        "--effort", type=float, default=1.0, metavar="X", help="length of the chains (default: %(default)s)"
    )
    command.add_argument("--no-modes", action="store_true", help="do not look for modes")
    add_json_option(command, "exit_code, fit, seed, verdict, files")
    add_cache_option(command)
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Load, check, print, write."""
    if not 0.0 < args.effort < float("inf"):
        raise UsageError(f"--effort must be a positive number; got {args.effort}.")
    if not Path(args.fit).is_file():
        raise UsageError(f"FIT must be a fit file; there is no file {args.fit!r}.")
    with as_json(args) as found:
        target = load_target(args.model)
        folder = writable_folder(str(Path(args.fit).parent), "the folder of FIT")
        with errors_of_the_model(args.model):
            posterior = load(args.fit, target)
            verdict = check(posterior, key=args.seed, effort=args.effort, modes=not args.no_modes)
        print(verdict)
        names = write_verdict(verdict, folder)
        print(f"\nwritten to {folder}: {', '.join(names)}")
        code = _codes.INTERRUPTED if verdict.interrupted else _codes.OF_LEVEL[verdict.level]
        found |= {"exit_code": code, "fit": args.fit, "seed": args.seed, "verdict": described(verdict)}
        found["files"] = [str(folder / name) for name in names]
    return code
