"""The command line: parse, call, print."""

from ._main import main

__all__ = ["main"]
