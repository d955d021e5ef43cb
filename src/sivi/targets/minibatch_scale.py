"""Is a target's score on a minibatch scaled to all data: its mean over batches against the score on all of them.

`log_prob(x, batch)` must multiply the likelihood by N/|batch|; a target that forgets it has another posterior, which is
nearer to the prior. Over a few points, the mean score of minibatches must change as the score on all data does. The
slope of the one on the other says by what factor it does not.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._batches import window
from .._compiler import options_of_one_run
from .._programs import compiled
from .base import Target
from .evaluate import scores_at

#: Batches go through the data about this many times, at most, where the size of a batch does not divide their number.
_MOST_PASSES = 4
_LIBRARY = __name__.partition(".")[0]


def batches_of_all(num_data: int, batch_size: int, rng: np.random.Generator) -> Int[np.ndarray, "batches batch_size"]:
    """Windows of one permutation that hold every row equally often, or nearly so where that would take too many."""
    num_batches = num_data // math.gcd(num_data, batch_size)
    num_batches = min(num_batches, _MOST_PASSES * -(-num_data // batch_size))
    starts = np.arange(num_batches)[:, None] * batch_size % num_data
    return np.asarray(window(jnp.asarray(rng.permutation(num_data)), jnp.asarray(starts), batch_size))


def is_scaled_by_library(target: Target) -> bool:
    """Whether log density and score are methods of this library, which scales them."""
    while isinstance(inner := getattr(target, "target", None), Target):
        target = inner
    return all(_module_of(type(target), name) == _LIBRARY for name in ("log_prob", "score"))


def slope_of_minibatches(
    target: Target, batches: Int[np.ndarray, "batches batch_size"], points: Float[Array, "n dim"]
) -> tuple[float, float] | None:
    """The slope of the mean minibatch score on the score of all data, and its standard error; None if neither varies.

    Args:
        target: p.
        batches: Row indices, as of `batches_of_all`.
        points: Some points, such as draws of a first guess; the unknowns count by how much their scores vary there.
    """
    full, means = (np.asarray(part, float) for part in _scores(target, points, jnp.asarray(batches)))
    full, means = full - full.mean(0), means - means.mean(0)
    scale = full.std(0)
    used = np.isfinite(scale) & (scale > 0) & np.isfinite(means).all(0)
    if not used.any():
        return None
    full, means = full[:, used] / scale[used], means[:, used] / scale[used]
    size = float((full**2).sum())
    slope = float((full * means).sum()) / size
    residual = means - slope * full
    return slope, math.sqrt(float((residual**2).sum()) / max(1, len(points) - 2) / size)


@functools.partial(compiled, options=options_of_one_run)
def _scores(
    target: Target, points: Float[Array, "n dim"], batches: Int[Array, "batches batch_size"]
) -> tuple[Float[Array, "n dim"], Float[Array, "n dim"]]:
    def add(total: Array, rows: Array) -> tuple[Array, None]:
        return total + scores_at(target, points, rows), None

    total, _ = jax.lax.scan(add, jnp.zeros_like(points), batches)
    return scores_at(target, points), total / len(batches)


def _module_of(owner: type, name: str) -> str:
    """The package of the class that a method comes from."""
    definer = next(cls for cls in owner.__mro__ if name in vars(cls))
    return definer.__module__.partition(".")[0]
