"""From a drift of chains to the difference E_p f − E_q f, with its error. NumPy alone.

Chain i starts at a draw of q, with the statistic f_i, and y_i is the mean of f over its late snapshots. If the chains
forget their starts at one rate, E[y | f] = E_p f + b (f − E_p f), and with b the slope of y on f

    E_p f − E_q f  ≈  (ȳ − b (f̄ − μ) − μ) / (1 − b),

where μ is the mean of f over many more draws of q: the drift, extrapolated to chains of any length, with the starts as
a control variate. For q = p the chains are stationary, and the expectation is zero whatever b is.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import special

from . import limits

PerStatistic = Float[np.ndarray, " statistics"]


class Effects(NamedTuple):
    """Of every statistic: E_p f − E_q f, its standard error, the slope b, and the part of the error that is of μ."""

    effect: PerStatistic
    error: PerStatistic
    slope: PerStatistic
    reference_error: PerStatistic

    @property
    def z(self) -> PerStatistic:
        """Effects in standard errors; 0 where a statistic is constant."""
        return np.divide(self.effect, self.error, out=np.zeros_like(self.effect), where=self.error > 0.0)

    @property
    def p_values(self) -> PerStatistic:
        """Two-sided, for the hypothesis of no effect."""
        return 2.0 * special.ndtr(-np.abs(self.z))


def estimate(
    starts: Float[np.ndarray, "chains statistics"],
    late: Float[np.ndarray, "chains statistics"],
    reference_mean: PerStatistic,
    reference_size: float,
    *,
    influence_guard: bool = True,
) -> Effects:
    """Effects of many statistics at once.

    The error is that of the influence of every chain on the effect, through the means and through the slope, and of μ.
    With the guard it is at least half the pull of the four most influential chains: a rare event that four chains saw
    is then no finding.

    Args:
        starts: f at the start of every chain.
        late: Mean of f over the late snapshots of every chain.
        reference_mean: μ, mean of f over other draws of q. They may contain the starts.
        reference_size: How many independent draws that mean is worth.
        influence_guard: Whether errors have that lower bound.
    """
    num = len(starts)
    mean_start, mean_late = starts.mean(0, dtype=float), late.mean(0, dtype=float)
    centred, moved = (starts - mean_start).astype(starts.dtype), (late - mean_late).astype(late.dtype)
    variance = np.mean(centred**2, 0, dtype=float)
    covariance = np.mean(centred * moved, 0, dtype=float)
    slope = np.divide(covariance, variance, out=np.zeros_like(variance), where=variance > 0.0)
    slope = np.clip(slope, 0.0, limits.MAX_SLOPE)
    left = 1.0 - slope
    effect = (mean_late - slope * (mean_start - reference_mean) - reference_mean) / left

    residual = moved - slope.astype(centred.dtype) * centred
    # The slope's own noise counts as far as the mean has moved.
    lever = np.divide(mean_late - mean_start, left * variance, out=np.zeros_like(variance), where=variance > 0.0)
    influence = residual * (1.0 + lever.astype(centred.dtype) * centred) / left.astype(centred.dtype)
    squares = np.sum(influence**2, 0, dtype=float) / (num * max(num - 2, 1)) + variance / reference_size
    error = np.sqrt(squares)
    if influence_guard and num > limits.INFLUENTIAL_CHAINS:
        strongest = np.partition(np.abs(influence), num - limits.INFLUENTIAL_CHAINS, axis=0)[
            -limits.INFLUENTIAL_CHAINS :
        ]
        error = np.maximum(error, 0.5 * strongest.sum(0) / num)
    return Effects(effect, error, slope, np.sqrt(variance / reference_size))


def bonferroni(num_statistics: int, alpha: float = limits.ALPHA) -> float:
    """How many errors an effect must be from zero, so that with probability 1 − α none of so many is by chance."""
    return float(-special.ndtri(0.5 * alpha / max(num_statistics, 1)))
