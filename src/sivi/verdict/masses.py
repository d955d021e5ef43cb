"""What share of the probability each mode has: regions, and bridge sampling inside them."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import logsumexp
from scipy.stats import t as student

#: Sub-estimates of a mass, each from chains of its own; their spread gives the error.
NUM_GROUPS = 8

#: Two errors cover a true value in 95 of 100 cases, as two standard errors of a normal estimate do.
ERROR_FACTOR = float(student.ppf(0.975, NUM_GROUPS - 1)) / 2.0

#: Iterations of the bridge; it converges linearly, and fast unless the two densities hardly overlap.
MAX_ITERATIONS = 200

#: Draws that a sub-estimate needs inside its region, at least.
MIN_DRAWS = 8

#: Times the dimension: chains that a covariance needs to be used as a full matrix.
CHAINS_PER_DIM = 2


class Masses(NamedTuple):
    """Shares of the probability, and their errors: two of them cover the truth in 95 of 100 cases."""

    mass: Float[np.ndarray, " modes"]
    error: Float[np.ndarray, " modes"]


def regions(log_discriminants: Float[np.ndarray, "modes num"]) -> Int[np.ndarray, " num"]:
    """Which mode each point belongs to, by quadratic discriminants.

    Args:
        log_discriminants: −½ |u|² − log |det L| of each point in the coordinates x = m + L u of each mode, which makes
            modes in coordinates of their own comparable.
    """
    finite = np.where(np.isfinite(log_discriminants), log_discriminants, -np.inf)
    return np.argmax(finite, axis=0)


def bridge_log_masses(
    rng: np.random.Generator,
    draws: Float[np.ndarray, "chains snapshots dim"],
    values: Float[np.ndarray, "chains snapshots"],
    log_density: Callable[[Float[np.ndarray, "num dim"]], Float[np.ndarray, " num"]],
    origin: Int[np.ndarray, " chains"] | None = None,
) -> Float[np.ndarray, " groups"]:
    """Sub-estimates of log ∫ p over a region, from draws of p inside it.

    Each is from an eighth of the chains, and bridges to a Gaussian that was fitted to other chains: a Gaussian that
    knows the draws it is compared with would be too close to them. These are the next three eighths, in a circle. So no
    two groups are fitted to each other, which would make their errors alike, and their spread too small. All draws of
    a chain, and of all chains from one origin, are in one group, so the spread holds however correlated they are.

    Args:
        rng: Draws from the Gaussians.
        draws: In coordinates in which the region has a scale of about one.
        values: log p at the draws, up to a constant; −∞ outside the region.
        log_density: The same at any points.
        origin: Where each chain has started; all from places of their own by default.

    Returns:
        −∞ where a group has too few draws inside the region.
    """
    num_chains, num_snapshots, dim = draws.shape
    inside = np.isfinite(values)
    group = _groups(rng, np.arange(num_chains) if origin is None else origin)
    num_each = num_chains * num_snapshots // NUM_GROUPS
    fits = []
    for g in range(NUM_GROUPS):
        others = (group - g) % NUM_GROUPS
        ahead = (others > 0) & (2 * others < NUM_GROUPS)
        fits.append(_gaussian(draws[ahead][inside[ahead]], int(ahead.sum())))
    noise = rng.standard_normal((NUM_GROUPS, num_each, dim))
    proposals = np.stack([fit.mean + _product(fit.root, e) for fit, e in zip(fits, noise, strict=True)])
    at_proposals = log_density(proposals.reshape(-1, dim)).reshape(NUM_GROUPS, num_each)
    estimates = np.full(NUM_GROUPS, -np.inf)
    for g, fit in enumerate(fits):
        mine = inside[group == g]
        if mine.sum() < MIN_DRAWS:
            continue
        at_draws = values[group == g][mine] - fit.log_prob(draws[group == g][mine])
        estimates[g] = bridge(at_draws, at_proposals[g] - fit.log_prob(proposals[g]))
    return estimates


def _groups(rng: np.random.Generator, origin: Int[np.ndarray, " chains"]) -> Int[np.ndarray, " chains"]:
    """The group of each chain, by its origin; by its number where origins are fewer than groups."""
    places, number = np.unique(origin, return_inverse=True)
    if len(places) < NUM_GROUPS:
        return rng.permutation(len(origin)) % NUM_GROUPS
    return (rng.permutation(len(places)) % NUM_GROUPS)[number]


def bridge(at_draws: Float[np.ndarray, " draws"], at_proposals: Float[np.ndarray, " proposals"]) -> float:
    """log ∫ p by optimal bridge sampling, the iteration of Meng and Wong (Statistica Sinica 6, 1996).

    Args:
        at_draws: log p − log g at draws of p.
        at_proposals: The same at draws of the normalised density g; −∞ where p is zero.
    """
    share = len(at_draws) / (len(at_draws) + len(at_proposals))
    usable = np.where(np.isfinite(at_proposals), at_proposals, -np.inf)
    if not np.isfinite(usable).any():
        return -math.inf
    log_share, log_rest = math.log(share), math.log1p(-share)
    estimate = float(np.median(at_draws))
    for _ in range(MAX_ITERATIONS):
        rest = log_rest + estimate
        top = _log_mean_exp(usable - np.logaddexp(log_share + usable, rest))
        bottom = _log_mean_exp(-np.logaddexp(log_share + at_draws, rest))
        before, estimate = estimate, top - bottom
        if abs(estimate - before) < 1e-5:
            break
    return estimate


def _log_mean_exp(values: Float[np.ndarray, " num"]) -> float:
    highest = float(values.max())
    return highest + math.log(float(np.exp(values - highest).mean()))


def normalised(
    log_masses: Float[np.ndarray, "modes groups"],
    crossings: Float[np.ndarray, "modes modes"] | None = None,
    trends: Float[np.ndarray, " modes"] | None = None,
) -> Masses:
    """Shares of the probability from sub-estimates of each mode's log mass.

    Args:
        log_masses: Of `bridge_log_masses`, one row per mode.
        crossings: Where the draws of each mode's chains are: the share of row i in the region of column j. Chains that
            keep p carry as much across a border in either direction; what does not balance is added to the error.
        trends: Of `trend`, one per mode, in nats: a log mass is taken to be uncertain by as much.
    """
    num_modes = len(log_masses)
    known = np.isfinite(log_masses.min(axis=1))
    if not known.any():
        return Masses(np.full(num_modes, 1.0 / num_modes), np.ones(num_modes))
    usable = np.where(known[:, None], log_masses, -np.inf)
    each = np.exp(usable - logsumexp(usable, axis=0))
    centre = usable.mean(axis=1)
    mass = np.exp(centre - logsumexp(centre))
    error = ERROR_FACTOR * each.std(axis=1, ddof=1) / math.sqrt(NUM_GROUPS)
    if crossings is not None:
        error = np.hypot(error, mass @ crossings - mass)
    if trends is not None:
        error = np.hypot(error, mass * (1.0 - mass) * np.linalg.norm(trends))
    return Masses(mass, np.where(known, error, 1.0))


def trend(values: Float[np.ndarray, "chains snapshots"]) -> float:
    """By how many nats log p still changes from the first half of the snapshots to the second, beyond noise.

    Args:
        values: log p of draws inside the region, −∞ for others.
    """
    inside = np.isfinite(values)
    half = values.shape[1] // 2
    early, late = inside[:, :half].sum(axis=1), inside[:, half:].sum(axis=1)
    both = (early > 0) & (late > 0)
    if both.sum() < 2:
        return 0.0
    known = np.where(inside, values, 0.0)[both]
    change = known[:, half:].sum(axis=1) / late[both] - known[:, :half].sum(axis=1) / early[both]
    noise = change.std(ddof=1) / math.sqrt(both.sum())
    return float(max(0.0, abs(change.mean()) - 2.0 * noise))


def shares(label: Int[np.ndarray, " num"], num_modes: int, size: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Shares of draws in the regions of the modes, and their standard errors.

    Args:
        label: The mode of each draw.
        num_modes: All modes.
        size: How many independent draws they are worth; all by default.
    """
    size = len(label) if size is None else size
    share = np.bincount(label, minlength=num_modes) / len(label)
    # One draw more in either direction: a share of 0 is not known without error.
    padded = (size * share + 1.0) / (size + 2.0)
    return share, np.sqrt(padded * (1.0 - padded) / size)


