"""The target that a user's Python file defines."""

import contextlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from ..targets import Target, as_target
from ._errors import UsageError

_RULE = "must define `target`, or `log_density` with `dim` or `like`"


def load_target(path: str) -> Target:
    """Run a model file and take its `target`, or its `log_density` with `dim` or `like`."""
    file = Path(path)
    if not file.is_file():
        raise UsageError(f"model file {path!r} does not exist.")
    module = _run(file)
    target: Any = getattr(module, "target", None)
    if target is not None:
        if not isinstance(target, Target):
            raise UsageError(f"{path}: `target` must be a sivi Target; got a {type(target).__name__}.")
        return target
    if not callable(getattr(module, "log_density", None)):
        raise UsageError(f"{path} {_RULE}; it has no function `log_density`.")
    dim, like = getattr(module, "dim", None), getattr(module, "like", None)
    if dim is None and like is None:
        raise UsageError(f"{path} {_RULE}; it has neither `dim` nor `like`.")
    try:
        return as_target(module.log_density, dim, like)
    except Exception as error:
        raise UsageError(f"{path}: {error_text(error)}") from error


@contextlib.contextmanager
def errors_of_the_model(path: str) -> Iterator[None]:
    """Within it, an exception that the user's own function raises is one sentence, with the name of the file."""
    try:
        yield
    except Exception as error:
        if any(note.startswith("(raised by") for note in getattr(error, "__notes__", ())):
            raise UsageError(f"{path}: {error_text(error)}") from error
        raise


def error_text(error: BaseException) -> str:
    """The user's own exception in one line: kind, text and our note on where it came from."""
    notes = " ".join(note for note in getattr(error, "__notes__", ()) if note.startswith("(raised by"))
    text = str(error).splitlines()[0] if str(error) else ""
    return f"{type(error).__name__}: {text} {notes}".strip()


def _run(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("sivi_model", file)
    if spec is None or spec.loader is None:
        raise UsageError(f"model file {str(file)!r} must be a Python file (.py).")
    module = importlib.util.module_from_spec(spec)
    folder = str(file.resolve().parent)
    sys.path.insert(0, folder)  # so that the file can import its neighbours
    sys.modules[spec.name] = module  # where dataclasses look up a class's module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
        where = f"line {lines[-1]}: " if lines else ""
        raise UsageError(f"{file}: {where}{error_text(error)}") from error
    finally:
        sys.path.remove(folder)
    return module
