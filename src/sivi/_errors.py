"""Exceptions, and the argument checks whose messages name argument, rule and value."""

from typing import TYPE_CHECKING

from ._types import describe

if TYPE_CHECKING:
    from .posterior import Posterior


class SiviError(Exception):
    """Base class of the errors that only this library raises."""


class FitDiverged(SiviError, RuntimeError):
    """Too many updates were not finite; `posterior` holds the last good state."""

    def __init__(self, message: str, posterior: "Posterior"):
        super().__init__(message)
        self.posterior = posterior


class CheckpointError(SiviError, OSError):
    """A checkpoint could not be written; `posterior` holds what was fitted so far."""

    def __init__(self, message: str, posterior: "Posterior"):
        super().__init__(message)
        self.posterior = posterior


class FitFileError(SiviError, ValueError):
    """A fit file is not one, is damaged, or does not belong to this model."""


class MissingLogProb(SiviError, TypeError):
    """The log density was asked of a target that knows only its score."""


def check_count(name: str, value: object, minimum: int = 1) -> int:
    """`value` as an int, or an error that names the argument, the rule and the value."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer of at least {minimum}; got {describe(value)}.")
    number = int(value.__index__())
    if number < minimum:
        raise ValueError(f"{name} must be at least {minimum}; got {number}.")
    return number
