"""Writing results: a folder that can be written to, and figures."""

import tempfile
from pathlib import Path
from typing import Any

from .._storage.atomic import write_whole
from ._errors import UsageError


def writable_folder(path: str, name: str = "--out") -> Path:
    """The folder, made if need be, or one sentence that says why it cannot be."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(f"{name} must be a folder that can be written to; {path!r}: {error.strerror}.") from error
    return folder


def use_files_only() -> bool:
    """Make matplotlib draw into files, without a screen; False if it is not installed."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    return True


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure and forget it."""
    import matplotlib.pyplot as plt

    write_whole(path, lambda temporary: figure.savefig(temporary, dpi=150))
    plt.close(figure)
