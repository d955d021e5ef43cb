"""`sivi data`: the datasets, where they are, and fetching them."""

import argparse
import sys
from typing import Any

from .. import datasets
from .._tables import text_table
from . import _codes
from ._errors import UsageError

_EPILOG = """\
examples:
  sivi data list                    what there is, and what is on this machine
  sivi data fetch boston            download a dataset, unless it is here, to the user's cache
  sivi data fetch all --out data    the origins' files of all datasets, into a folder for SIVI_DATA_DIR to name

files are looked for in the folder that SIVI_DATA_DIR names, then in the cache, which SIVI_CACHE_DIR can move
"""


def add_to(commands: Any) -> None:
    """Add the `data` command and its own two."""
    command = commands.add_parser(
        "data",
        help="list and fetch datasets",
        description="List the datasets that sivi.datasets.load reads, and fetch them from their public origins.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="what there is, and what is on this machine")
    listing.set_defaults(run=list_datasets)
    fetching = actions.add_parser(
        "fetch",
        help="download a dataset, unless it is here; every file is checked",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    fetching.add_argument("name", metavar="NAME", help="one of those that `sivi data list` shows, or `all`")
    fetching.add_argument(
        "--out", metavar="DIR", help="folder for the origin's files (default: the cache, for what is not here yet)"
    )
    fetching.set_defaults(run=fetch)


def list_datasets(args: argparse.Namespace) -> int:
    """Print a table of the datasets and where they are."""
    rows = []
    for name in datasets.names():
        about, location = datasets.describe(name), datasets.find(name)
        kind = f"{len(about.classes)} classes" if about.classes else "regression"
        here = "not here" if location is None else location.place
        rows.append([name, f"{about.num_data:,}", str(about.num_features), kind, here, about.licence, about.title])
    header = ["name", "rows", "features", "kind", "found in", "licence", "what"]
    print(text_table(header, rows, text=(0, 3, 4, 5, 6)))
    return _codes.DONE


def fetch(args: argparse.Namespace) -> int:
    """Fetch one dataset or all, and print where the files are."""
    known = datasets.names()
    if args.name != "all" and args.name not in known:
        raise UsageError(f"NAME must be one of {', '.join(known)} or all; got {args.name!r}.")
    failed = 0
    for name in known if args.name == "all" else (args.name,):
        try:
            location = datasets.fetch(name, args.out)
        except datasets.DatasetError as error:
            if args.name != "all":
                raise
            print(f"sivi: {error}", file=sys.stderr)
            failed += 1
        else:
            print("\n".join(f"{name}: {path}" for path in location.files), flush=True)
    return _codes.FAILED if failed else _codes.DONE
