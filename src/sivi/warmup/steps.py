"""Step sizes and clipping that the dense and the low-rank warm-up share."""

import math

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .._arguments import default_float
from .._types import Scalar
from .draws import Rows

#: The largest step, and the slope of its decrease to zero over the second half.
MAX_RATE = 0.3
RATE_SLOPE = 0.6

#: A part of a residual r is cut to this many times √dim, the size of u: far out, a score can be arbitrarily large.
MAX_RESIDUAL = 20.0


def rate(step: Int[Array, ""], num_steps: int) -> Scalar:
    """ρ: constant, then linearly to zero."""
    return jnp.minimum(MAX_RATE, RATE_SLOPE * (1.0 - step / num_steps)).astype(default_float())


def mean_rate(step: Int[Array, ""], num_steps: int, rows: Rows) -> Scalar:
    """ρ of the mean.

    With minibatches, 1/t from the half on: then the last mean is the plain average of what every later batch asks
    for. The noise of a batch in E[r] is √(N/|batch|) posterior standard deviations, and a shorter memory would keep
    it; in G it cancels between u and −u. And at most √(|batch|/N): a direction that a single datum decides has
    N/|batch| times its curvature in a batch with this datum. The largest curvature seen bounds the step besides
    (`Probe`), and what it sees too late is then a step of √(N/|batch|), not of N/|batch|.
    """
    if rows.order is None:
        return rate(step, num_steps)
    late = jnp.maximum(step - num_steps // 2, 0)
    largest = min(MAX_RATE, math.sqrt(rows.size / rows.order.shape[0]))
    return (1.0 / (late + 1.0 / largest)).astype(default_float())


def even_and_odd(
    residuals: Float[Array, "draws dim"],
) -> tuple[Float[Array, "pairs dim"], Float[Array, "pairs dim"]]:
    """e and o of r(±u) = e ± o, each cut to `MAX_RESIDUAL` √dim in length.

    A draw without a finite score says nothing: its r is zero. The u of the other draws then pulls q away from there,
    since their mean is no longer zero, nor their second moment I.

    Args:
        residuals: r at draws whose second half mirrors the first.
    """
    good = jnp.all(jnp.isfinite(residuals), axis=-1, keepdims=True)
    plus, minus = jnp.split(jnp.where(good, residuals, 0.0), 2)
    return _cut(0.5 * plus + 0.5 * minus), _cut(0.5 * plus - 0.5 * minus)


def _cut(vectors: Float[Array, "pairs dim"]) -> Float[Array, "pairs dim"]:
    # In units of the largest entry, whose square might overflow.
    largest = jnp.maximum(jnp.max(jnp.abs(vectors), axis=-1, keepdims=True), jnp.finfo(vectors.dtype).tiny)
    unit = vectors / largest
    length = largest * jnp.linalg.norm(unit, axis=-1, keepdims=True)
    allowed = MAX_RESIDUAL * math.sqrt(vectors.shape[-1])
    shorter: Array = allowed * unit / jnp.linalg.norm(unit, axis=-1, keepdims=True)
    return jnp.where(length > allowed, shorter, vectors)
