"""A folder that holds a fit already."""

from pathlib import Path

from .._errors import FitFileError
from .._fitting.resume import load
from ._errors import UsageError


def refuse_to_replace(file: Path, out: str) -> None:
    """Refuse to write a fit where there is one, finished or not."""
    if not file.exists():
        return
    try:
        posterior = load(file)
    except FitFileError:
        what, choice = "a file fit.sivi that cannot be read", "--overwrite replaces it"
    else:
        updates = f"update {posterior.step} of {posterior.num_steps}"
        what = f"a fit of {posterior.step} updates" if posterior.finished else f"an unfinished fit, at {updates}"
        choice = "--resume carries it on, --overwrite replaces it"
    raise UsageError(f"--out {out!r} holds {what}: {choice}.")
