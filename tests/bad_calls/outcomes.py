"""What became of a call."""

import inspect
import linecache
import random
import shutil
import signal
import tempfile
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import sivi

from . import files
from .cases import Case
from .entries import Entry, entries, resolve, saved
from .pool import value_of

#: Outcomes that are as they should be: a sentence of the library, or of Python on the arguments of a call; a value that
#: works after all; and nothing of that name in this version.
GOOD = ("clear", "accepted", "absent")
_SECONDS = 60
#: What arguments were called in earlier versions.
_OLD_NAMES = {"num_samples": "num_draws"}
_SOURCE = Path(sivi.__file__).parent
_HERE = Path(__file__).parent
#: What the library raises itself. Others are a fault even where one of its lines raises them.
_KINDS = (ValueError, TypeError, ImportError, OSError, sivi.SiviError, FloatingPointError)


class Outcome(NamedTuple):
    """The kind (`clear`, `accepted`, `absent`; `raw`, `hang`, `nonsense`, `partial`), and in words what happened."""

    kind: str
    detail: str


class _Late(BaseException):
    """The time is over."""


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Ends what takes longer, where signals can be had."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(signum: int, frame: FrameType | None) -> None:
        raise _Late

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def run(case: Case, seconds: float = _SECONDS) -> Outcome:
    """Make the call of a case in a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="sivi-bad-call-"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with _within(seconds):
                outcome = _load_changed(case, folder) if case.room == "files" else _called(case, folder)
    except _Late:
        outcome = Outcome("hang", f"more than {seconds:g} s")
    left = [path.name for path in folder.iterdir() if "tmp" in path.name]
    shutil.rmtree(folder, ignore_errors=True)
    return Outcome("partial", f"left {left}") if left and outcome.kind != "hang" else outcome


def _called(case: Case, folder: Path) -> Outcome:
    entry: Entry = entries()[case.entry]
    function = resolve(entry.path)
    if function is None:
        return Outcome("absent", entry.path)
    arguments, argument = entry.arguments(folder), case.argument
    known = inspect.signature(function).parameters
    takes_more = any(p.kind is p.VAR_KEYWORD for p in known.values())
    for new, old in _OLD_NAMES.items():
        if new in arguments and new not in known and old in known:
            arguments[old], argument = arguments.pop(new), old if argument == new else argument
    if not takes_more:  # an earlier version may not have all arguments
        if argument not in known:
            return Outcome("absent", f"{entry.path} has no {argument}")
        arguments = {name: value for name, value in arguments.items() if name in known}
    arguments[argument] = value_of(case.value)
    try:
        result = function(**arguments)
    except Exception as error:
        return _of_error(error)
    if entry.works is None:
        return Outcome("accepted", "")
    try:
        fine = entry.works(result)
    except Exception as error:
        outcome = _of_error(error)
        return outcome if outcome.kind == "clear" else Outcome("nonsense", f"accepted, then {outcome.detail}")
    return Outcome("accepted", "") if fine else Outcome("nonsense", "accepted; what came of it is not finite")


def _load_changed(case: Case, folder: Path) -> Outcome:
    content = saved(folder).read_bytes()
    detail, bad = files.changed(content, random.Random(case.seed))
    path = folder / "changed.sivi"
    path.write_bytes(bad)
    try:
        posterior = sivi.load(path)
    except Exception as error:
        outcome = _of_error(error)
        return Outcome(outcome.kind, f"{detail}: {outcome.detail}")
    try:
        draws = posterior.sample(3, key=0)
    except Exception as error:
        outcome = _of_error(error)
        return Outcome("clear" if outcome.kind == "clear" else "raw", f"{detail}: in sample: {outcome.detail}")
    right = getattr(draws, "shape", None) == (3, posterior.dim) or isinstance(draws, dict)
    return Outcome("accepted" if right else "nonsense", f"{detail}: draws {getattr(draws, 'shape', draws)}")


def _of_error(error: Exception) -> Outcome:
    """Whether an error is a sentence of the library on an argument, or comes from somewhere below it."""
    text = f"{type(error).__name__}: {error}".split("\n")[0][:160]
    if any("raised by" in note for note in getattr(error, "__notes__", ())):
        return Outcome("clear", text)  # of the user's own function, and the library says so
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1]
    if Path(last.filename).is_relative_to(_HERE):
        raised_here = last.name in ("_called", "raises", "<lambda>", "quadratic")
        return Outcome("clear" if raised_here else "raw", text)
    inside = Path(last.filename).is_relative_to(_SOURCE)
    raises = linecache.getline(last.filename, last.lineno or 0).lstrip().startswith("raise")
    if inside and raises and isinstance(error, _KINDS):
        return Outcome("clear", text)
    if _is_of_the_operating_system(error, frames):
        return Outcome("clear", text)
    where = next((f for f in reversed(frames) if Path(f.filename).is_relative_to(_SOURCE)), last)
    return Outcome("raw", f"{text}  [{Path(where.filename).name}:{where.lineno}]")


def _is_of_the_operating_system(error: Exception, frames: Any) -> bool:
    """A path that cannot be opened or written is told by Python's own sentence, which names it."""
    return isinstance(error, OSError) and error.filename is not None
