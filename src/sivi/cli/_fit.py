"""`sivi fit`: fit what a Python file defines, and write draws, fit and figures to a folder."""

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from .._errors import FitWarning
from .._fitting.fit import fit
from ..plots import plot_samples, plot_traces
from ..posterior import Posterior
from ..targets import Target
from ..verdict.check import check
from ..verdict.errors import errors_of_the_density
from ..verdict.limits import BAD
from . import _codes
from ._cache import add_cache_option
from ._draws import NEEDS_ARVIZ, entries, has_arviz, mixed, rows, save_marginals_and_pairs, summary, write_draws
from ._errors import UsageError
from ._folder import refuse_to_replace
from ._model_file import errors_of_the_model, load_target
from ._output import save_figure, use_files_only, writable_folder
from ._streams import add_json_option, as_json
from ._verdict import TEXT, described, forget_verdict, write_text, write_verdict

_EPILOG = """\
the model file defines one of
  target                    a sivi Target
  log_density and dim       a JAX function of a vector of that length
  log_density and like      a JAX function of the structure of that example; constraints are leaves of it

example model.py:
  import jax.numpy as jnp
  import sivi
  like = {"mu": 0.0, "tau": sivi.positive()}
  y = jnp.array([2.1, -0.3, 1.4, 0.8])
  def log_density(p):
      return -0.5 * p["mu"] ** 2 - p["tau"] - jnp.sum(0.5 * ((y - p["mu"]) / p["tau"]) ** 2 + jnp.log(p["tau"]))

written to the folder: fit.sivi (the fit; `sivi sample` and sivi.load open it), draws.nc (for ArviZ, a chain per
repeat; without ArviZ draws.npz, arrays by variable name), and, with matplotlib, traces.png, marginals.png, pairs.png
and, for a vector of two unknowns, samples.png; the verdict of the check: verdict.txt, and verdict.sivi for
sivi.load_verdict

a folder that holds a fit is left alone without --resume or --overwrite

exit codes: 0 the fit finished, 4 it did but the check found it bad, 130 it was interrupted (continue with --resume)
"""


#: What `--json` prints.
KEYS = (
    "exit_code",
    "finished",
    "step",
    "num_steps",
    "repeats",
    "dim",
    "seed",
    "seconds",
    "variables",
    "warnings",
    "verdict",
    "files",
)


