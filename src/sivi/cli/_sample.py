"""`sivi sample`: draws from a saved fit, without the model it was fitted to."""

import argparse
from pathlib import Path
from typing import Any

from .._fitting.resume import load
from . import _codes
from ._draws import NEEDS_ARVIZ, entries, has_arviz, rows, summary, write_draws
from ._errors import UsageError
from ._streams import add_json_option, as_json

_EPILOG = """\
examples:
  sivi sample run/fit.sivi --num-samples 100000 --out more.nc
  sivi sample run/fit.sivi --seed 1 --out more.npz

a .nc file is netCDF in the layout of ArviZ, a chain per independent fit: xarray.open_datatree("more.nc");
an .npz file holds an array per variable: numpy.load("more.npz")
"""


def add_to(commands: Any) -> None:
    """Add the `sample` command."""
    command = commands.add_parser(
        "sample",
        help="draw from a saved fit",
        description="Draw from a fit that `sivi fit` or Posterior.save has written. The model file is not needed, and "
        "nothing in the fit file is executed.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("fit", metavar="FIT", help="a fit file, such as run/fit.sivi")
    command.add_argument(
        "--num-samples", type=int, default=10_000, metavar="N", help="number of draws (default: %(default)s)"
    )
    command.add_argument("--num", help=argparse.SUPPRESS)  # its name in version 0.1, else taken as an abbreviation
    command.add_argument("--seed", type=int, default=0, help="random seed (default: %(default)s)")
    command.add_argument(
        "--out",
        metavar="FILE",
        help="file for the draws, .nc or .npz (default: draws.nc, or draws.npz where ArviZ is not installed)",
    )
    add_json_option(command, "exit_code, seed, variables, files")
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Load, write the draws, print their summary."""
    if args.num is not None:
        raise UsageError("--num is now --num-samples.")
    if args.num_samples < 1:
        raise UsageError(f"--num-samples must be at least 1; got {args.num_samples}.")
    file = _file(args.out)
    posterior = load(args.fit)
    write_draws(posterior, file, args.num_samples, args.seed)
    values = entries(posterior, args.num_samples, args.seed)
    with as_json(args) as found:
        print(summary(posterior.layout, values))
        print(f"\nwritten: {file}")
        found |= {"exit_code": _codes.DONE, "seed": args.seed, "variables": rows(posterior.layout, values)}
        found["files"] = [str(file)]
    return _codes.DONE


def _file(out: str | None) -> Path:
    if out is None:
        return Path("draws.nc" if has_arviz() else "draws.npz")
    file = Path(out)
    if file.suffix not in (".nc", ".npz"):
        raise UsageError(f"--out must end in .nc or .npz; got {out!r}.")
    if not file.parent.is_dir():
        raise UsageError(f"--out must be in an existing folder; {str(file.parent)!r} is not one.")
    if file.suffix == ".nc" and not has_arviz():
        raise UsageError(f"--out {out}: {NEEDS_ARVIZ}; .npz works without.")
    return file
