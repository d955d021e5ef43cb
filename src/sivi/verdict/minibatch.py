"""Is the log density of a minibatch scaled to all data: its mean over batches against that of the data."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._arguments import default_float
from .._batches import window
from .._programs import compiled
from ..targets import Target
from . import limits
from .effects import bonferroni
from .findings import Finding, finding

#: Points of the regression, and batches, at most.
_POINTS, _MOST_BATCHES = 64, 1024


def minibatch_finding(
    target: Target,
    batch_size: int | None,
    points: Float[np.ndarray, "n dim"],
    log_prob: Float[np.ndarray, " n"],
    rng: np.random.Generator,
) -> Finding | None:
    """A finding, if the slope of the mean minibatch log p on log p is not 1. N/B forgotten gives a slope near B/N.

    The batches are windows of one permutation, as many as cover all rows equally often where that is possible. So
    there is next to no noise.

    Args:
        target: p.
        batch_size: That of the fit; None without minibatches.
        points: Draws.
        log_prob: log p there, on all data.
        rng: For the permutation.
    """
    num_data = target.num_data
    if batch_size is None or num_data is None or batch_size >= num_data or not target.knows_log_prob:
        return None
    num_batches = min(num_data // math.gcd(num_data, batch_size), _MOST_BATCHES)
    order = jnp.asarray(rng.permutation(num_data))
    batches = window(order, jnp.arange(num_batches)[:, None] * batch_size % num_data, batch_size)
    chosen = np.flatnonzero(np.isfinite(log_prob))[:_POINTS]
    means = np.asarray(_mean_over_batches(target, jnp.asarray(points[chosen], default_float()), batches), float)
    full = np.asarray(log_prob[chosen], float)
    centred = full - full.mean()
    if len(chosen) < 3 or not centred.any() or not np.isfinite(means).all():
        return None
    slope = float(centred @ means / (centred @ centred))
    residual = means - means.mean() - slope * centred
    error = float(np.sqrt(residual @ residual / (len(full) - 2) / (centred @ centred)))
    if abs(slope - 1.0) <= bonferroni(1) * error:
        return None
    sentence = (
        f"minibatches: their mean log density changes {slope:.3g} times as much as that of all data; is the likelihood "
        f"scaled by N/B = {num_data / batch_size:.3g}?"
    )
    return finding("minibatch scale", (), slope - 1.0, error, limits.LIMITS["minibatch scale"], sentence)


@compiled
def _mean_over_batches(
    target: Target, points: Float[Array, "n dim"], batches: Int[Array, "batches size"]
) -> Float[Array, " n"]:
    def at(point: Float[Array, " dim"]) -> Array:
        return jnp.mean(jax.lax.map(lambda rows: target.log_prob(point, rows), batches, batch_size=8))

    return jax.lax.map(at, points, batch_size=4)
