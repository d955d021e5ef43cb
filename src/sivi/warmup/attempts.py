"""Several starts, pooled into one map; and a second attempt from other starts if the first has failed.

The first attempt starts from m₀ ~ N(0, 4 I) with L₀ = I. If its map has not settled (`sivi.warmup.status`), a second
one starts nearer to zero and narrower, where constraints are not saturated and scores are moderate. The better of the
two is kept: the one with the better status; of two alike, the one that has found more mass. Both are turns of one loop,
so that the program is compiled once, and an ordinary warm-up makes one turn.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .._batches import BatchWindows
from ..coordinates import AffineMap
from ..targets import Target
from ..targets.evaluate import scores_at
from .dense import Fitted
from .mixture_moments import DenseGaussians, DiagonalGaussians, distance_between_starts, start_weights
from .status import SETTLED, pooled_code, start_code

#: Standard deviation of the starts' means, and L₀, of each attempt.
START_SDS = (2.0, 0.2)
START_SCALES = (1.0, 0.1)

#: Tries for a start with a finite score.
MAX_TRIES = 8


class Starts(eqx.Module):
    """Where the starts of every attempt are.

    Attributes:
        normal: Normal numbers for several tries of each start.
        target: The target.
        windows: The rows of data; None for all rows.
    """

    normal: Float[Array, "starts tries dim"]
    target: Target
    windows: BatchWindows | None

    def of_attempt(self, index: Int[Array, ""]) -> tuple[Float[Array, "starts dim"], Float[Array, ""]]:
        """The means of one attempt, with a finite score if a few tries find them; and the scale of L₀."""
        sd, scale = (jnp.asarray(numbers, self.normal.dtype)[index] for numbers in (START_SDS, START_SCALES))
        points = sd * self.normal
        scores = scores_at(self.target, points, None if self.windows is None else self.windows.at(jnp.int32(0)))
        first = jnp.argmax(jnp.all(jnp.isfinite(scores), axis=-1), axis=1)  # 0 if there is none
        return jnp.take_along_axis(points, first[:, None, None], axis=1)[:, 0], scale


class Attempt(NamedTuple):
    """What one attempt found.

    Attributes:
        affine: The map.
        code: Of its status.
        log_mass: The log of the mass (0 if only scores are known).
        distance: Between the starts, see `sivi.warmup.mixture_moments.distance_between_starts`.
    """

    affine: AffineMap
    code: Int[Array, ""]
    log_mass: Float[Array, ""]
    distance: Float[Array, ""]


def pooled(
    u: Float[Array, "draws dim"],
    target: Target,
    first: Float[Array, "starts dim"],
    fitted: Fitted,
    gaussians: DenseGaussians | DiagonalGaussians,
    noise: float,
) -> Attempt:
    """The Gaussians of all starts as one map.

    Args:
        u: Draws of N(0, I), for the weights.
        target: The target.
        first: m₀ of every start.
        fitted: What the steps found.
        gaussians: The same, as Gaussians.
        noise: Of minibatches in the mean of E[r], see `sivi.warmup.status.drift_noise`.
    """
    weights, log_mass = start_weights(u, target, gaussians)
    affine, usable = gaussians.mixture_map(weights, first[0])
    codes = jax.vmap(partial(start_code, noise=noise))(first, fitted.mean, fitted.root, fitted.evidence)
    code = pooled_code(codes, weights, usable).astype(jnp.int32)
    return Attempt(affine, code, log_mass, distance_between_starts(weights, gaussians))


def best_attempt(attempt: Callable[[Int[Array, ""]], Attempt], like: AffineMap) -> Attempt:
    """The first attempt, or the better of two if it has not settled.

    Args:
        attempt: Makes the attempt of this number.
        like: Any map of the kind that attempts find; with it they need not be traced for their shapes.
    """

    def unfinished(state: tuple[Array, Attempt]) -> Array:
        index, best = state
        return (index == 0) | ((index < len(START_SDS)) & (best.code != SETTLED))

    def another(state: tuple[Array, Attempt]) -> tuple[Array, Attempt]:
        index, best = state
        new = attempt(index)
        better = (new.code < best.code) | ((new.code == best.code) & (new.log_mass > best.log_mass))
        better = better | (index == 0)
        return index + 1, jax.tree.map(lambda a, b: jnp.where(better, a, b), new, best)

    zero = jnp.zeros((), like.mean.dtype)
    nothing = Attempt(like, jnp.int32(0), zero, zero)
    return jax.lax.while_loop(unfinished, another, (jnp.int32(0), nothing))[1]
