"""What a command prints: to a reader that may have gone, or as one JSON object."""

import argparse
import contextlib
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np


class _Forgiving:
    """A stream that drops what is written after its reader has gone: `sivi sample ... | head -1` is no error."""

    def __init__(self, stream: Any):
        self._stream = stream

    def write(self, text: str) -> int:
        self._unless_gone(self._stream.write, text)
        return len(text)

    def flush(self) -> None:
        self._unless_gone(self._stream.flush)

    def drop(self) -> None:
        """From now on what is written goes nowhere; when Python ends, what was kept back does too."""
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)

    def _unless_gone(self, do: Callable[..., object], *arguments: str) -> None:
        try:
            do(*arguments)
        except BrokenPipeError:
            self.drop()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def forgiving_streams() -> Iterator[None]:
    """Within it, what is printed goes to the standard output and error for as long as somebody reads them."""
    out, error = (None if stream is None else _Forgiving(stream) for stream in (sys.stdout, sys.stderr))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):  # pyright: ignore[reportArgumentType]
        try:
            yield
        finally:
            for stream in filter(None, (out, error)):
                try:
                    stream.flush()
                except (OSError, ValueError):  # a full disk: it would fail again when Python ends
                    stream.drop()


def flush_output() -> None:
    """Write what was printed, or raise an `OSError` that says why that cannot be done."""
    if sys.stdout is not None:
        sys.stdout.flush()


def add_json_option(command: Any, keys: str) -> None:
    """Add `--json` to a command."""
    command.add_argument("--json", action="store_true", help=f"print one JSON object, and nothing else: {keys}")


@contextlib.contextmanager
def as_json(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Within it, a command fills a dictionary, and with `--json` what it prints goes to the standard error.

    At the end the dictionary is the one thing on the standard output; after an error there is nothing.
    """
    found: dict[str, Any] = {}
    if not args.json:
        yield found
        return
    with contextlib.redirect_stdout(sys.stderr):
        yield found
    print(json.dumps(plain(found), allow_nan=False))


def plain(value: Any) -> Any:
    """A value as JSON has it: what is not finite is null."""
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int)) else str(value)
