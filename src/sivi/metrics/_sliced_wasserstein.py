"""Sliced Wasserstein distance between two sets of draws."""

import jax
import jax.numpy as jnp
import numpy as np

from .._arguments import as_key, check_count, check_numbers, check_positive, describe
from .._types import ArrayLike, KeyLike
from ._draws import check_pair

_NUMBERS = 2**22  # projected draws held at once


def sliced_wasserstein(
    draws_p: ArrayLike,
    draws_q: ArrayLike,
    *,
    order: float | int = 1,
    num_slices: int = 100,
    key: KeyLike = 0,
    scale: str | int | ArrayLike | None = None,
) -> float:
    """The average distance, over random directions θ, of the draws projected on them.

        SW_r = ( (1/L) Σ_θ W_r(θᵀp, θᵀq)^r )^(1/r),    W_r(θᵀp, θᵀq)^r = ∫₀¹ |F⁻¹(u) − G⁻¹(u)|^r du,

    with F and G the empirical distributions of the two projected sets; for sets of unequal size the integral is
    still exact. The directions depend on `key`, `num_slices` and dim alone, so distances with the same ones can be
    compared without the noise of the slices. The estimate is biased up: for equal distributions it is not zero but
    of order 1/√n (0.057 ± 0.013 at 1,000 draws of each from N(0, I) in two dimensions), which `noise_floor` measures.

    Args:
        draws_p: (n, dim); the reference, where `scale="iqr"`.
        draws_q: (m, dim).
        order: r, at least 1.
        num_slices: L, the number of directions.
        key: An int or a JAX key for the directions.
        scale: What the coordinates of both sets are divided by: None, a positive number, an array (dim,), or
            `"iqr"` for the interquartile ranges of `draws_p`. It matters where coordinates differ in scale, since
            the widest would decide the distance alone.

    Returns:
        The distance, in the unit of the (scaled) draws.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> p, q = rng.normal(size=(5000, 1)), rng.normal(1.0, 1.0, size=(4000, 1))
        >>> abs(sliced_wasserstein(p, q) - 1.0) < 0.1
        True

    Reference:
        Bonneel, Rabin, Peyré and Pfister, Sliced and Radon Wasserstein barycenters of measures (Journal of
        Mathematical Imaging and Vision, 2015).
    """
    p, q = check_pair(draws_p, draws_q, minimum=1)
    if check_positive("order", order) < 1:
        raise ValueError(f"order must be at least 1; got {order}.")
    directions = _directions(key, check_count("num_slices", num_slices), p.shape[1])
    divisor = _divisor(scale, p)
    p, q = p / divisor, q / divisor
    rows_p, rows_q, weights = _matching(len(p), len(q))
    step = max(1, _NUMBERS // len(weights))
    total = 0.0
    for start in range(0, len(directions), step):
        theta = directions[start : start + step].T
        sorted_p, sorted_q = np.sort(p @ theta, axis=0), np.sort(q @ theta, axis=0)
        total += float((weights @ np.abs(sorted_p[rows_p] - sorted_q[rows_q]) ** order).sum())
    return (total / len(directions)) ** (1.0 / order)


def _directions(key: KeyLike, num_slices: int, dim: int) -> np.ndarray:
    # Always in float32, so that the directions are the same with and without x64.
    normal = np.asarray(jax.random.normal(as_key(key), (num_slices, dim), jnp.float32), float)
    return normal / np.linalg.norm(normal, axis=1, keepdims=True)


def _matching(n: int, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which sorted draws the optimal plan pairs, and the mass of each pair.

    The quantile functions are constant between the levels i/n and j/m. These are counted in units of 1/(nm), so that
    levels which coincide are equal exactly.
    """
    levels = np.union1d(np.arange(n + 1) * m, np.arange(m + 1) * n)
    return levels[:-1] // m, levels[:-1] // n, np.diff(levels) / (n * m)


def _divisor(scale: str | int | ArrayLike | None, reference: np.ndarray) -> np.ndarray:
    dim = reference.shape[1]
    if scale is None:
        return np.ones(dim)
    if isinstance(scale, str):
        if scale != "iqr":
            raise ValueError(f'scale must be None, "iqr", a number or an array (dim,); got {scale!r}.')
        low, high = np.quantile(reference, [0.25, 0.75], axis=0)
        if not (high > low).all():
            raise ValueError(
                "scale can be 'iqr' only if every interquartile range of draws_p is positive; that of coordinate "
                f"{int(np.argmin(high - low))} is 0."
            )
        return high - low
    divisor = check_numbers("scale", scale, 'None, "iqr", a number or an array (dim,)').astype(float)
    if divisor.shape not in ((), (dim,)) or not ((divisor > 0) & np.isfinite(divisor)).all():
        raise ValueError(f"scale must be a positive number or {dim} of them; got {describe(scale)}.")
    return np.broadcast_to(divisor, (dim,))
