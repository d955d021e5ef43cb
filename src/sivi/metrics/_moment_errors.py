"""Errors of the first two moments, coordinate by coordinate."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from .._arguments import check_numbers, describe
from .._types import ArrayLike
from ._draws import check_draws, check_same_dim


@dataclass(frozen=True, eq=False, repr=False)
class MomentErrors:
    """How the means and standard deviations of draws differ from a reference's.

    Attributes:
        mean_error: (mean − reference mean) / reference standard deviation, one per coordinate.
        sd_ratio: standard deviation / reference standard deviation, one per coordinate.
        names: What the coordinates are called; None for their numbers.
    """

    mean_error: Float[np.ndarray, " dim"]
    sd_ratio: Float[np.ndarray, " dim"]
    names: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        worst, narrowest, widest = np.abs(self.mean_error).argmax(), self.sd_ratio.argmin(), self.sd_ratio.argmax()
        lowest, highest = self.sd_ratio[narrowest], self.sd_ratio[widest]
        return (
            f"moment errors of {len(self.mean_error):,} coordinates\n"
            f"  means: at most {abs(self.mean_error[worst]):.3f} standard deviations off, at {self._name(worst)}\n"
            f"  standard deviations: {lowest:.3f} (at {self._name(narrowest)}) to {highest:.3f} "
            f"(at {self._name(widest)}) times the reference's"
        )

    def _name(self, index: np.intp) -> str:
        return str(index) if self.names is None else self.names[index]

    @property
    def largest_mean_error(self) -> float:
        """The largest |mean_error|."""
        return float(np.abs(self.mean_error).max())

    @property
    def largest_sd_error(self) -> float:
        """The largest |sd_ratio − 1|."""
        return float(np.abs(self.sd_ratio - 1.0).max())


def moment_errors(
    draws: ArrayLike, reference: ArrayLike | tuple[ArrayLike, ArrayLike], *, names: Sequence[str] | None = None
) -> MomentErrors:
    """Errors of the mean and of the standard deviation, in units of the reference's.

    For n draws of a Gaussian reference that is known exactly, the noise of each mean error is 1/√n, and of each
    ratio 1/√(2n); with n reference draws too, √2 times that.

    Args:
        draws: (n, dim).
        reference: Draws (m, dim), or a tuple of the exact mean (dim,) and either standard deviations (dim,) or a
            covariance (dim, dim).
        names: What to call the coordinates when the errors are printed; their numbers when left out.

    Returns:
        The errors per coordinate, and the largest. Printed, the worst coordinates by name.

    Example:
        >>> errors = moment_errors([[0.0, 1.0], [2.0, 5.0]], ([0.0, 3.0], [1.0, 4.0]))
        >>> errors.mean_error.tolist(), errors.sd_ratio.round(3).tolist()
        ([1.0, 0.0], [1.414, 0.707])
        >>> errors.largest_mean_error
        1.0
        >>> print(moment_errors([[0.0, 1.0], [2.0, 5.0]], ([0.0, 3.0], [1.0, 4.0]), names=["mu", "tau"]))
        moment errors of 2 coordinates
          means: at most 1.000 standard deviations off, at mu
          standard deviations: 0.707 (at tau) to 1.414 (at mu) times the reference's
    """
    x = check_draws("draws", draws)
    mean, sd = _moments(reference)
    check_same_dim(draws=x.shape[1], reference=len(mean))
    if not (sd > 0).all():
        raise ValueError(f"reference must have positive standard deviations; got {sd.min()} at {int(sd.argmin())}.")
    if isinstance(names, str) or not isinstance(names, Sequence | None):
        raise TypeError(f"names must be a sequence of str; got {describe(names)}.")
    if names is not None and len(names) != len(mean):
        raise ValueError(f"names must have one entry per coordinate, {len(mean)}; got {len(names)}.")
    return MomentErrors(
        mean_error=(x.mean(0) - mean) / sd,
        sd_ratio=x.std(0, ddof=1) / sd,
        names=None if names is None else tuple(names),
    )


def _moments(reference: ArrayLike | tuple[ArrayLike, ArrayLike]) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(reference, tuple):
        draws = check_draws("reference", reference)
        return draws.mean(0), draws.std(0, ddof=1)
    if len(reference) != 2:
        raise ValueError(f"reference must be draws, or a tuple of a mean and deviations; got {describe(reference)}.")
    mean, spread = (check_numbers("reference", part).astype(float) for part in reference)
    if mean.ndim != 1 or spread.shape not in (mean.shape, 2 * mean.shape):
        raise ValueError(
            "reference must hold a mean (dim,) and standard deviations (dim,) or a covariance (dim, dim); "
            f"got shapes {mean.shape} and {spread.shape}."
        )
    if not (np.isfinite(mean).all() and np.isfinite(spread).all()):
        raise ValueError("reference must be finite; its mean or its deviations are not.")
    return mean, spread if spread.ndim == 1 else np.sqrt(np.diagonal(spread))
