"""The command line: parse, call, print."""

from .._interrupts import interrupts_kept

with interrupts_kept():  # it imports the experiments too
    from ._main import main

__all__ = ["main"]