class _Gaussian(NamedTuple):
    mean: Float[np.ndarray, " dim"]
    # Full matrices, or diagonals as vectors.
    root: Float[np.ndarray, "..."]
    inverse_root: Float[np.ndarray, "..."]
    log_det: float

    def log_prob(self, points: Float[np.ndarray, "num dim"]) -> Float[np.ndarray, " num"]:
        u = _product(self.inverse_root, points - self.mean)
        return -0.5 * np.sum(u**2, axis=1) - self.log_det - 0.5 * points.shape[1] * math.log(2.0 * math.pi)


def _product(root: np.ndarray, points: Float[np.ndarray, "num dim"]) -> Float[np.ndarray, "num dim"]:
    return points * root if root.ndim == 1 else points @ root.T


def _gaussian(draws: Float[np.ndarray, "num dim"], num_chains: int) -> _Gaussian:
    """A Gaussian with the moments of the draws; a diagonal one if there are too few chains for a covariance."""
    dim = draws.shape[1]
    if len(draws) < MIN_DRAWS:
        return _Gaussian(np.zeros(dim), np.ones(dim), np.ones(dim), 0.0)
    mean, variance = draws.mean(axis=0), draws.var(axis=0)
    variance = np.maximum(variance, 1e-12 * max(1.0, float(variance.max())))
    if num_chains < CHAINS_PER_DIM * dim or len(draws) < CHAINS_PER_DIM * dim:
        sd = np.sqrt(variance)
        return _Gaussian(mean, sd, 1.0 / sd, float(np.log(sd).sum()))
    # Shrunk a little towards its diagonal, as noise of few chains asks for.
    weight = 1.0 / (1.0 + num_chains / dim)
    covariance = (1.0 - weight) * np.cov(draws.T).reshape(dim, dim) + weight * np.diag(variance)
    root = np.linalg.cholesky(covariance)
    return _Gaussian(mean, root, np.linalg.inv(root), float(np.log(np.diagonal(root)).sum()))


def crossing_shares(labels: Sequence[Int[np.ndarray, "..."]], num_modes: int) -> Float[np.ndarray, "modes modes"]:
    """Where the draws of each mode's chains are: in the regions of which modes, as shares of each row."""
    return np.stack([np.bincount(label.ravel(), minlength=num_modes) / max(1, label.size) for label in labels])


def inside_region(label: Int[np.ndarray, "..."], mode: int, values: np.ndarray) -> np.ndarray:
    """log p where a point is in the region of a mode, −∞ elsewhere and where log p is not a number."""
    keep: Bool[np.ndarray, "..."] = (label == mode) & np.isfinite(values)
    return np.where(keep, values, -np.inf)
