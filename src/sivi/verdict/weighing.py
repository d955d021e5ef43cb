"""Chains of a mode, in coordinates of its own, and the masses of several modes from them."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from ..coordinates import AffineMap
from ..targets import Target
from . import masses
from .chains import advance, evaluate
from .frame import frame_of
from .laplace import laplace
from .maps import to_u, to_x
from .tuning import tune

#: Chains of a mode, and transitions of the run whose snapshots are its draws.
NUM_CHAINS = 512
NUM_TRANSITIONS = 32
#: Fewer places than this, and than two per unknown, do not say what the coordinates of a mode are.
MIN_PLACES, PLACES_PER_DIM = 16, 2
#: Chains may leave a mode. Those that are this many quartile ranges further from its centre than the median of the
#: places that are known do not shape its coordinates.
MAX_RANGES = 3.0


class ModeChains(NamedTuple):
    """Draws of one mode.

    Attributes:
        affine: Coordinates from these draws.
        snapshots: In x.
        log_prob: Of the snapshots.
        num_gradients: Spent on them.
        origin: The place that each chain has started from.
    """

    affine: AffineMap
    snapshots: Float[np.ndarray, "snapshots chains dim"]
    log_prob: Float[np.ndarray, "snapshots chains"]
    num_gradients: int
    origin: Int[np.ndarray, " chains"]


def relax(
    key: PRNGKeyArray,
    target: Target,
    affine: AffineMap,
    top: Float[np.ndarray, " dim"],
    places: Float[np.ndarray, "num dim"],
    effort: float = 1.0,
) -> ModeChains | None:
    """Chains of one mode, in coordinates of its own, which move on while their step size is tuned.

    The first coordinates are those of the places; if these are few, of the curvature at the top; if that is of no use,
    of chains that move in the coordinates of the fit. None if they do not move at all.

    Args:
        key: Random key.
        target: p.
        affine: Coordinates of the fit.
        top: Of the mode, in x.
        places: Of the mode, in x; chains start from all of them in turn.
        effort: Multiplies the length of the last run.
    """
    first_key, second_key, last_key = jax.random.split(key, 3)
    origin = np.arange(NUM_CHAINS) % len(places)
    positions, gradients = places[origin], 0
    if len(places) >= max(MIN_PLACES, PLACES_PER_DIM * target.dim):
        first, known = _coordinates(places), places
    elif (first := laplace(target, top, affine)) is not None:
        rng = np.random.default_rng(np.asarray(jax.random.key_data(first_key)))
        positions = known = to_x(first, rng.standard_normal((NUM_CHAINS, target.dim)))
        gradients, origin = 4 * target.dim, np.arange(NUM_CHAINS)
    else:
        tuned = tune(first_key, target, positions, affine)
        positions, gradients = tuned.positions, tuned.num_gradients
        first, known = _coordinates(positions), positions
    if first is None:
        return None
    low, middle, high = np.quantile(_radius(first, known), [0.25, 0.5, 0.75])
    reach = float(middle + MAX_RANGES * (high - low))
    tuned = tune(second_key, target, positions, first)
    own = _coordinates(tuned.positions, first, reach)
    if own is None:
        return None
    moved = advance(
        last_key,
        target,
        tuned.positions,
        own,
        step_size=tuned.step_size,
        num_transitions=max(16, round(NUM_TRANSITIONS * effort)),
        max_leapfrog=tuned.max_leapfrog,
    )
    final = _coordinates(moved.snapshots.reshape(-1, target.dim), first, reach)
    if final is None:
        return None
    gradients += tuned.num_gradients + moved.num_gradients
    return ModeChains(final, moved.snapshots, moved.snapshot_log_prob, gradients, origin)


def _radius(affine: AffineMap, x: np.ndarray) -> np.ndarray:
    return np.linalg.norm(to_u(affine, x), axis=1)


def _coordinates(draws: np.ndarray, before: AffineMap | None = None, reach: float = np.inf) -> AffineMap | None:
    """Coordinates from draws of a mode, without those that coordinates known before say are out of reach."""
    draws = np.asarray(draws, float)
    if not np.isfinite(draws).all():
        return None
    if before is not None:
        near = _radius(before, draws) <= reach
        if near.sum() < max(MIN_PLACES, PLACES_PER_DIM * draws.shape[1]):
            return before
        draws = draws[near]
    scale = draws.std(axis=0)
    if not (scale > 1e-6 * (1e-30 + np.abs(draws).max(axis=0))).all():
        return None
    return frame_of(draws, size=float(min(len(draws), NUM_CHAINS))).affine


class Weighed(NamedTuple):
    """Masses of modes, and the region of every draw of q.

    Attributes:
        masses: Of each mode.
        label: The mode of each draw of q.
        labels: The mode whose region each draw of a mode's chains is in.
        num_evaluations: Of log p.
    """

    masses: masses.Masses
    label: np.ndarray
    labels: list[np.ndarray]
    num_evaluations: int


def weigh(
    key: PRNGKeyArray, target: Target, modes: Sequence[ModeChains], q_draws: Float[np.ndarray, "num dim"]
) -> Weighed:
    """Masses of the modes by bridge sampling inside their regions, and which region each draw of q is in."""
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    prior = [_log_mass_as_gaussian(mode) for mode in modes]

    def regions(x: np.ndarray) -> np.ndarray:
        found = [height + _log_gaussian(mode.affine, x) for mode, height in zip(modes, prior, strict=True)]
        return masses.regions(np.stack(found))

    labels, rows, trends, num_evaluations = [], [], [], 0
    for i, mode in enumerate(modes):
        num_snapshots, num_chains, dim = mode.snapshots.shape
        flat = mode.snapshots.reshape(-1, dim)
        label = regions(flat).reshape(num_snapshots, num_chains)
        log_det = float(mode.affine.log_det)
        values = masses.inside_region(label, i, mode.log_prob + log_det)

        def log_density(u: np.ndarray, i: int = i, affine: AffineMap = mode.affine, log_det: float = log_det):
            x = to_x(affine, u)
            log_prob = evaluate(target, x, affine).log_prob
            return masses.inside_region(regions(x), i, log_prob + log_det)

        draws = to_u(mode.affine, flat).reshape(num_snapshots, num_chains, dim)
        by_chain = draws.swapaxes(0, 1).astype(float)
        rows.append(masses.bridge_log_masses(rng, by_chain, values.T, log_density, mode.origin))
        labels.append(label)
        trends.append(masses.trend(values.T))
        num_evaluations += flat.shape[0]
    crossings = masses.crossing_shares(labels, len(modes))
    found = masses.normalised(np.stack(rows), crossings, np.array(trends))
    return Weighed(found, regions(q_draws), labels, num_evaluations)


def _log_gaussian(affine: AffineMap, x: np.ndarray) -> np.ndarray:
    return -0.5 * np.sum(to_u(affine, x) ** 2, axis=1, dtype=float) - float(affine.log_det)


def _log_mass_as_gaussian(mode: ModeChains) -> float:
    """The log mass that the mode would have if it were Gaussian: a discriminant is then close to log p itself."""
    dim = mode.snapshots.shape[-1]
    return float(np.median(mode.log_prob)) + 0.5 * dim + float(mode.affine.log_det)
