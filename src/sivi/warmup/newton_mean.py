"""Newton steps for the mean of a Gaussian with given covariance.

With q = N(m, L Lᵀ), KL(q‖p) is smallest at the mean where the expected score F(m) = E_u[Lᵀ S(m + L u)] is zero. Let
A = −∂F = E[Lᵀ (−∇² log p) L]. Steps m + ρ L F(m) converge at once if A is the unit matrix, and slowly along directions
that a diagonal plus low rank has missed. A Newton step solves A δ = F(m) instead, by conjugate gradients. These need
only products with A, see `sivi.warmup.directions`; about ten suffice, since most eigenvalues of A are near 1.

F is a mean over draws in pairs ±u and over windows of rows. Both are the same at every m, so that two means can be
compared. A line search accepts a step if F becomes shorter, F does not reverse its direction along the step, and no
more scores are non-finite. (Far out in a flat tail F is short as well; and F is zero where no score is finite.) A step
that is not accepted is halved. With minibatches, F uses the control variate of `sivi.targets.ControlVariate` at m.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._batches import BatchWindows
from ..coordinates import LowRankMap
from ..targets import ControlVariate, Target, Whitened
from ..targets.evaluate import exact_scores_at
from .dense import even_and_odd
from .directions import NUM_PAIRS as NUM_CURVATURE_PAIRS
from .directions import STEP, curvature_times
from .noise import BalancedNoise

#: Means at which F is evaluated, the first included.
NUM_MEANS = 4

#: Pairs ±u per call of the target, and calls, for one F.
NUM_PAIRS, NUM_CALLS = 16, 48

#: Products with A per Newton step.
NUM_PRODUCTS = 10

#: Bounds of a step: its length in units of √dim, and every coordinate of u in standard deviations of q.
MAX_LENGTH, MAX_ENTRY = 0.5, 2.0

#: A step δ is refused if δ·F(m + δ) is below −`MAX_REVERSAL` times δ·F(m).
MAX_REVERSAL = 0.9


class _Best(NamedTuple):
    """The best mean so far: m, ‖F(m)‖, draws with finite scores, δ·F(m), the Newton step δ and the share to take."""

    mean: Float[Array, " dim"]
    size: Float[Array, ""]
    num_finite: Float[Array, ""]
    slope: Float[Array, ""]
    step: Float[Array, " dim"]
    share: Float[Array, ""]


def refine_mean(key: PRNGKeyArray, target: Target, affine: LowRankMap, windows: BatchWindows | None) -> LowRankMap:
    """The same covariance around a better mean, if Newton steps find one.

    Args:
        key: Random key.
        target: The target; only its score is used.
        affine: q.
        windows: The rows of data of each call; None for all rows.
    """
    noise_key, draws_key = jax.random.split(key)
    noise = BalancedNoise(noise_key, NUM_PAIRS, affine.dim)
    half = jax.random.normal(draws_key, (NUM_CURVATURE_PAIRS, affine.dim), affine.mean.dtype)
    draws = jnp.concatenate([half, -half])

    def around(mean: Float[Array, " dim"]) -> LowRankMap:
        return eqx.tree_at(lambda a: a.mean, affine, mean)

    def drift(mean: Float[Array, " dim"]) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """F(m), and the number of draws with a finite score."""
        with jax.default_matmul_precision("highest"):
            corrected = target if windows is None else ControlVariate.at(target, mean)
        whitened = Whitened(corrected, around(mean))

        def call(total: tuple[Array, Array], k: Array) -> tuple[tuple[Array, Array], None]:
            u = noise.draw(jax.random.fold_in(noise_key, k))
            residuals = exact_scores_at(whitened, u, None if windows is None else windows.at(k)) + u
            even, _ = even_and_odd(residuals)
            num_finite = jnp.sum(jnp.all(jnp.isfinite(residuals), axis=-1), dtype=mean.dtype)
            return (total[0] + jnp.mean(even, axis=0) / NUM_CALLS, total[1] + num_finite), None

        return jax.lax.scan(call, (jnp.zeros_like(mean), jnp.zeros((), mean.dtype)), jnp.arange(NUM_CALLS))[0]

    def newton_step(mean: Float[Array, " dim"], expected: Float[Array, " dim"]) -> Float[Array, " dim"]:
        whitened = Whitened(target, around(mean))

        def times_curvature(vector: Float[Array, " dim"]) -> Float[Array, " dim"]:
            length = STEP / jnp.maximum(jnp.linalg.norm(vector), jnp.finfo(vector.dtype).tiny)
            unit = jnp.ones_like(vector)
            return curvature_times(whitened, draws, unit, vector[:, None], length[None], windows, jnp.int32(0))[:, 0]

        return _bounded(conjugate_gradients(times_curvature, expected, NUM_PRODUCTS))

    def search(best: _Best, k: Array) -> tuple[_Best, None]:
        mean = around(best.mean).forward(best.share * best.step)
        expected, num_finite = drift(mean)
        size = jnp.linalg.norm(expected)
        better = (size < best.size) & (num_finite >= best.num_finite)
        better = better & (jnp.sum(best.step * expected) >= -MAX_REVERSAL * best.slope)
        # After the last mean there is no step to take.
        step = jax.lax.cond(k < NUM_MEANS - 1, newton_step, lambda mean, _: jnp.zeros_like(mean), mean, expected)
        finite = jnp.isfinite(size) & jnp.all(jnp.isfinite(mean)) & jnp.all(jnp.isfinite(step))
        new = _Best(mean, size, num_finite, jnp.sum(step * expected), step, jnp.ones_like(size))
        old = best._replace(share=0.5 * best.share)
        return jax.tree.map(lambda a, b: jnp.where(better & finite, a, b), new, old), None

    no_step = jnp.zeros_like(affine.mean)
    zero, one = jnp.zeros((), no_step.dtype), jnp.ones((), no_step.dtype)
    start = _Best(affine.mean, jnp.inf * one, zero, zero, no_step, one)
    best, _ = jax.lax.scan(search, start, jnp.arange(NUM_MEANS))
    return around(best.mean)


def _bounded(step: Float[Array, " dim"]) -> Float[Array, " dim"]:
    """A step shortened to the bounds."""
    tiny = jnp.finfo(step.dtype).tiny
    by_length = MAX_LENGTH * len(step) ** 0.5 / jnp.maximum(jnp.linalg.norm(step), tiny)
    by_entry = MAX_ENTRY / jnp.maximum(jnp.max(jnp.abs(step)), tiny)
    return step * jnp.minimum(1.0, jnp.minimum(by_length, by_entry))


def conjugate_gradients(
    times: Callable[[Float[Array, " dim"]], Float[Array, " dim"]], right: Float[Array, " dim"], num: int
) -> Float[Array, " dim"]:
    """x with A x ≈ `right`, after `num` products `times(v)` = A v; stops at a direction of negative curvature.

    (`jax.scipy.sparse.linalg.cg` assumes that A is positive definite.)

    Example:
        >>> conjugate_gradients(lambda v: jnp.array([2.0, 4.0]) * v, jnp.array([1.0, 1.0]), 2).round(3).tolist()
        [0.5, 0.25]
    """

    def step(state: tuple[Array, Array, Array, Array], _: None) -> tuple[tuple[Array, Array, Array, Array], None]:
        x, residual, direction, positive = state
        image = times(direction)
        size, curvature = jnp.sum(residual**2), jnp.sum(direction * image)
        positive = positive & (curvature > 0) & (size > 0)
        length = jnp.where(positive, size / jnp.where(positive, curvature, 1.0), 0.0)
        x, new_residual = x + length * direction, residual - length * image
        ratio = jnp.where(positive, jnp.sum(new_residual**2) / jnp.where(positive, size, 1.0), 0.0)
        new_direction = jnp.where(positive, new_residual + ratio * direction, direction)
        return (x, jnp.where(positive, new_residual, residual), new_direction, positive), None

    start = jnp.zeros_like(right), right, right, jnp.asarray(True)
    return jax.lax.scan(step, start, None, length=num)[0][0]
