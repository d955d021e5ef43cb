"""Exceptions and warnings."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .posterior import Posterior


class SiviError(Exception):
    """Base class of the errors that only this library raises."""


class FitWarning(UserWarning):
    """What a fit says of itself at its end; `posterior.warnings` has the sentences one by one."""


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


class MissingFromModel(SiviError, TypeError):
    """Predictions or new data were asked of a model that has no function for them."""
