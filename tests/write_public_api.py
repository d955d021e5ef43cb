"""Writes tests/public_api.txt: every public room, its names, and what can be called with which arguments.

Run it (`make api`) after a change of the public API that is meant. A test compares the file with the code.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import sivi

SNAPSHOT = Path(__file__).with_name("public_api.txt")


def rooms() -> list[str]:
    """`sivi`, and each of its public modules that says what it exports."""
    names = [f"sivi.{module.name}" for module in pkgutil.iter_modules(sivi.__path__) if not module.name.startswith("_")]
    return ["sivi", *(name for name in sorted(names) if hasattr(importlib.import_module(name), "__all__"))]


def _shown(default: object) -> str:
    plain = (bool, int, float, str, type(None))
    is_plain = isinstance(default, plain) or (isinstance(default, tuple) and all(isinstance(d, plain) for d in default))
    return repr(default) if is_plain else "..."


def signature(function: object) -> str:
    """Names, kinds and plain defaults of the arguments; no types, which are the type checker's."""
    shown, stars = [], False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            stars = True
        elif parameter.kind is parameter.KEYWORD_ONLY and not stars:
            shown.append("*")
            stars = True
        prefix = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = "" if parameter.default is parameter.empty else f"={_shown(parameter.default)}"
        shown.append(f"{prefix}{parameter.name}{default}")
    return f"({', '.join(shown)})"


def _lines() -> Iterator[str]:
    for room in rooms():
        module = importlib.import_module(room)
        for name in sorted(module.__all__):
            value = getattr(module, name)
            if inspect.isclass(value) and issubclass(value, BaseException):
                yield f"{room}.{name}"
            else:
                yield f"{room}.{name}{signature(value) if callable(value) else ''}"
    members = {name: value for cls in reversed(sivi.Posterior.__mro__[:-1]) for name, value in vars(cls).items()}
    for name, method in sorted(members.items()):
        if not name.startswith("_"):
            shown = signature(method) if inspect.isfunction(method) else ""
            yield f"sivi.Posterior.{name}{shown}"


def text() -> str:
    return "\n".join(_lines()) + "\n"


if __name__ == "__main__":
    SNAPSHOT.write_text(text())
