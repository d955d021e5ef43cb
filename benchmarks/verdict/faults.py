"""The planted faults: each makes wrong draws of exact ones."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .known import Known

#: Draws of which a target's moments are taken.
MOMENT_DRAWS = 100_000
NARROW, WIDE, SHIFT = 0.7, 1.3, 0.3
#: Share of the draws that is in the neck of a funnel, and how far a mode's weight is off.
NECK, WEIGHT = 0.15, 0.2
#: A mode is lost whose weight is at least this, and at most one half.
LEAST_MODE = 0.1


class Moments(NamedTuple):
    mean: np.ndarray
    sd: np.ndarray
    covariance: np.ndarray


class Fault(NamedTuple):
    """A change of exact draws.

    Attributes:
        about: What it does, in a line.
        draws: A target, its moments, a generator, a number of draws and a variant → wrong draws (num, dim).
        applies: Whether the target has what it changes.
        variants: How many there are on a target: unknowns, or modes.
    """

    about: str
    draws: Callable[[Known, Moments, np.random.Generator, int, int], np.ndarray]
    applies: Callable[[Known], bool]
    variants: Callable[[Known], int] = lambda known: 1


def moments_of(known: Known) -> Moments:
    """From many exact draws."""
    draws = known.exact(np.random.default_rng(1), MOMENT_DRAWS)
    return Moments(draws.mean(0), draws.std(0), np.atleast_2d(np.cov(draws.T)))


def exact(known: Known, moments: Moments, rng: np.random.Generator, num: int, variant: int) -> np.ndarray:
    return known.exact(rng, num)


def _scaled(factor: float, in_one: bool):
    def draws(known: Known, moments: Moments, rng: np.random.Generator, num: int, variant: int) -> np.ndarray:
        x = known.exact(rng, num)
        which = [variant] if in_one else slice(None)
        x[:, which] = moments.mean[which] + factor * (x[:, which] - moments.mean[which])
        return x

    return draws


def _shifted(known: Known, moments: Moments, rng: np.random.Generator, num: int, variant: int) -> np.ndarray:
    x = known.exact(rng, num)
    x[:, variant] += SHIFT * moments.sd[variant]
    return x


def _product(known: Known, moments: Moments, rng: np.random.Generator, num: int, variant: int) -> np.ndarray:
    """Marginals as they are, and nothing between them: each unknown is permuted."""
    return rng.permuted(known.exact(rng, num), axis=0)


def _gaussian(known: Known, moments: Moments, rng: np.random.Generator, num: int, variant: int) -> np.ndarray:
    scaled = moments.covariance / np.outer(moments.sd, moments.sd)
    factor = moments.sd[:, None] * np.linalg.cholesky(scaled + 1e-9 * np.eye(known.dim))
    return moments.mean + rng.normal(size=(num, known.dim)) @ factor.T


def kept(known: Known, rng: np.random.Generator, num: int, keep: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """So many exact draws of those that a rule keeps, each with a probability."""
    parts, missing = [], num
    while missing > 0:
        x = known.exact(rng, 2 * num)
        parts.append(x[rng.uniform(size=len(x)) < keep(x)][:missing])
        missing -= len(parts[-1])
    return np.concatenate(parts)


def _without_neck(known: Known, moments: Moments, rng: np.random.Generator, num: int, variant: int) -> np.ndarray:
    neck = known.neck
    if neck is None:
        raise ValueError(f"{known.name} has no neck.")
    edge = np.quantile(known.exact(np.random.default_rng(2), MOMENT_DRAWS)[:, neck], NECK)
    return kept(known, rng, num, lambda x: (x[:, neck] > edge).astype(float))


def _reweighted(known: Known, rng: np.random.Generator, num: int, weights: np.ndarray) -> np.ndarray:
    """Draws in which the modes have other weights."""
    ratio = weights / known.modes.weights
    return kept(known, rng, num, lambda x: (ratio / ratio.max())[nearest_mode(known, x)])


def nearest_mode(known: Known, x: np.ndarray) -> np.ndarray:
    """The number of the nearest mode of every draw."""
    return np.stack([((x - mean) ** 2).sum(1) for mean in known.modes.means]).argmin(0)


def modes_to_lose(known: Known) -> np.ndarray:
    """Their numbers."""
    weights = known.modes.weights
    return np.flatnonzero((weights >= LEAST_MODE) & (weights <= 0.5))


def _lost_mode(known: Known, moments: Moments, rng: np.random.Generator, num: int, variant: int) -> np.ndarray:
    weights = known.modes.weights.copy()
    weights[modes_to_lose(known)[variant]] = 0.0
    return _reweighted(known, rng, num, weights / weights.sum())


def wrong_weights(weights: np.ndarray, mode: int) -> np.ndarray:
    """One mode has 0.2 more than its due, or less where more would leave the others with nothing."""
    changed = weights.copy()
    changed[mode] += WEIGHT if weights[mode] + WEIGHT < 0.95 else -WEIGHT
    others = np.arange(len(weights)) != mode
    changed[others] *= (1.0 - changed[mode]) / weights[others].sum()
    return changed


def _wrong_weights(known: Known, moments: Moments, rng: np.random.Generator, num: int, variant: int) -> np.ndarray:
    return _reweighted(known, rng, num, wrong_weights(known.modes.weights, variant))


def _always(known: Known) -> bool:
    return True


def _has_modes(known: Known) -> bool:
    return known.modes is not None


def _dim(known: Known) -> int:
    return known.dim


EXACT = Fault("exact draws", exact, _always)
#: Of the minibatch fault the draws are exact: only the model's minibatches are wrong.
FAULTS = {
    "narrow": Fault("sd × 0.7 in all unknowns", _scaled(NARROW, in_one=False), _always),
    "wide": Fault("sd × 1.3 in all unknowns", _scaled(WIDE, in_one=False), _always),
    "narrow-one": Fault("sd × 0.7 in one unknown", _scaled(NARROW, in_one=True), _always, _dim),
    "wide-one": Fault("sd × 1.3 in one unknown", _scaled(WIDE, in_one=True), _always, _dim),
    "shifted-one": Fault("mean + 0.3 sd in one unknown", _shifted, _always, _dim),
    "product": Fault("product of the marginals", _product, _always),
    "gaussian": Fault("a Gaussian with the right moments", _gaussian, _always),
    "neck": Fault("the neck of a funnel removed", _without_neck, lambda known: known.neck is not None),
    "lost-mode": Fault(
        "a mode lost",
        _lost_mode,
        lambda known: _has_modes(known) and len(modes_to_lose(known)) > 0,
        lambda known: len(modes_to_lose(known)),
    ),
    "weights": Fault("a mode's weight off by 0.2", _wrong_weights, _has_modes, lambda known: len(known.modes.weights)),
    "minibatch": Fault("minibatch scale N/B forgotten", exact, lambda known: known.batch_size is not None),
}
