"""Have the chains mixed, and how many independent draws are they worth: split R-hat and effective sample size.

Reference:
    Vehtari, Gelman, Simpson, Carpenter and Bürkner, Rank-normalization, folding, and localization: an improved R̂ for
    assessing convergence of MCMC (Bayesian Analysis, 2021).
"""

import numpy as np
from jaxtyping import Float
from scipy import fft, special, stats

from .._arguments import check_numbers
from .._types import ArrayLike

Draws = Float[np.ndarray, "chains num_samples dim"]
PerCoordinate = Float[np.ndarray, " dim"]

#: Fewer draws per chain say nothing: half a chain then has no variance, or no lag to look at.
MIN_DRAWS = 4


def split_rhat(draws: ArrayLike) -> PerCoordinate:
    """Rank-normalised split R-hat of every coordinate; 1 when the chains agree, and at most 1.01 is the rule.

    Chains are cut in halves; R-hat² is the variance of all draws over the mean variance within a half. Ranks take the
    place of values, so that heavy tails do no harm, and the larger of two numbers counts: that of the draws
    (location) and that of their distances to the median (scale).

    Args:
        draws: (chains, num_samples, dim). With fewer than 4 draws per chain the answer is NaN.

    Example:
        >>> chains = np.random.default_rng(0).normal(size=(4, 500, 1))
        >>> bool(split_rhat(chains)[0] < 1.01), bool(split_rhat(chains + np.arange(4.0)[:, None, None])[0] > 1.2)
        (True, True)
    """
    draws = _checked(draws)
    if draws.shape[1] < MIN_DRAWS:
        return np.full(draws.shape[2], np.nan)
    halves = _halves(draws)
    return np.maximum(_rhat(_rank_normalised(halves)), _rhat(_rank_normalised(_folded(halves))))


def effective_sample_size(draws: ArrayLike) -> PerCoordinate:
    """Bulk effective sample size of every coordinate: how many independent draws would tell its mean as well.

        ESS = M N / τ,    τ = 1 + 2 Σ_t ρ_t,

    for M chains of N draws, with the autocorrelations ρ_t of all chains together (chains that disagree make them
    large). The sum stops by Geyer's initial monotone sequence: pairs ρ_2k + ρ_2k+1 are positive and decrease for a
    reversible chain, so what breaks that is noise. Draws are split and rank-normalised first.

    This is ArviZ's `ess(method="bulk")`, with one difference. Where the pairs stay positive up to the last lag, all of
    them are summed here. ArviZ stops a few lags earlier, and so takes short, slow chains to be worth more.

    Args:
        draws: (chains, num_samples, dim). With fewer than 4 draws per chain the answer is NaN.

    Example:
        >>> chains = np.random.default_rng(0).normal(size=(4, 500, 1))
        >>> bool(abs(effective_sample_size(chains)[0] / 2000 - 1) < 0.15)
        True
    """
    draws = _checked(draws)
    if draws.shape[1] < MIN_DRAWS:
        return np.full(draws.shape[2], np.nan)
    return _ess(_rank_normalised(_halves(draws)))


def mean_error(draws: Draws) -> PerCoordinate:
    """The Monte Carlo standard error of the mean of every coordinate: the spread over √ESS, without ranks."""
    if draws.shape[1] < MIN_DRAWS:
        return np.full(draws.shape[2], np.nan)
    return draws.astype(float).std((0, 1), ddof=1) / np.sqrt(_ess(_halves(draws)))


def scale_sample_size(draws: Draws) -> PerCoordinate:
    """The effective sample size of |x − median|: how well the chains know each coordinate's spread.

    Trajectories that swing to the other side make x alternate, so that its own effective sample size is large,
    while |x| hardly moves; this number sees that.
    """
    if draws.shape[1] < MIN_DRAWS:
        return np.full(draws.shape[2], np.nan)
    return _ess(_rank_normalised(_folded(_halves(draws))))


def _checked(draws: ArrayLike) -> Draws:
    array = check_numbers("draws", draws, "an array of numbers of shape (chains, num_samples, dim)")
    if array.ndim != 3 or array.size == 0:
        raise ValueError(
            f"draws must have shape (chains, num_samples, dim), with no axis of length 0; got {array.shape}."
        )
    return array


def _halves(draws: Draws) -> Float[np.ndarray, "halves half_draws dim"]:
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]]).astype(float)


def _folded(draws: Draws) -> Draws:
    return np.abs(draws - np.median(draws, axis=(0, 1)))


def _rank_normalised(draws: Draws) -> Draws:
    """Φ⁻¹((rank − 3/8) / (S + 1/4)) with ranks among all S draws of a coordinate; ties share their mean rank."""
    flat = draws.reshape(-1, draws.shape[2])
    ranks = stats.rankdata(flat, axis=0, nan_policy="propagate")
    return special.ndtri((ranks - 0.375) / (len(flat) + 0.25)).reshape(draws.shape)


def _rhat(draws: Draws) -> PerCoordinate:
    num_samples = draws.shape[1]
    within = draws.var(1, ddof=1).mean(0)
    between = draws.mean(1).var(0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):  # chains that do not move: ∞, or NaN where all are equal
        return np.sqrt((num_samples - 1) / num_samples + between / within)


def _ess(draws: Draws) -> PerCoordinate:
    num_chains, num_samples, _ = draws.shape
    autocovariance = _autocovariance(draws).mean(0)
    within = autocovariance[0] * num_samples / (num_samples - 1)
    total = autocovariance[0] + (draws.mean(1).var(0, ddof=1) if num_chains > 1 else 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = 1.0 - (within - autocovariance) / total
    rho[0] = 1.0
    even, odd = rho[: num_samples // 2 * 2 : 2], rho[1 : num_samples // 2 * 2 : 2]
    positive = np.logical_and.accumulate(even + odd > 0, axis=0)
    pairs = np.where(positive, np.minimum.accumulate(even + odd, axis=0), 0.0)
    # Of the pair that ends the sum, ρ_2k is still added once if it is positive, as Stan and ArviZ do.
    end = np.minimum(positive.sum(0), len(even) - 1)
    remainder = np.where(positive.all(0), 0.0, np.maximum(np.take_along_axis(even, end[None], 0)[0], 0.0))
    size = num_chains * num_samples
    # An alternating chain can be worth more than its length, but a noisy τ near zero is not to be believed.
    tau = np.maximum(-1.0 + 2.0 * pairs.sum(0) + remainder, 1.0 / np.log10(size))
    return np.where(np.isfinite(total) & (total > 0), size / tau, np.nan)


def _autocovariance(draws: Draws) -> Draws:
    """Of every chain, at lag 0, 1, …, with divisor N."""
    num_samples = draws.shape[1]
    size = fft.next_fast_len(2 * num_samples, real=True)
    spectrum = fft.rfft(draws - draws.mean(1, keepdims=True), size, axis=1)
    return fft.irfft(np.abs(spectrum) ** 2, size, axis=1)[:, :num_samples] / num_samples
