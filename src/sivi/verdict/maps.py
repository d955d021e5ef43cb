"""Many points between x and the coordinates u of a map, as NumPy arrays, in blocks of one size."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._arguments import default_float
from .._programs import compiled
from ..coordinates import AffineMap

BLOCK = 1024


def to_u(affine: AffineMap, x: Float[np.ndarray, "num dim"]) -> Float[np.ndarray, "num dim"]:
    """u = L⁻¹ (x − m)."""
    return _mapped(_inverse, affine, x)


def to_x(affine: AffineMap, u: Float[np.ndarray, "num dim"]) -> Float[np.ndarray, "num dim"]:
    """x = m + L u."""
    return _mapped(_forward, affine, u)


def _mapped(function: Callable[[AffineMap, Array], Array], affine: AffineMap, points: np.ndarray) -> np.ndarray:
    num = len(points)
    found = [np.zeros((0, points.shape[1]), default_float())]
    for first in range(0, num, BLOCK):
        rows = first + np.arange(BLOCK) % min(BLOCK, num - first)
        block = function(affine, jnp.asarray(points[rows], default_float()))
        found.append(np.asarray(block)[: num - first])
    return np.concatenate(found)


@compiled
def _inverse(affine: AffineMap, x: Float[Array, "block dim"]) -> Float[Array, "block dim"]:
    return jax.vmap(affine.inverse)(x)


@compiled
def _forward(affine: AffineMap, u: Float[Array, "block dim"]) -> Float[Array, "block dim"]:
    return jax.vmap(affine.forward)(u)
