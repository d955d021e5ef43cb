"""The coordinates that the draws give: those of the chains, x = m + L u, and axes along which statistics are taken."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._arguments import default_float
from ..coordinates import AffineMap, DenseMap, DiagonalMap, LowRankMap
from . import limits


class Frame(NamedTuple):
    """What the draws say of location and scale.

    Attributes:
        mean: m.
        scale: s, standard deviations.
        affine: x = m + L u for the chains.
        axes: Whitened axes, as columns of covectors of z = (x − m) / s: all, or those of most spread.
        base: What random directions are combinations of: the axes if they are all, or None for the unknowns.
        pairs: Of more than 128 unknowns, the pairs that are most correlated; None for all pairs, or if not known.
        rank: How many directions there are, if there are fewer than unknowns: in all others the draws hardly spread.
    """

    mean: Float[np.ndarray, " dim"]
    scale: Float[np.ndarray, " dim"]
    affine: AffineMap
    axes: Float[np.ndarray, "dim axes"]
    base: Float[np.ndarray, "dim base"] | None
    pairs: Int[np.ndarray, "pairs 2"] | None = None
    rank: int | None = None

    def standardised(self, x: Float[np.ndarray, "... dim"]) -> Float[np.ndarray, "... dim"]:
        """z = (x − m) / s."""
        return (x - self.mean) / self.scale


def frame_of(draws: Float[np.ndarray, "n dim"], size: float | None = None) -> Frame:
    """Coordinates from the covariance of draws.

    Up to 128 unknowns L is the Cholesky factor. Beyond, it is a diagonal and at most 32 directions whose spread is
    beyond what noise gives. Few draws for their number of unknowns are drawn towards the diagonal.

    Args:
        draws: (n, dim), finite, without constant columns.
        size: How many independent draws they are worth; all by default.
    """
    num, dim = float(len(draws)) if size is None else size, draws.shape[1]
    mean, scale = draws.mean(0, dtype=float), draws.std(0, dtype=float)
    z = (draws - mean) / scale
    if dim > limits.MAX_DIM_EIGEN:
        return _wide_frame(mean, scale, *_largest(z), num)
    correlation = z.T @ z / len(z)
    weight = min(1.0, dim / (5.0 * num)) if dim > 1 else 0.0
    correlation = (1.0 - weight) * correlation + weight * np.eye(dim)
    if dim <= limits.MAX_DIM_DENSE:
        factor = np.linalg.cholesky(correlation + 1e-6 * np.eye(dim))
        inverse = np.linalg.inv(factor)
        affine = DenseMap(
            _array(mean),
            _array(scale[:, None] * factor),
            _array(inverse / scale),
            _array(float(np.sum(np.log(np.diag(factor) * scale)))),
        )
        return Frame(mean, scale, affine, inverse.T, inverse.T)
    return _wide_frame(mean, scale, *np.linalg.eigh(correlation), num)._replace(pairs=_strongest(correlation))


def frame_of_predictions(draws: Float[np.ndarray, "n quantities"], size: float) -> Frame:
    """Location, scale and axes of predictions; no chain moves in them.

    Predictions at neighbouring inputs are almost the same number. So axes are the principal components of their
    correlations, less those with next to no spread: a thousandth of it is a detail that nobody asks for, of which the
    draws that chose it know too little.

    Args:
        draws: (n, quantities), finite, without constant columns.
        size: How many independent draws they are worth.
    """
    mean, scale = draws.mean(0, dtype=float), draws.std(0, dtype=float)
    z = (draws - mean) / scale
    num = len(mean)
    correlation = None if num > limits.MAX_DIM_EIGEN else z.T @ z / len(z)
    values, vectors = _largest(z) if correlation is None else np.linalg.eigh(correlation)
    kept = np.flatnonzero(values > limits.LEAST_SPREAD * num)[-2 * limits.MAX_RANK :]
    # Of few draws, only so many that they are known by enough of them each.
    kept = kept[-max(1, int(size / limits.DRAWS_PER_AXIS)) :]
    axes = vectors[:, kept] / np.sqrt(values[kept])
    pairs = _strongest(correlation) if correlation is not None and num > limits.MAX_DIM_ALL_PAIRS else None
    return Frame(mean, scale, DiagonalMap(_array(mean), _array(scale)), axes, axes, pairs, len(kept))


def _strongest(correlation: Float[np.ndarray, "dim dim"]) -> Int[np.ndarray, "pairs 2"]:
    first, second = np.triu_indices(len(correlation), 1)
    num = min(limits.MAX_PAIRS // 2, len(first))
    kept = np.argpartition(np.abs(correlation[first, second]), -num)[-num:]
    return np.stack([first[kept], second[kept]], 1)


def _largest(z: Float[np.ndarray, "n dim"]) -> tuple[np.ndarray, np.ndarray]:
    """The directions of most spread, by a few power iterations from random ones, and their variances, ascending."""
    basis = np.random.default_rng(0).normal(size=(z.shape[1], 2 * limits.MAX_RANK)).astype(z.dtype)
    for _ in range(4):
        basis = np.linalg.qr(z.T @ (z @ basis))[0]
    values, rotation = np.linalg.eigh(basis.T @ (z.T @ (z @ basis)) / len(z))
    return values, basis @ rotation


def _wide_frame(mean: np.ndarray, scale: np.ndarray, values: np.ndarray, vectors: np.ndarray, num: float) -> Frame:
    """A diagonal and a few directions, from eigenvalues and eigenvectors of the correlations."""
    dim = len(mean)
    edge = np.sqrt(dim / num)  # independent unknowns have eigenvalues up to (1 + edge)²
    high = 1.2 * (1.0 + edge) ** 2
    low = (1.0 - edge) ** 2 / 1.2 if edge < 1.0 else 0.0
    strength = np.where((values > high) | (values < low), np.abs(np.log(np.maximum(values, 1e-6))), 0.0)
    kept = np.argsort(-strength)[: limits.MAX_RANK]
    kept = kept[strength[kept] > 0.0]
    stretch = np.ones(limits.MAX_RANK)
    stretch[: len(kept)] = np.sqrt(np.maximum(values[kept], 1e-6))
    # The same number always, so that there is one program. The others must not be eigenvectors: u would run along them,
    # and along those of least spread the draws that chose them have too little.
    others = np.eye(dim, limits.MAX_RANK - len(kept))
    directions = np.linalg.qr(np.concatenate([vectors[:, kept], others], axis=1))[0]
    affine = LowRankMap(_array(mean), _array(scale), _array(directions), _array(stretch))
    return Frame(mean, scale, affine, vectors[:, -2 * limits.MAX_RANK :], None)


def _array(value: np.ndarray | float) -> Array:
    return jnp.asarray(value, default_float())
