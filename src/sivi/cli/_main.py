"""Arguments, exit codes, and errors as one sentence."""

import argparse
import sys
import traceback
from collections.abc import Sequence

from .._errors import FitDiverged, SiviError
from .._interrupts import interrupts_kept
from .._version import __version__
from . import _check, _codes, _data, _demo, _fit, _paper, _sample
from ._cache import use_cache
from ._codes import table
from ._errors import UsageError
from ._interrupts import Interrupts
from ._log import log_lines
from ._numbers import check_numbers
from ._streams import flush_output, forgiving_streams

_EPILOG = """\
examples:
  sivi demo --out demo                     logistic regression beside NUTS, and two modes on which NUTS is wrong
  sivi fit model.py --out run              fit the log density that a Python file defines
  sivi fit model.py --out run --repeats 4  four independent fits, and whether they agree
  sivi fit model.py --out run --resume     continue an interrupted fit
  sivi check run/fit.sivi model.py         whether a saved fit can be believed
  sivi sample run/fit.sivi --seed 1        more draws of a fit, without its model
  sivi data list                           the datasets, and which are on this machine
  sivi paper list                          the tables and figures of the SIVI-SM paper, to run again

exit codes:
"""


#: Errors whose sentences are written for the person at the keyboard.
_WRONG_INPUT = (UsageError, SiviError, ImportError, OSError, TypeError, ValueError)


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog="sivi",
        description="Semi-implicit variational inference: fit a flexible posterior to any log density.",
        epilog=_EPILOG + table(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"sivi {__version__}")
    top.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (_demo, _fit, _check, _sample, _data, _paper):
        module.add_to(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    args = parser().parse_args(argv)
    args.interrupts = Interrupts()
    with args.interrupts.counted(), interrupts_kept(), forgiving_streams(), log_lines():
        return _run(args)


def _run(args: argparse.Namespace) -> int:
    try:
        check_numbers(args)
        use_cache(args)
        code = args.run(args)
        flush_output()
        return code
    except KeyboardInterrupt:
        return _report("interrupted", _codes.INTERRUPTED, args.debug)
    except Exception as error:
        if args.interrupts:  # of which code in C has made an error of its own
            return _report("interrupted", _codes.INTERRUPTED, args.debug)
        return _failed(error, args.debug)


def _failed(error: Exception, debug: bool) -> int:
    """Report an error that no interrupt has caused."""
    if isinstance(error, FitDiverged):
        return _report(str(error), _codes.FAILED, debug)
    if isinstance(error, _WRONG_INPUT):
        return _report(str(error), _codes.WRONG_INPUT, debug)
    if debug:
        raise error
    return _report(_unexpected(error), _codes.UNEXPECTED, debug)


def _unexpected(error: Exception) -> str:
    """An error that nobody has foreseen, in one sentence."""
    first = next(iter(str(error).strip().splitlines()), "")
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in first:
        return f"there is not enough memory for this ({first or 'no more is known'}); ask for fewer draws or repeats."
    return f"unexpected {type(error).__name__}: {first} (`sivi --debug` before the command shows where)"


def _report(message: str, code: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    print(f"sivi: {' '.join(message.split())}", file=sys.stderr)
    return code
