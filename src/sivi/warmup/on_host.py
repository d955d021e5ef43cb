"""The warm-up with a full covariance as `fit` runs it: the steps are a program, and what follows them is NumPy.

`sivi.warmup.attempts` pools the starts inside a program, so that a warm-up works under `jit` and `vmap`. Nearly half of
that program is linear algebra of a few small matrices, which XLA compiles for longer than NumPy takes to compute it.
The formulas are those of `sivi.warmup.mixture_moments` and `sivi.warmup.status`, here in float64.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from scipy.linalg import solve_triangular
from scipy.special import logsumexp

from .._arguments import default_float
from .._batches import BatchWindows
from .._repeats import stack_trees
from ..coordinates import DenseMap
from ..targets import Target
from ..targets.evaluate import log_probs_at, scores_at
from .attempts import START_SDS, Starts
from .dense import fit_dense, in_pairs
from .mixture_moments import MAX_SHARE_NOT_FINITE
from .numbers import WarmupNumbers
from .status import (
    FAR,
    MAX_DISTANCE,
    MAX_DRIFT,
    MAX_GAP,
    MIN_GROWTH,
    MIN_WEIGHT,
    NEVER_MOVED,
    NOT_SETTLED,
    RAN_AWAY,
    SETTLED,
)


class Steps(NamedTuple):
    """What the steps of one attempt found, for every start.

    Attributes:
        first: m₀.
        mean: m.
        root: L.
        drift: E[r] over the last quarter of the steps.
        gap: G over them.
        values: log p at draws of N(m, L Lᵀ); where only scores are known 0, or NaN where these are not finite.
    """

    first: Float[Array, "*repeats starts dim"]
    mean: Float[Array, "*repeats starts dim"]
    root: Float[Array, "*repeats starts dim dim"]
    drift: Float[Array, "*repeats starts dim"]
    gap: Float[Array, "*repeats starts dim dim"]
    values: Float[Array, "*repeats starts draws"]


class Pooled(NamedTuple):
    """The starts of one attempt as one map; see `sivi.warmup.attempts.Attempt`."""

    affine: tuple[np.ndarray, ...]
    code: int
    log_mass: float
    distance: float

    def is_better_than(self, other: "Pooled") -> bool:
        """Whether its status is better; of two alike, whether it has found more mass."""
        return self.code < other.code or (self.code == other.code and self.log_mass > other.log_mass)


def steps_of_attempt(
    target: Target, numbers: WarmupNumbers, windows: BatchWindows | None, index: Int[Array, ""]
) -> Steps:
    """The program: one Gaussian fit from every start, and the target at draws of them."""
    first, scale = Starts(numbers.starts, target, windows).of_attempt(index)
    fitted = fit_dense(target, first, scale, numbers.steps, windows)
    points = fitted.mean[:, None, :] + jnp.einsum("nj,kij->kni", in_pairs(numbers.weights), fitted.root)
    if target.knows_log_prob:
        values = log_probs_at(target, points)
    else:
        finite = jnp.all(jnp.isfinite(scores_at(target, points)), axis=-1)
        values = jnp.where(finite, 0.0, jnp.nan).astype(points.dtype)
    return Steps(first, fitted.mean, fitted.root, fitted.evidence.drift, fitted.evidence.gap, values)


def find_maps(
    attempt: Callable[[int], Steps], numbers: WarmupNumbers, knows_log_prob: bool, noise: float
) -> tuple[DenseMap, Int[np.ndarray, " repeats"], Bool[np.ndarray, " repeats"]]:
    """The maps of all repeats, the codes of their status, and whether their starts disagree.

    Args:
        attempt: Runs the steps of the attempt of this number, for all repeats.
        numbers: Those of the attempt, for all repeats.
        knows_log_prob: Whether `values` are log densities.
        noise: Of minibatches in the mean of E[r], see `sivi.warmup.status.drift_noise`.
    """
    half = np.asarray(numbers.weights, float)
    draws = np.concatenate([half, -half], axis=1)
    best: list[Pooled] = []
    for index in range(len(START_SDS)):
        steps = Steps(*(np.asarray(part, float) for part in attempt(index)))
        found = [pool(Steps(*parts), u, knows_log_prob, noise) for *parts, u in zip(*steps, draws, strict=True)]
        best = [new if new.is_better_than(old) else old for new, old in zip(found, best or found, strict=True)]
        if all(pooled.code == SETTLED for pooled in best):
            break
    affine = stack_trees([DenseMap(*(jnp.asarray(_as_stored(array)) for array in pooled.affine)) for pooled in best])
    disagree = np.array([pooled.distance > MAX_DISTANCE for pooled in best])
    return affine, np.array([pooled.code for pooled in best]), disagree


def pool(steps: Steps, u: Float[np.ndarray, "draws dim"], knows_log_prob: bool, noise: float) -> Pooled:
    """The Gaussians of all starts of one repeat as one map."""
    with np.errstate(all="ignore"):
        identity = np.eye(u.shape[1])
        usable = np.asarray(np.isfinite(steps.root).all((1, 2)) & np.isfinite(steps.mean).all(1))
        roots = np.where(usable[:, None, None], steps.root, identity)
        means = np.where(usable[:, None], steps.mean, 0.0)
        log_dets = np.linalg.slogdet(roots)[1]
        usable &= np.isfinite(log_dets)
        inverses = np.linalg.inv(np.where(usable[:, None, None], roots, identity))
        weights, log_mass = _weights(u, means, roots, inverses, log_dets, usable, steps.values, knows_log_prob)
        codes = np.array([_code(*parts, noise) for parts in zip(*steps[:5], strict=True)])
        worst = int(np.max(np.where(weights >= MIN_WEIGHT, codes, SETTLED)))
        best = int(np.argmax(weights))
        offsets = (means - weights @ means) @ inverses[best].T
        distance = float(np.sum(weights @ offsets**2))
        try:
            relative = np.sqrt(weights)[:, None, None] * (inverses[best] @ roots)
            spread = np.sqrt(weights)[:, None] * offsets
            factor = np.linalg.cholesky(np.einsum("kij,klj->il", relative, relative) + spread.T @ spread)
            back = solve_triangular(factor, inverses[best], lower=True)
            log_det = log_dets[best] + np.sum(np.log(np.diagonal(factor)))
            affine = (weights @ means, roots[best] @ factor, back, np.asarray(log_det))
        except (np.linalg.LinAlgError, ValueError):
            affine = (np.array([np.nan]),)
        if not weights.any() or not all(np.isfinite(_as_stored(array)).all() for array in affine):
            affine, worst = (steps.first[0], identity, identity, np.array(0.0)), NEVER_MOVED
    return Pooled(affine, worst, log_mass, distance if np.isfinite(distance) else np.inf)


def _as_stored(array: np.ndarray) -> np.ndarray:
    return np.asarray(array).astype(default_float())


def _weights(
    u: Float[np.ndarray, "draws dim"],
    means: Float[np.ndarray, "starts dim"],
    roots: Float[np.ndarray, "starts dim dim"],
    inverses: Float[np.ndarray, "starts dim dim"],
    log_dets: Float[np.ndarray, " starts"],
    usable: Bool[np.ndarray, " starts"],
    values: Float[np.ndarray, "starts draws"],
    knows_log_prob: bool,
) -> tuple[Float[np.ndarray, " starts"], float]:
    """The weights of the starts, and the log of all mass found; see `sivi.warmup.mixture_moments`."""
    finite = np.isfinite(values)
    share = finite.mean(axis=1)
    succeeded = usable & (share > 1.0 - MAX_SHARE_NOT_FINITE)
    log_weights = np.zeros(len(means))
    if knows_log_prob:
        points, squares = means[:, None, :] + np.einsum("nj,kij->kni", u, roots), 0.5 * np.sum(u**2, axis=1)
        relative = np.full((len(means), *values.shape), -np.inf)
        for j in np.flatnonzero(succeeded):
            exponents = 0.5 * np.sum(((points - means[j]) @ inverses[j].T) ** 2, axis=-1)
            ratio = squares - exponents + (log_dets[:, None] - log_dets[j])
            ratio[j] = 0.0
            relative[j] = np.where(np.isfinite(ratio), ratio, -np.inf)
        terms = values + squares - logsumexp(relative, axis=0)
        finite &= np.isfinite(terms)
        count = np.maximum(finite.sum(axis=1, keepdims=True), 1)
        log_weights = np.sum(np.where(finite, terms, 0.0) / count, axis=1) + np.log(share) + log_dets
    log_weights = np.where(succeeded & np.isfinite(log_weights), log_weights, -np.inf)
    top = np.max(log_weights) if np.isfinite(log_weights).any() else 0.0
    terms = np.exp(log_weights - top)
    return terms / max(terms.sum(), np.finfo(float).tiny), float(top + np.log(terms.sum()))


def _code(
    first: np.ndarray, mean: np.ndarray, root: np.ndarray, drift: np.ndarray, gap: np.ndarray, noise: float
) -> int:
    """The code of one start; see `sivi.warmup.status.start_code`."""
    if np.array_equal(mean, first):
        return NEVER_MOVED
    values = np.linalg.eigvalsh(0.5 * (gap + gap.T)) if np.isfinite(gap).all() else np.full(len(mean), np.nan)
    if np.max(values) > MIN_GROWTH and (np.max(np.abs(root)) > FAR or np.max(np.abs(mean)) > FAR):
        return RAN_AWAY
    quiet = np.sqrt(np.mean(drift**2)) <= MAX_DRIFT + 2.0 * noise
    return SETTLED if quiet and np.max(np.abs(values)) <= MAX_GAP else NOT_SETTLED
