"""Numbers of the command line that are too large for a program."""

import argparse

from .._arguments import MAX_COUNT, MAX_KEY, MIN_KEY, describe
from ._errors import UsageError


def check_numbers(args: argparse.Namespace) -> None:
    """Refuse integers that JAX cannot hold, by the name of their option; each command checks what it needs besides."""
    for name, value in vars(args).items():
        if not isinstance(value, int) or isinstance(value, bool):
            continue
        option = f"--{name.replace('_', '-')}"
        if name == "seed":
            if not MIN_KEY <= value <= MAX_KEY:
                raise UsageError(f"{option} must be from -2**63 to 2**63 - 1; got {describe(value)}.")
        elif value > MAX_COUNT:
            raise UsageError(f"{option} must be at most {MAX_COUNT} (2**31 - 1); got {describe(value)}.")
