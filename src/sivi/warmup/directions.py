"""The directions in which the curvature of a target is least like that of a diagonal Gaussian.

The curvature P̃ = diag(s) E_q[−∇² log p] diag(s) is used only in products with vectors, by symmetric differences of
scores at draws x of q: P̃ v ≈ −s ⊙ (S(x + h s⊙v) − S(x − h s⊙v)) / 2h. This is exact for a Gaussian and needs scores
alone. Both ends share x and the rows of data, so that their noise cancels. Each draw sees different rows, and all draws
together see all rows: the extreme eigenvalues of a curvature estimated from few rows would be those of the noise. The
extreme eigenpairs come from a block Krylov space (block Lanczos with full orthogonalisation, then Rayleigh–Ritz).
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._backend import matmul_highest
from .._batches import BatchWindows
from ..coordinates import LowRankMap
from ..targets import Target
from ..targets.evaluate import exact_scores_at

#: Products with the block: the dimension of the Krylov space in widths of the block.
DEPTH = 3

#: Columns of the block beyond the rank.
OVERSAMPLE = 4

#: Pairs ±u of draws of q over which the curvature is averaged.
NUM_PAIRS = 4

#: h, in standard deviations of the current q along v.
STEP = 0.25

#: One call makes no direction more than this many times wider. Curvature that is negative, or near zero by chance, is
#: thus approached in several calls, each under a wider q.
MAX_WIDENING = 4.0
SMALLEST_CURVATURE = 1e-6


def extreme_directions(
    key: PRNGKeyArray,
    target: Target,
    affine: LowRankMap,
    scale: Float[Array, " dim"],
    windows: BatchWindows | None,
    first: Int[Array, ""],
) -> tuple[Float[Array, "dim rank"], Float[Array, " rank"]]:
    """W and a = θ^(−1/2) for the `rank` eigenvalues θ of P̃ with the largest |log θ|.

    Args:
        key: Random key.
        target: The target; only its score is used.
        affine: The current q; the search starts from its directions.
        scale: s, which may differ from the scale of `affine`.
        windows: The rows of data, of which each draw sees a different part; None for all rows.
        first: The number of the window where these parts begin.
    """
    block_key, draws_key = jax.random.split(key)
    dim, rank = affine.dim, affine.rank
    width = min(rank + OVERSAMPLE, dim)
    half = jax.random.normal(draws_key, (NUM_PAIRS, dim), scale.dtype)
    draws = jax.vmap(affine.forward)(jnp.concatenate([half, -half]))
    # Λ = W̄ (θ − 1) W̄ᵀ + s̄⁻² of the old map, in the new units.
    ratio = scale / affine.scale
    old_directions = affine.directions

    def curvature_of_q(vectors: Float[Array, "dim width"]) -> Float[Array, " width"]:
        scaled = vectors * ratio[:, None]
        return jnp.sum(scaled**2, axis=0) + (affine.stretch**-2.0 - 1.0) @ (old_directions.T @ scaled) ** 2

    fresh = jax.random.normal(block_key, (dim, width - rank), scale.dtype)
    block = jnp.linalg.qr(jnp.concatenate([old_directions * ratio[:, None], fresh], axis=1))[0]
    steps = STEP / jnp.sqrt(jnp.maximum(curvature_of_q(block), 0.01))
    depth = min(DEPTH, dim // width)

    def widen(state: tuple[Array, Array, Array, Array], k: Array) -> tuple[tuple[Array, Array, Array, Array], None]:
        """Add one block; blocks not yet added are zero, and do not change a projection."""
        basis, images, block, steps = state
        image = curvature_times(target, draws, scale, block, steps, windows, first)
        basis = jax.lax.dynamic_update_slice(basis, block, (0, k * width))
        images = jax.lax.dynamic_update_slice(images, image, (0, k * width))
        longest = jnp.max(jnp.linalg.norm(image, axis=0))
        steps = jnp.full_like(steps, STEP) / jnp.sqrt(jnp.maximum(longest, 1.0))
        return (basis, images, _orthonormal_to(basis, image), steps), None

    empty = jnp.zeros((dim, depth * width), scale.dtype)
    (basis, images, _, _), _ = jax.lax.scan(widen, (empty, empty, block, steps), jnp.arange(depth))
    projected = matmul_highest(basis.T, images)
    values, vectors = jnp.linalg.eigh(0.5 * (projected + projected.T))
    chosen = jax.lax.top_k(jnp.abs(jnp.log(jnp.maximum(values, SMALLEST_CURVATURE))), rank)[1]
    directions = matmul_highest(basis, vectors[:, chosen])
    lowest = jnp.maximum(curvature_of_q(directions) / MAX_WIDENING**2, SMALLEST_CURVATURE)
    return directions, jnp.maximum(values[chosen], lowest) ** -0.5


def curvature_times(
    target: Target,
    draws: Float[Array, "draws dim"],
    scale: Float[Array, " dim"],
    vectors: Float[Array, "dim width"],
    steps: Float[Array, " width"],
    windows: BatchWindows | None,
    first: Int[Array, ""],
) -> Float[Array, "dim width"]:
    """P̃ times each column: the average over the draws with finite scores, one draw after another."""
    shifts = (steps * vectors * scale[:, None]).T

    def add(total: tuple[Array, Array], draw: tuple[Array, Array]) -> tuple[tuple[Array, Array], None]:
        x, k = draw
        rows = None if windows is None else windows.part(k, len(draws), first)
        plus, minus = exact_scores_at(target, jnp.stack([x + shifts, x - shifts]), rows)
        image: Array = (minus - plus) * scale / (2.0 * steps[:, None])
        finite = jnp.all(jnp.isfinite(image))
        return (total[0] + jnp.where(finite, image, 0.0), total[1] + finite), None

    empty = jnp.zeros_like(shifts), jnp.zeros((), scale.dtype)
    (image, count), _ = jax.lax.scan(add, empty, (draws, jnp.arange(len(draws))))
    # Without any finite draw, the products with the unit matrix.
    return jnp.where(count > 0, image.T / jnp.maximum(count, 1.0), vectors)


def _orthonormal_to(basis: Float[Array, "dim done"], vectors: Float[Array, "dim width"]) -> Float[Array, "dim width"]:
    """An orthonormal basis of what `vectors` add to `basis`; two passes, since one leaves rounding errors."""
    for _ in range(2):
        vectors = jnp.linalg.qr(vectors - matmul_highest(basis, matmul_highest(basis.T, vectors)))[0]
    return vectors
