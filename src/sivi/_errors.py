"""Exceptions, and the argument checks whose messages name argument, rule and value."""

import operator
from typing import TYPE_CHECKING, SupportsIndex

import numpy as np

from ._types import describe

if TYPE_CHECKING:
    from .posterior import Posterior


class SiviError(Exception):
    """Base class of the errors that only this library raises."""


class _CarriesPosterior(SiviError):
    """An error that hands over what was fitted before it; the posterior stays behind when it is pickled."""

    def __init__(self, message: str, posterior: "Posterior | None" = None):
        super().__init__(message)
        self.posterior = posterior

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return type(self), (str(self),)


class FitDiverged(_CarriesPosterior, RuntimeError):
    """Too many updates were not finite; `posterior` holds the last good state."""


class CheckpointError(_CarriesPosterior, OSError):
    """A checkpoint could not be written; `posterior` holds what was fitted so far."""


class FitFileError(SiviError, ValueError):
    """A fit file is not one, is damaged, or does not belong to this model."""


class MissingLogProb(SiviError, TypeError):
    """The log density was asked of a target that knows only its score."""


def check_positive(name: str, value: object) -> float:
    """`value` as a positive, finite float, or an error that names the argument, the rule and the value."""
    if isinstance(value, (str, bytes, bool)) or np.ndim(value) != 0:  # pyright: ignore[reportArgumentType]
        raise TypeError(f"{name} must be a positive number; got {describe(value)}.")
    try:
        number = float(value)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a positive number; got {describe(value)}.") from None
    if not 0.0 < number < float("inf"):
        raise ValueError(f"{name} must be a positive, finite number; got {number}.")
    return number


def check_acceptance(value: object) -> float:
    """A target acceptance rate: strictly between 0 and 1."""
    number = check_positive("target_acceptance", value)
    if number >= 1.0:
        raise ValueError(f"target_acceptance must be a probability below 1; got {value}.")
    return number


def check_count(name: str, value: object, minimum: int = 1) -> int:
    """`value` as an int, or an error that names the argument, the rule and the value."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise TypeError(f"{name} must be an integer of at least {minimum}; got {describe(value)}.")
    number = operator.index(value)
    if number < minimum:
        raise ValueError(f"{name} must be at least {minimum}; got {number}.")
    return number


def check_labels(name: str, labels: np.ndarray, num_classes: int | None = None) -> None:
    """Refuse labels that are not whole numbers from 0 to num_classes − 1, or below 2³¹ if that is not known."""
    is_class = (labels >= 0) & (labels == np.floor(labels)) & (labels < (num_classes or 2**31))
    if not is_class.all():
        rule = "from 0 to 2³¹ − 1" if num_classes is None else f"from 0 to {num_classes - 1}"
        other = labels[~is_class]
        raise ValueError(f"{name} must be whole numbers {rule}; got {other[0]:g}, and {other.size} such values in all.")
