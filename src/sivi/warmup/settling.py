"""The mean of a Gaussian with given covariance: Newton steps on the expected score.

With q = N(m, L Lᵀ), the mean of least KL(q‖p) is where F(m) = E_u[Lᵀ S(m + L u)] = 0. Steps m + ρ L F(m) come there
at once where L is right, since then −∂F = A = E[Lᵀ (−∇² log p) L] is the unit matrix, and slowly along directions that
a diagonal and a few directions of their own have missed. A Newton step solves A δ = F(m) instead, by conjugate
gradients, which need products with A alone, as `sivi.warmup.directions` has them: some ten of them, since most
eigenvalues of A are near 1.

F is the mean over draws in pairs ±u and windows of rows which are the same at every m, so that two means can be
compared. A new one is better if its F is shorter, if F along the step has not turned round, and if no more scores are
not finite: far out in a flat tail F is short as well, and where nothing is finite it is nothing. A step that is not
better is halved. With minibatches, F has their error at m taken away.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._affine import LowRankMap
from ..targets import Target, Whitened
from .directions import NUM_PAIRS as NUM_CURVATURE_PAIRS
from .directions import STEP, curvature_times
from .draws import BalancedNoise, Rows, anchored, exact_scores_at
from .steps import even_and_odd

#: Means that are looked at, the first included.
NUM_MEANS = 4

#: Pairs ±u at a time, and how often, for F.
NUM_PAIRS, NUM_CALLS = 16, 48

#: Products with A per Newton step.
NUM_PRODUCTS = 10

#: The longest step: so many times √dim in length, and so many standard deviations of q in every coordinate of u.
LONGEST, LARGEST = 0.5, 2.0

#: How far F may turn round along a step.
TURNED = 0.9


class _Best(NamedTuple):
    mean: Float[Array, " dim"]
    size: Float[Array, ""]
    num_finite: Float[Array, ""]
    slope: Float[Array, ""]
    step: Float[Array, " dim"]
    share: Float[Array, ""]


def settled(key: PRNGKeyArray, target: Target, affine: LowRankMap, rows: Rows) -> LowRankMap:
    """The same covariance around a better mean, if there is one.

    Args:
        key: Random key.
        target: The target; only its score is used.
        affine: q.
        rows: Which data the draws see.
    """
    noise_key, draws_key = jax.random.split(key)
    noise = BalancedNoise(noise_key, NUM_PAIRS, affine.dim)
    half = jax.random.normal(draws_key, (NUM_CURVATURE_PAIRS, affine.dim), affine.mean.dtype)
    draws = jnp.concatenate([half, -half])

    def around(mean: Float[Array, " dim"]) -> LowRankMap:
        return eqx.tree_at(lambda a: a.mean, affine, mean)

    def drift(mean: Float[Array, " dim"]) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """F(m), and how many of the draws have a finite score."""
        with jax.default_matmul_precision("highest"):
            there = Whitened(anchored(target, mean, rows), around(mean))

        def call(total: tuple[Array, Array], k: Array) -> tuple[tuple[Array, Array], None]:
            u = noise.draw(jax.random.fold_in(noise_key, k))
            residuals = exact_scores_at(there, u, rows.at(k)) + u
            even, _ = even_and_odd(residuals)
            num_finite = jnp.sum(jnp.all(jnp.isfinite(residuals), axis=-1), dtype=mean.dtype)
            return (total[0] + jnp.mean(even, axis=0) / NUM_CALLS, total[1] + num_finite), None

        return jax.lax.scan(call, (jnp.zeros_like(mean), jnp.zeros((), mean.dtype)), jnp.arange(NUM_CALLS))[0]

    def newton_step(mean: Float[Array, " dim"], expected: Float[Array, " dim"]) -> Float[Array, " dim"]:
        there = Whitened(target, around(mean))

        def times_curvature(vector: Float[Array, " dim"]) -> Float[Array, " dim"]:
            length = STEP / jnp.maximum(jnp.linalg.norm(vector), jnp.finfo(vector.dtype).tiny)
            unit = jnp.ones_like(vector)
            return curvature_times(there, draws, unit, vector[:, None], length[None], rows, jnp.int32(0))[:, 0]

        return _limited(conjugate_gradients(times_curvature, expected, NUM_PRODUCTS))

    def look(best: _Best, k: Array) -> tuple[_Best, None]:
        mean = around(best.mean).forward(best.share * best.step)
        now, num_finite = drift(mean)
        size = jnp.linalg.norm(now)
        better = (size < best.size) & (num_finite >= best.num_finite)
        better = better & (jnp.sum(best.step * now) >= -TURNED * best.slope)
        # After the last mean there is no step to take.
        step = jax.lax.cond(k < NUM_MEANS - 1, newton_step, lambda mean, expected: jnp.zeros_like(mean), mean, now)
        finite = jnp.isfinite(size) & jnp.all(jnp.isfinite(mean)) & jnp.all(jnp.isfinite(step))
        new = _Best(mean, size, num_finite, jnp.sum(step * now), step, jnp.ones_like(size))
        old = best._replace(share=0.5 * best.share)
        return jax.tree.map(lambda a, b: jnp.where(better & finite, a, b), new, old), None

    nothing = jnp.zeros_like(affine.mean)
    zero, one = jnp.zeros((), nothing.dtype), jnp.ones((), nothing.dtype)
    start = _Best(affine.mean, jnp.inf * one, zero, zero, nothing, one)
    best, _ = jax.lax.scan(look, start, jnp.arange(NUM_MEANS))
    return around(best.mean)


def _limited(step: Float[Array, " dim"]) -> Float[Array, " dim"]:
    tiny = jnp.finfo(step.dtype).tiny
    by_length = LONGEST * len(step) ** 0.5 / jnp.maximum(jnp.linalg.norm(step), tiny)
    by_entry = LARGEST / jnp.maximum(jnp.max(jnp.abs(step)), tiny)
    return step * jnp.minimum(1.0, jnp.minimum(by_length, by_entry))


def conjugate_gradients(
    times: Callable[[Float[Array, " dim"]], Float[Array, " dim"]], right: Float[Array, " dim"], num: int
) -> Float[Array, " dim"]:
    """x with A x = `right`, after `num` products `times(v)` = A v, or as far as A is positive.

    (`jax.scipy.sparse.linalg.cg` takes it for granted that A is.)

    Example:
        >>> conjugate_gradients(lambda v: jnp.array([2.0, 4.0]) * v, jnp.array([1.0, 1.0]), 2).round(3).tolist()
        [0.5, 0.25]
    """

    def step(state: tuple[Array, Array, Array, Array], _: None) -> tuple[tuple[Array, Array, Array, Array], None]:
        x, residual, direction, going = state
        image = times(direction)
        size, curvature = jnp.sum(residual**2), jnp.sum(direction * image)
        going = going & (curvature > 0) & (size > 0)
        length = jnp.where(going, size / jnp.where(going, curvature, 1.0), 0.0)
        x, new = x + length * direction, residual - length * image
        turn = jnp.where(going, jnp.sum(new**2) / jnp.where(going, size, 1.0), 0.0)
        return (x, jnp.where(going, new, residual), jnp.where(going, new + turn * direction, direction), going), None

    start = jnp.zeros_like(right), right, right, jnp.asarray(True)
    return jax.lax.scan(step, start, None, length=num)[0][0]