def add_to(commands: Any) -> None:
    """Add the `fit` command."""
    command = commands.add_parser(
        "fit",
        help="fit the log density that a Python file defines",
        description="Fit the log density or target that a Python file defines. The file is run as Python code.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("model", help="a Python file")
    command.add_argument(
        "--out", metavar="DIR", default="sivi-fit", help="folder for the results (default: %(default)s)"
    )
    command.add_argument("--steps", type=int, metavar="N", help="number of updates, at most")
    command.add_argument(
        "--repeats",
        type=int,
        metavar="N",
        help="independent fits, whose agreement the table shows (default: 1, or 8 for a network)",
    )
    command.add_argument("--batch-size", type=int, metavar="N", help="rows of data per update, for a model with data")
    command.add_argument("--no-whiten", action="store_true", help="fit in the coordinates of the model as they are")
    command.add_argument("--seed", type=int, default=0, help="random seed (default: %(default)s)")
    command.add_argument(
        "--num-samples", type=int, default=10_000, metavar="N", help="draws to write (default: %(default)s)"
    )
    again = command.add_mutually_exclusive_group()
    again.add_argument("--resume", action="store_true", help="continue from DIR/fit.sivi")
    again.add_argument("--overwrite", action="store_true", help="replace the fit that is in DIR")
    command.add_argument("--no-check", action="store_true", help="do not check whether the fit can be believed")
    command.add_argument("--quiet", action="store_true", help="no progress bar, and no lines of progress")
    add_json_option(command, f"{', '.join(KEYS)}")
    add_cache_option(command)
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Fit, print the summary, write the files, check."""
    if args.num_samples < 1:
        raise UsageError(f"--num-samples must be at least 1; got {args.num_samples}.")
    folder = Path(args.out)
    if not (args.resume or args.overwrite):
        refuse_to_replace(folder / "fit.sivi", args.out)
    with as_json(args) as found:
        found |= dict.fromkeys(KEYS)
        code = found["exit_code"] = _run(args, found)
    return code


def _run(args: argparse.Namespace, found: dict[str, Any]) -> int:
    """The exit code; `found` gets what `--json` prints."""
    begin = time.monotonic()
    target = load_target(args.model)
    folder = writable_folder(args.out)
    file = folder / "fit.sivi"
    if args.resume and not file.is_file():
        raise UsageError(f"--resume needs a fit to continue; there is no file {str(file)!r}.")
    posterior = _fit(target, args, file)
    values = entries(posterior, args.num_samples, args.seed)
    forget_verdict(folder)
    posterior.save(file)
    draws = folder / ("draws.nc" if has_arviz() else "draws.npz")
    write_draws(posterior, draws, args.num_samples, args.seed)
    print(summary(posterior.layout, values))
    written = [file.name, draws.name, *_figures(posterior, target, values, folder)]
    print(f"\nwritten to {folder}: {', '.join(written)}")
    if draws.suffix != ".nc":
        print(f"the draws are plain arrays: {NEEDS_ARVIZ}")
    found |= {name: getattr(posterior, name) for name in ("finished", "step", "num_steps", "repeats", "dim")}
    found |= {"seed": args.seed, "variables": rows(posterior.layout, values)}
    found["warnings"] = [{"kind": remark.kind, "sentence": remark} for remark in posterior.warnings]
    code = _codes.DONE
    if not posterior.finished:
        print(f"interrupted at update {posterior.step} of {posterior.num_steps}; continue with --resume")
        code = _codes.INTERRUPTED
    elif args.interrupts:  # when the fit was at its end
        print("interrupted; the fit is finished, and not checked")
        code = _codes.INTERRUPTED
    elif not args.no_check:
        code, names = _check(posterior, args, folder, found)
        written += names
    found |= {"files": [str(folder / name) for name in written], "seconds": time.monotonic() - begin}
    return code


def _check(
    posterior: Posterior, args: argparse.Namespace, folder: Path, found: dict[str, Any]
) -> tuple[int, list[str]]:
    """Check the fit, whose files are written; the exit code, and the names of files."""
    try:
        verdict = check(posterior, key=args.seed)
    except KeyboardInterrupt:
        print("sivi: the fit is written; its check was interrupted", file=sys.stderr)
        return _codes.INTERRUPTED, []
    except Exception as error:  # nothing is wrong with the fit's files
        if args.debug or args.interrupts:
            raise
        sentence = f"not checked: {' '.join(str(error).split())}"
        write_text(sentence, folder)
        print(f"sivi: the fit is written; it was {sentence}", file=sys.stderr)
        return _codes.DONE, [TEXT]
    found["verdict"] = described(verdict)
    names = write_verdict(verdict, folder)
    print(f"\n{verdict}\n\nwritten to {folder}: {', '.join(names)}")
    if verdict.interrupted:
        return _codes.INTERRUPTED, names
    return _codes.IS_BAD if verdict.level == BAD else _codes.DONE, names


def _fit(target: Target, args: argparse.Namespace, file: Path) -> Posterior:
    with errors_of_the_model(args.model), errors_of_the_density(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # printed below, without the line of code that issues it
        warnings.filterwarnings("ignore", "fit was interrupted")  # said below too
        posterior = fit(
            target,
            key=args.seed,
            num_steps=args.steps,
            batch_size=args.batch_size,
            whiten=None if args.no_whiten else "auto",
            repeats=args.repeats,
            progress=not args.quiet,
            checkpoint=file,
            resume=file if args.resume else None,
            callbacks=[
                lambda _: forget_verdict(file.parent),  # that of an earlier fit, which the checkpoint replaces
                lambda _: bool(args.interrupts),  # one that something has caught on its way
            ],
        )
    for remark in posterior.warnings:
        print(f"sivi: warning: {remark}", file=sys.stderr)
    return posterior


def _figures(posterior: Posterior, target: Target, values: Any, folder: Path) -> list[str]:
    """Draw what can be drawn; return the names of the files."""
    if not use_files_only():
        print("\nno figures: they need matplotlib (pip install 'sivi[plot]')")
        return []
    save_figure(plot_traces(posterior), folder / "traces.png")
    written = ["traces.png", *save_marginals_and_pairs(posterior.layout, values, folder)]
    if posterior.layout.is_vector and posterior.dim == 2:
        contours = target if target.knows_log_prob else None
        save_figure(plot_samples(mixed(values)[:2000], contours).figure, folder / "samples.png")
        written.append("samples.png")
    return written
