"""The file that a run writes after every chunk."""

import os
from pathlib import Path

import numpy as np

from .._arguments import check_path
from .._errors import CheckpointError
from .._storage.atomic import real_file, remove_leftovers
from .._storage.fit_file import save
from ..posterior import Posterior
from ..targets.fingerprint import fingerprint_of


class Checkpoint:
    """A file that is written whole or not at all, and by one run at a time.

    What a killed run left beside it is removed. A file that another run has written in the meantime is not replaced:
    two runs with one checkpoint would take turns in it.

    Args:
        path: The file, in an existing folder.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = _writable(check_path("checkpoint", path))
        remove_leftovers(self.path)
        self._known = {_signature(self.path)}  # states of the file that this run has seen or written
        self._fingerprint: np.ndarray | None = None

    def write(self, posterior: Posterior) -> None:
        """Write the fit, or raise a `CheckpointError` that carries it."""
        if self._fingerprint is None and posterior.target is not None:
            self._fingerprint = fingerprint_of(posterior.target)
        now = _signature(self.path)
        if now not in {*self._known, None}:
            raise self._error("another run has written it since", posterior)

        def expect(status: os.stat_result) -> None:
            # Known before it has its name: an interrupt may come right after that.
            self._known = {now, _key(status)}

        try:
            save(posterior, self.path, fingerprint=self._fingerprint, before=expect)
        except OSError as error:
            raise self._error(error.strerror or str(error), posterior) from error

    def _error(self, reason: str, posterior: Posterior) -> CheckpointError:
        return CheckpointError(
            f"checkpoint {str(self.path)!r} could not be written at update {posterior.step} ({reason}); "
            "an earlier one is untouched, and what was fitted so far is in this error's posterior attribute.",
            posterior,
        )


def _signature(path: Path) -> tuple[int, ...] | None:
    """What changes when a file is replaced or written to; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return _key(status)


def _key(status: os.stat_result) -> tuple[int, ...]:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _writable(checkpoint: str | os.PathLike[str]) -> Path:
    """The file of a checkpoint, where a link leads to, if it can be written."""
    path = real_file(checkpoint)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"checkpoint must be in an existing folder; {str(path.parent)!r} is not one.")
    if path.is_dir():
        raise IsADirectoryError(f"checkpoint must be a file; {str(path)!r} is a folder.")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"checkpoint must be in a writable folder; {str(path.parent)!r} is not.")
    return path
