"""`sivi fit`: fit what a Python file defines, and write draws, fit and figures to a folder."""

import argparse
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .._files import write_whole
from ..fit import fit
from ..plots import plot_marginals, plot_samples, plot_traces
from ..posterior import Posterior
from ..targets import Target
from ._errors import UsageError
from ._model_file import describe_error, load_target
from ._output import save_figure, table, use_files_only, writable_folder

_MOST_ROWS = 40  # of the printed summary
_MOST_PANELS = 16  # of the marginals figure

_EPILOG = """\
the model file defines one of
  target                    a sivi Target
  log_density and dim       a JAX function of a vector of that length
  log_density and like      a JAX function of the structure of that example

example model.py:
  import jax.numpy as jnp
  dim = 2
  def log_density(x):
      return -0.5 * (x[0] ** 2 + (x[1] - x[0] ** 2) ** 2)

written to the folder: fit.sivi (the fit; sivi.load opens it), draws.npz (arrays by variable name), and, with
matplotlib, traces.png, marginals.png and, in two dimensions, samples.png
"""


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
    command.add_argument("--steps", type=int, metavar="N", help="number of updates")
    command.add_argument("--seed", type=int, default=0, help="random seed (default: %(default)s)")
    command.add_argument(
        "--num-samples", type=int, default=10_000, metavar="N", help="draws to write (default: %(default)s)"
    )
    command.add_argument("--resume", action="store_true", help="continue from DIR/fit.sivi")
    command.add_argument("--quiet", action="store_true", help="no progress bar")
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Fit, print the summary, write the files."""
    if args.num_samples < 1:
        raise UsageError(f"--num-samples must be at least 1; got {args.num_samples}.")
    target = load_target(args.model)
    folder = writable_folder(args.out)
    file = folder / "fit.sivi"
    if args.resume and not file.is_file():
        raise UsageError(f"--resume needs a fit to continue; there is no file {str(file)!r}.")
    posterior = _fit(target, args, file)
    draws = np.asarray(posterior.unconstrained(args.num_samples, key=args.seed + 1))
    print(summary(posterior, draws))
    _write(posterior, target, draws, folder)
    print(f"\nwritten to {folder}: {', '.join(sorted(path.name for path in folder.iterdir()))}")
    return 0 if posterior.step == posterior.num_steps else 130


def _fit(target: Target, args: argparse.Namespace, file: Path) -> Posterior:
    try:
        return fit(
            target,
            key=args.seed,
            num_steps=args.steps,
            progress=not args.quiet,
            checkpoint=file,
            resume=file if args.resume else None,
        )
    except Exception as error:
        if any(note.startswith("(raised by") for note in getattr(error, "__notes__", ())):
            raise UsageError(f"{args.model}: {describe_error(error)}") from error
        raise


def summary(posterior: Posterior, draws: np.ndarray) -> str:
    """A table of mean, sd and quantiles, one row per number."""
    names = [
        f"{variable.name}[{','.join(map(str, index))}]" if variable.shape else variable.name
        for variable in posterior.layout.variables
        for index in np.ndindex(*variable.shape)
    ]
    columns = [draws.mean(0), draws.std(0), *np.quantile(draws, [0.05, 0.5, 0.95], axis=0)]
    rows = [[name, *(f"{column[i]:.3f}" for column in columns)] for i, name in enumerate(names[:_MOST_ROWS])]
    text = table(["variable", "mean", "sd", "5%", "50%", "95%"], rows)
    hidden = len(names) - len(rows)
    return text + (f"\n({hidden} more variables in draws.npz)" if hidden else "")


def _write(posterior: Posterior, target: Target, draws: np.ndarray, folder: Path) -> None:
    posterior.save(folder / "fit.sivi")
    named = {name: np.asarray(values) for name, values in jax.vmap(posterior.layout.named)(draws).items()}

    def write_draws(path: Path) -> None:
        with open(path, "wb") as stream:
            np.savez(stream, **named)

    write_whole(folder / "draws.npz", write_draws)
    if not use_files_only():
        print("\nno figures: they need matplotlib (pip install 'sivi[plot]')")
        return
    save_figure(plot_traces(posterior.history), folder / "traces.png")
    save_figure(plot_marginals(draws[:, :_MOST_PANELS]), folder / "marginals.png")
    if posterior.dim == 2:
        contours = target if target.knows_log_prob else None
        save_figure(plot_samples(draws[:2000], contours).figure, folder / "samples.png")
