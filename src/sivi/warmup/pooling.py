"""Several starts made into one Gaussian: weights of the starts, then the moments of their mixture.

Start k, with its Gaussian q_k, weighs

    w_k ∝ exp E_{q_k}[ log p − log q̄ ],    q̄ = mean of all q_j.

For starts that do not overlap this is exp(ELBO_k), the weights of the mixture closest to p in KL(q‖p): a mode that some
start found has about its share of the mass, and a start that ended far below the others has none. Starts that ended in
one and the same mode share its weight, since q̄ counts them all: with exp(ELBO_k) a mode would weigh as often as it was
found, which is a matter of chance.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .._affine import DenseMap, DiagonalMap
from ..targets import Target
from .draws import log_probs_at, scores_at

#: Pairs of draws for the weight of a start.
NUM_ELBO_PAIRS = 128

#: A start whose Gaussian has more than this share of its mass where the target is not finite counts as failed.
MAX_SHARE_NOT_FINITE = 0.5


def start_weights(
    u: Float[Array, "draws dim"],
    target: Target,
    forward: Callable[[Float[Array, "draws dim"]], Float[Array, "starts draws dim"]],
    inverse: Callable[[Int[Array, ""], Float[Array, "starts draws dim"]], Float[Array, "starts draws dim"]],
    log_dets: Float[Array, " starts"],
) -> Float[Array, " starts"]:
    """The weights w_k of the starts; equal ones for a target that knows only its score.

    Where log p is not finite at some draws of q_k, the mean is over q_k cut to where it is: over the draws kept, plus
    the log of their share. A start that failed has weight zero; if all have failed, all weights are zero.

    Args:
        u: Draws of N(0, I); the same ones for all starts, so that their noise is shared.
        target: The target.
        forward: x = m_k + L_k u for every start k.
        inverse: u = L_j⁻¹ (x − m_j) for a start j.
        log_dets: log |det L_k|.
    """
    points = forward(u)
    if not target.knows_log_prob:
        share = jnp.mean(jnp.all(jnp.isfinite(scores_at(target, points, None)), axis=-1), axis=1)
        good = (share > 1.0 - MAX_SHARE_NOT_FINITE) & jnp.isfinite(log_dets)
        return _softmax(jnp.where(good, jnp.zeros_like(log_dets), -jnp.inf))
    log_p = log_probs_at(target, points)
    finite = jnp.isfinite(log_p)
    share = jnp.mean(finite, axis=1, dtype=u.dtype)
    good = (share > 1.0 - MAX_SHARE_NOT_FINITE) & jnp.isfinite(log_dets)

    def relative_density(j: Int[Array, ""]) -> Float[Array, "starts draws"]:
        """log q_j − log q_k at the draws of every start k, written so that it is exactly 0 for j = k."""
        own = 0.5 * jnp.sum(u**2, axis=1)
        other = 0.5 * jnp.sum(inverse(j, points) ** 2, axis=-1)
        ratio = jnp.where(jnp.arange(len(log_dets))[:, None] == j, 0.0, own - other + (log_dets[:, None] - log_dets[j]))
        return jnp.where(good[j] & jnp.isfinite(ratio), ratio, -jnp.inf)

    relative = jax.lax.map(relative_density, jnp.arange(len(log_dets)))
    # log p − log q̄ up to a constant: ½‖u‖² takes the place of −log q_k, with no noise where q_k = p.
    terms = log_p + 0.5 * jnp.sum(u**2, axis=1) - jax.nn.logsumexp(relative, axis=0)
    finite = finite & jnp.isfinite(terms)
    mean = jnp.sum(jnp.where(finite, terms, 0.0), axis=1) / jnp.maximum(jnp.sum(finite, axis=1), 1)
    log_weights = mean + jnp.log(share) + log_dets
    return _softmax(jnp.where(good & jnp.isfinite(log_weights), log_weights, -jnp.inf))


def _softmax(values: Float[Array, " num"]) -> Float[Array, " num"]:
    # −inf for all gives exp(−inf − 0), not exp(NaN).
    top = jnp.max(values)
    weights = jnp.exp(values - jnp.where(jnp.isfinite(top), top, 0.0))
    return weights / jnp.maximum(jnp.sum(weights), jnp.finfo(values.dtype).tiny)


def pool_dense(
    weights: Float[Array, " starts"],
    means: Float[Array, "starts dim"],
    roots: Float[Array, "starts dim dim"],
    inverses: Float[Array, "starts dim dim"],
    log_dets: Float[Array, " starts"],
    fallback: Float[Array, " dim"],
) -> DenseMap:
    """The map of the mixture's mean and covariance, within and between the starts.

    The covariance is written in the coordinates of the start with the largest weight w: there it is at least w I, so
    that float32 holds condition numbers as large as those of the starts' own L.

    Args:
        weights: w_k, all zero if every start failed.
        means: m_k.
        roots: L_k.
        inverses: L_k⁻¹.
        log_dets: log |det L_k|.
        fallback: The mean, with L = I, if every start failed.
    """
    usable, mean = _mean(weights, means)
    dim, best = mean.shape[0], jnp.argmax(weights)
    identity = jnp.eye(dim, dtype=mean.dtype)
    base = jnp.where(usable, roots[best], identity)
    inverse, kept = jnp.where(usable, inverses[best], identity), (weights > 0)[:, None]
    relative = jnp.matmul(inverse, roots, precision=jax.lax.Precision.HIGHEST)
    inner = jnp.where(kept[..., None], jnp.sqrt(weights)[:, None, None] * relative, 0.0)
    offsets = jnp.sqrt(weights)[:, None] * jnp.where(kept, means - mean, 0.0) @ inverse.T
    covariance = jnp.einsum("kij,klj->il", inner, inner) + offsets.T @ offsets
    factor = jnp.linalg.cholesky(covariance)
    # In full precision wherever it runs, so that L, its inverse and its determinant are those of one matrix.
    matrix = jnp.matmul(base, factor, precision=jax.lax.Precision.HIGHEST)
    back = jax.scipy.linalg.solve_triangular(factor, inverse, lower=True)
    usable = usable & jnp.all(jnp.isfinite(matrix)) & jnp.all(jnp.isfinite(back))
    log_det = log_dets[best] + jnp.sum(jnp.log(jnp.diagonal(factor)))
    return DenseMap(
        jnp.where(usable, mean, fallback),
        jnp.where(usable, matrix, identity),
        jnp.where(usable, back, identity),
        jnp.where(usable, log_det, 0.0),
    )


def pool_diagonal(
    weights: Float[Array, " starts"],
    means: Float[Array, "starts dim"],
    scales: Float[Array, "starts dim"],
    fallback: Float[Array, " dim"],
) -> DiagonalMap:
    """As `pool_dense`, for diagonal maps: the mixture's mean and standard deviations."""
    usable, mean = _mean(weights, means)
    kept = (weights > 0)[:, None]
    scale = jnp.sqrt(weights @ jnp.where(kept, scales**2 + (means - mean) ** 2, 0.0))
    usable = usable & jnp.all(jnp.isfinite(scale) & (scale > 0))
    return DiagonalMap(jnp.where(usable, mean, fallback), jnp.where(usable, scale, jnp.ones_like(scale)))


def _mean(weights: Array, means: Array) -> tuple[Bool[Array, ""], Array]:
    mean = weights @ jnp.where((weights > 0)[:, None], means, 0.0)
    return jnp.any(weights > 0) & jnp.all(jnp.isfinite(mean)), mean
