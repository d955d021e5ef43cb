"""A verdict on the command line: printed, written beside its fit, and as JSON."""

from pathlib import Path
from typing import Any

from .._storage.atomic import write_whole
from ..verdict.result import Verdict

FILE, TEXT = "verdict.sivi", "verdict.txt"


def described(verdict: Verdict) -> dict[str, Any]:
    """A verdict for `--json`."""
    return {
        "level": verdict.level,
        "findings": [finding._asdict() for finding in verdict.findings],
        "not_looked_at": verdict.not_looked_at,
        "memory": verdict.memory,
        "seconds": verdict.cost.seconds,
        "interrupted": verdict.interrupted,
    }


def write_verdict(verdict: Verdict, folder: Path) -> list[str]:
    """Write the verdict, as a file for `sivi.load_verdict` and as text; return the names of the files."""
    verdict.save(folder / FILE)
    write_text(str(verdict), folder)
    return [FILE, TEXT]


def write_text(text: str, folder: Path) -> None:
    """Write what there is to say of the fit."""
    write_whole(folder / TEXT, lambda temporary: Path(temporary).write_text(f"{text}\n", encoding="utf-8"))


def forget_verdict(folder: Path) -> None:
    """Remove the verdict of an earlier fit in the same folder."""
    for name in (FILE, TEXT):
        (folder / name).unlink(missing_ok=True)
