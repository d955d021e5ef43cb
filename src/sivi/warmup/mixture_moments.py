"""The Gaussians of several starts as one: weights of the starts, then the moments of their mixture.

Start k has found the Gaussian q_k. Its weight is

    w_k ∝ exp E_{q_k}[ log p − log q̄ ],    q̄ = mean of all q_j.

For starts that do not overlap this is exp(ELBO_k): the weights of the mixture closest to p in KL(q‖p). A mode that some
start found gets about its share of the mass, and a start that ended far below the others gets none. Starts that ended
in the same mode share its weight, since q̄ counts them all. With exp(ELBO_k) a mode would count once for every start
that found it, which is a matter of chance.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..coordinates import DenseMap, DiagonalMap
from ..targets import Target
from ..targets.evaluate import log_probs_at, scores_at

#: Pairs of draws for the weight of a start.
NUM_ELBO_PAIRS = 128

#: A start counts as failed if more than this share of its Gaussian lies where the target is not finite.
MAX_SHARE_NOT_FINITE = 0.5


class DenseGaussians(eqx.Module):
    """N(m_k, L_k L_kᵀ) for every start k.

    Args:
        means: m_k.
        roots: L_k.
    """

    means: Float[Array, "starts dim"]
    roots: Float[Array, "starts dim dim"]
    inverses: Float[Array, "starts dim dim"]
    log_dets: Float[Array, " starts"]

    def __init__(self, means: Float[Array, "starts dim"], roots: Float[Array, "starts dim dim"]):
        self.means, self.roots = means, roots
        identity = jnp.eye(roots.shape[-1], dtype=roots.dtype)

        def inverted(root: Float[Array, "dim dim"]) -> tuple[Float[Array, "dim dim"], Float[Array, ""]]:
            """L⁻¹ and log |det L|, from one factorisation."""
            factors, pivots = jax.scipy.linalg.lu_factor(root)
            log_det = jnp.sum(jnp.log(jnp.abs(jnp.diagonal(factors))))
            return jax.scipy.linalg.lu_solve((factors, pivots), identity), log_det

        self.inverses, self.log_dets = jax.vmap(inverted)(roots)

    def forward(self, u: Float[Array, "draws dim"]) -> Float[Array, "starts draws dim"]:
        """x = m_k + L_k u for every start k."""
        return self.means[:, None, :] + jnp.einsum("nj,kij->kni", u, self.roots)

    def inverse(self, j: Int[Array, ""], x: Float[Array, "starts draws dim"]) -> Float[Array, "starts draws dim"]:
        """u = L_j⁻¹ (x − m_j) for one start j."""
        return (x - self.means[j]) @ self.inverses[j].T

    def mixture_map(
        self, weights: Float[Array, " starts"], fallback: Float[Array, " dim"]
    ) -> tuple[DenseMap, Bool[Array, ""]]:
        """The map of the mixture's mean and covariance, within and between the starts; and whether there is one.

        The covariance is computed in the coordinates of the start with the largest weight w. There it is at least w I,
        so float32 can hold condition numbers as large as those of the L_k.

        Args:
            weights: w_k, all zero if every start failed.
            fallback: The mean, with L = I, if every start failed.
        """
        usable, mean = _mixture_mean(weights, self.means)
        dim, best = mean.shape[0], jnp.argmax(weights)
        identity = jnp.eye(dim, dtype=mean.dtype)
        base = jnp.where(usable, self.roots[best], identity)
        inverse, kept = jnp.where(usable, self.inverses[best], identity), (weights > 0)[:, None]
        relative = jnp.matmul(inverse, self.roots, precision=jax.lax.Precision.HIGHEST)
        inner = jnp.where(kept[..., None], jnp.sqrt(weights)[:, None, None] * relative, 0.0)
        offsets = jnp.sqrt(weights)[:, None] * jnp.where(kept, self.means - mean, 0.0) @ inverse.T
        covariance = jnp.einsum("kij,klj->il", inner, inner) + offsets.T @ offsets
        factor = jnp.linalg.cholesky(covariance)
        # In full precision on every device, so that L, its inverse and its determinant belong together.
        matrix = jnp.matmul(base, factor, precision=jax.lax.Precision.HIGHEST)
        back = jax.scipy.linalg.solve_triangular(factor, inverse, lower=True)
        usable = usable & jnp.all(jnp.isfinite(matrix)) & jnp.all(jnp.isfinite(back))
        log_det = self.log_dets[best] + jnp.sum(jnp.log(jnp.diagonal(factor)))
        affine = DenseMap(
            jnp.where(usable, mean, fallback),
            jnp.where(usable, matrix, identity),
            jnp.where(usable, back, identity),
            jnp.where(usable, log_det, 0.0),
        )
        return affine, usable


class DiagonalGaussians(eqx.Module):
    """N(m_k, diag(s_k)²) for every start k.

    Attributes:
        means: m_k.
        scales: s_k.
    """

    means: Float[Array, "starts dim"]
    scales: Float[Array, "starts dim"]

    @property
    def log_dets(self) -> Float[Array, " starts"]:
        return jnp.sum(jnp.log(self.scales), axis=1)

    def forward(self, u: Float[Array, "draws dim"]) -> Float[Array, "starts draws dim"]:
        """x = m_k + s_k ⊙ u for every start k."""
        return self.means[:, None, :] + self.scales[:, None, :] * u

    def inverse(self, j: Int[Array, ""], x: Float[Array, "starts draws dim"]) -> Float[Array, "starts draws dim"]:
        """u = (x − m_j) / s_j for one start j."""
        return (x - self.means[j]) / self.scales[j]

    def mixture_map(
        self, weights: Float[Array, " starts"], fallback: Float[Array, " dim"]
    ) -> tuple[DiagonalMap, Bool[Array, ""]]:
        """As for `DenseGaussians`: the mixture's mean and standard deviations."""
        usable, mean = _mixture_mean(weights, self.means)
        kept = (weights > 0)[:, None]
        scale = jnp.sqrt(weights @ jnp.where(kept, self.scales**2 + (self.means - mean) ** 2, 0.0))
        usable = usable & jnp.all(jnp.isfinite(scale) & (scale > 0))
        affine = DiagonalMap(jnp.where(usable, mean, fallback), jnp.where(usable, scale, jnp.ones_like(scale)))
        return affine, usable


