"""The fingerprint of a target: tells whether a stored fit belongs to it."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._arguments import default_float
from .._programs import compiled
from .._traced import float_types_of
from .base import Target

_POINTS = 4


def fingerprint_of(target: Target) -> Float[np.ndarray, "points dim"]:
    """The target's score at a few fixed points: enough to tell one model from another."""
    points = np.random.default_rng(0).normal(size=(_POINTS, target.dim))
    with float_types_of(target):  # a file may be written where they are others than in the fit
        return np.asarray(_scores(target, jnp.asarray(points, default_float())), np.float64)


@compiled
def _scores(target: Target, points: Float[Array, "points dim"]) -> Float[Array, "points dim"]:
    # One point at a time: side by side, with all data, would take four times the memory for no gain.
    return jax.lax.map(target.score, points)


def same_fingerprint(scores: np.ndarray, stored: np.ndarray) -> bool:
    """Whether two fingerprints agree in every coordinate, up to differences between devices and versions."""
    finite = np.isfinite(stored)
    if scores.shape != stored.shape or (np.isfinite(scores) != finite).any():
        return False
    scale = np.where(finite, np.abs(stored), 0.0).max(axis=0, keepdims=True, initial=0.0)
    allowed = 1e-3 * np.abs(stored) + 1e-4 * scale
    return bool((np.abs(scores - stored) <= allowed)[finite].all())