def start_weights(
    u: Float[Array, "draws dim"], target: Target, gaussians: DenseGaussians | DiagonalGaussians
) -> tuple[Float[Array, " starts"], Float[Array, ""]]:
    """The weights w_k of the starts, equal for a target that knows only its score; and the log of all mass found.

    Where log p is not finite at some draws of q_k, the mean is over the other draws, plus the log of their share. A
    start that failed has weight zero; if all have failed, all weights are zero.

    Args:
        u: Draws of N(0, I); the same ones for all starts, so that their noise is shared.
        target: The target.
        gaussians: q_k of every start.
    """
    points, log_dets = gaussians.forward(u), gaussians.log_dets
    if not target.knows_log_prob:
        share = jnp.mean(jnp.all(jnp.isfinite(scores_at(target, points)), axis=-1), axis=1)
        succeeded = (share > 1.0 - MAX_SHARE_NOT_FINITE) & jnp.isfinite(log_dets)
        return _softmax(jnp.where(succeeded, jnp.zeros_like(log_dets), -jnp.inf))
    log_p = log_probs_at(target, points)
    finite = jnp.isfinite(log_p)
    share = jnp.mean(finite, axis=1, dtype=u.dtype)
    succeeded = (share > 1.0 - MAX_SHARE_NOT_FINITE) & jnp.isfinite(log_dets)

    def relative_density(j: Int[Array, ""]) -> Float[Array, "starts draws"]:
        """log q_j − log q_k at the draws of every start k, written so that it is exactly 0 for j = k."""
        exponent_k = 0.5 * jnp.sum(u**2, axis=1)
        exponent_j = 0.5 * jnp.sum(gaussians.inverse(j, points) ** 2, axis=-1)
        ratio = exponent_k - exponent_j + (log_dets[:, None] - log_dets[j])
        ratio = jnp.where(jnp.arange(len(log_dets))[:, None] == j, 0.0, ratio)
        return jnp.where(succeeded[j] & jnp.isfinite(ratio), ratio, -jnp.inf)

    relative = jax.lax.map(relative_density, jnp.arange(len(log_dets)))
    # log p − log q̄ up to a constant: ½‖u‖² takes the place of −log q_k, with no noise where q_k = p.
    terms = log_p + 0.5 * jnp.sum(u**2, axis=1) - jax.nn.logsumexp(relative, axis=0)
    finite = finite & jnp.isfinite(terms)
    # Divided before they are summed, since the sum of log densities near −10³⁸ would overflow.
    count = jnp.maximum(jnp.sum(finite, axis=1, keepdims=True), 1)
    mean = jnp.sum(jnp.where(finite, terms, 0.0) / count, axis=1)
    log_weights = mean + jnp.log(share) + log_dets
    return _softmax(jnp.where(succeeded & jnp.isfinite(log_weights), log_weights, -jnp.inf))


def distance_between_starts(
    weights: Float[Array, " starts"], gaussians: DenseGaussians | DiagonalGaussians
) -> Float[Array, ""]:
    """The variance of the means m_k of the starts, summed over the coordinates of the start with the largest weight.

    In those coordinates that start has variance 1: where all starts have found one mode, the result is nearly zero.

    Args:
        weights: w_k; the variance of starts without weight is zero.
        gaussians: q_k of every start.
    """
    kept = (weights > 0)[:, None]
    u = gaussians.inverse(jnp.argmax(weights), gaussians.means[:, None, :])[:, 0]
    u = jnp.where(kept, u, 0.0)
    variance = jnp.sum(weights @ jnp.where(kept, (u - weights @ u) ** 2, 0.0))
    return jnp.where(jnp.isfinite(variance), variance, jnp.inf)


def _softmax(values: Float[Array, " num"]) -> tuple[Float[Array, " num"], Float[Array, ""]]:
    """The softmax of values, all zero if all are −inf; and log Σ exp."""
    # If all are −inf: exp(−inf − 0), not exp(NaN).
    top = jnp.max(values)
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    weights = jnp.exp(values - top)
    total = jnp.sum(weights)
    return weights / jnp.maximum(total, jnp.finfo(values.dtype).tiny), top + jnp.log(total)


def _mixture_mean(weights: Array, means: Array) -> tuple[Bool[Array, ""], Array]:
    """Whether the mixture has weight and a finite mean, and that mean."""
    mean = weights @ jnp.where((weights > 0)[:, None], means, 0.0)
    return jnp.any(weights > 0) & jnp.all(jnp.isfinite(mean)), mean
