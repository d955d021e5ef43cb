"""Gaussian variational inference by natural gradients, from scores alone: a full covariance.

q = N(m, L Lᵀ), x = m + L u with u ~ N(0, I). The score of q there is ∇log q(x) = −L⁻ᵀ u, so

    r(u) = Lᵀ (S(x) − ∇log q(x)) = Lᵀ S(m + L u) + u

is zero for every u when p = q: estimates built from r have no variance at a Gaussian optimum. Two expectations are
all that the descent of KL(q‖p) needs. First, E[r] = Lᵀ E[S] = −Lᵀ ∇_m KL. Second, by Stein's lemma
E[S(m + L u) uᵀ] = E[∇S] L, so with P = E_q[−∇² log p]

    G = E[r uᵀ] = I − Lᵀ P L,

which is symmetric, and zero exactly at the optimal covariance P⁻¹. The natural gradient steps are

    m ← m + ρ Σ E[S] = m + ρ L E[r],      Σ⁻¹ ← (1 − ρ) Σ⁻¹ + ρ P = L⁻ᵀ (I − ρ G) L⁻¹,

and L (I − ρ G)^(−1/2) = L exp(½ ρ G) up to O(ρ²). The exponential keeps L invertible whatever the noise in G. Its
exponent is bounded: one step changes no standard deviation by more than e^±0.3 (e^±0.5 above 64 dimensions). Where q is
too narrow, G > 0 and L grows. Where q is much too wide, G ≪ 0, and the full step of m would overshoot: it is
ρ Lᵀ P L ≫ 2 times the distance. In those directions it is divided by ½ ρ |G| until L has shrunk. At the start, while
most of the odd parts (below) are clipped, L shrinks by up to e⁻¹ in a step: the scores of a far too wide q move m
anywhere, for example to where constraints are saturated. How far m may go in one step, and what happens where scores
are not finite, is in `sivi.warmup.trust`.

The noise comes in pairs ±u. With r(±u) = e ± o, E[r] is the mean of the even parts e, and G that of o uᵀ. The two
parts are clipped separately: far from the mean, clipping r as a whole would clip the curvature too. All steps are the
same in any affine coordinates, so the condition number of the posterior hardly matters.

Reference:
    Khan and Rue, The Bayesian learning rule (JMLR 2023), for the natural gradient steps.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .._arguments import default_float
from .._batches import BatchWindows
from .._types import Scalar
from ..targets import Target
from ..targets.evaluate import scores_at
from .status import Evidence
from .trust import MAX_RESIDUAL, Trust, unit

#: The largest step, and the slope of its decrease to zero over the second half.
MAX_RATE = 0.3
RATE_SLOPE = 0.6

#: Pairs ±u per step, at least; rounded up to whole blocks of `dim` orthogonal directions.
MIN_PAIRS = 32

#: Up to this dimension the eigenvalues of the exponent are clipped one by one. Above, where eigenvectors would take
#: most of the time, the exponent and the step of m are scaled as a whole.
MAX_EIGH_DIM = 64
MAX_EXPONENT = 0.3
MAX_EXPONENT_NORM = 0.5

#: In the first `EARLY` share of the steps, where more than `MANY_CLIPPED` of the odd parts are clipped, an exponent v
#: below −1 is cut to `SHRINK_SLOPE` v, and to −1 at most.
EARLY, MANY_CLIPPED, SHRINK_SLOPE = 0.25, 0.5, 0.3


class Fitted(NamedTuple):
    """What the steps found, for one start or with a leading axis of starts: q, and whether it has settled.

    Attributes:
        mean: m.
        root: L, or the scales of a diagonal q.
        evidence: Whether the steps had come to rest.
    """

    mean: Float[Array, "*starts dim"]
    root: Array
    evidence: Evidence


def fit_dense(
    target: Target,
    means: Float[Array, "starts dim"],
    scale: Float[Array, ""],
    noise: Float[Array, "steps pairs dim"],
    windows: BatchWindows | None,
) -> Fitted:
    """Fit one Gaussian per start, all on the same noise and the same rows of data.

    Args:
        target: The target; only its score is used.
        means: m₀ of every start.
        scale: L₀ is this number times I.
        noise: The first draw u of every pair ±u, for every step.
        windows: The rows of data of each step; None for all rows.
    """
    dim, num_steps = means.shape[1], noise.shape[0]

    def step(state: tuple[Fitted, Trust], inputs: tuple[Array, Array]) -> tuple[tuple[Fitted, Trust], None]:
        t, half = inputs
        u = in_pairs(half)
        points = state[0].mean[:, None, :] + jnp.einsum("nj,kij->kni", u, state[0].root)
        scores = scores_at(target, points, None if windows is None else windows.at(t))
        rates = mean_rate(t, num_steps, windows), rate(t, num_steps)

        def one(q: Fitted, trust: Trust, scores: Float[Array, "draws dim"]) -> tuple[Fitted, Trust]:
            residuals = scores @ q.root + u
            drift, gap = moments(residuals, u, trust.reach)
            shrink = (t < EARLY * num_steps) & is_far_too_wide(residuals, trust.reach)
            new = update(q.mean, q.root, drift, gap, *rates, shrink=shrink)
            direction = unit(drift)
            limited = trust.is_limited(drift, direction @ gap @ direction)
            mean, root, trust = trust.advanced((q.mean, q.root), new, finite_share(residuals), limited)
            return Fitted(mean, root, q.evidence.add(drift, gap, t, num_steps)), trust

        return jax.vmap(one)(*state, scores), None

    root = scale * jnp.eye(dim, dtype=means.dtype)
    start = jax.vmap(lambda mean: (Fitted(mean, root, Evidence.none(root)), Trust.at(mean, root)))(means)
    return jax.lax.scan(step, start, (jnp.arange(num_steps), noise))[0][0]


def num_pairs(dim: int) -> int:
    """Pairs ±u per step: whole blocks of `dim` orthogonal directions."""
    return -(-MIN_PAIRS // dim) * dim


def in_pairs(half: Float[Array, "pairs dim"]) -> Float[Array, "draws dim"]:
    """Both draws of every pair; the second half mirrors the first."""
    return jnp.concatenate([half, -half])


def moments(
    residuals: Float[Array, "draws dim"], u: Float[Array, "draws dim"], reach: Float[Array, ""] | float = 1.0
) -> tuple[Float[Array, " dim"], Float[Array, "dim dim"]]:
    """E[r] and G, the symmetric part of E[r uᵀ].

    Args:
        residuals: r(u) at each draw.
        u: The draws; their second half mirrors the first.
        reach: See `even_and_odd`.
    """
    even, odd = even_and_odd(residuals, reach)
    half = u[: odd.shape[0]]
    gap = odd.T @ half / half.shape[0]
    return jnp.mean(even, axis=0), 0.5 * (gap + gap.T)


def update(
    mean: Float[Array, " dim"],
    root: Float[Array, "dim dim"],
    drift: Float[Array, " dim"],
    gap: Float[Array, "dim dim"],
    mean_rate: Float[Array, ""],
    rate: Float[Array, ""],
    *,
    shrink: Bool[Array, ""] | bool = False,
) -> tuple[Float[Array, " dim"], Float[Array, "dim dim"]]:
    """One natural-gradient step of m and L; no step if the result would not be finite.

    Args:
        mean: m.
        root: L.
        drift: E[r].
        gap: G.
        mean_rate: ρ of m.
        rate: ρ of L.
        shrink: Whether L may shrink fast.
    """
    step, growth = _bounded_step(drift, 0.5 * rate * gap, shrink)
    new_mean, new_root = mean + mean_rate * root @ step, root @ growth
    finite = jnp.all(jnp.isfinite(new_mean)) & jnp.all(jnp.isfinite(new_root))
    return jnp.where(finite, new_mean, mean), jnp.where(finite, new_root, root)


def _bounded_step(
    drift: Float[Array, " dim"], exponent: Float[Array, "dim dim"], shrink: Bool[Array, ""] | bool
) -> tuple[Float[Array, " dim"], Float[Array, "dim dim"]]:
    """The step of m in units of L, and the factor exp(½ ρ G) of L, both bounded."""
    dim = exponent.shape[0]
    if dim <= MAX_EIGH_DIM:
        values, vectors = jnp.linalg.eigh(exponent)
        lowest = jnp.where(shrink, -jnp.clip(-SHRINK_SLOPE * values, MAX_EXPONENT, 1.0), -MAX_EXPONENT)
        growth = (vectors * jnp.exp(jnp.clip(values, lowest, MAX_EXPONENT))) @ vectors.T
        return vectors @ ((drift @ vectors) / jnp.maximum(1.0, -values)), growth
    # ‖A⁴‖_F^¼ bounds the largest eigenvalue from above, by at most a factor dim^(1/8).
    identity = jnp.eye(dim, dtype=exponent.dtype)
    size = jnp.maximum(jnp.linalg.norm(exponent), jnp.finfo(exponent.dtype).tiny)
    unit = exponent / size
    square = unit @ unit
    fourth = square @ square
    bound = size * jnp.linalg.norm(fourth) ** 0.25
    c = size * jnp.minimum(1.0, MAX_EXPONENT_NORM / jnp.maximum(bound, MAX_EXPONENT_NORM))
    # Taylor to the seventh order: the next term is 0.5⁸/8! = 1e-7.
    even = identity + c**2 / 2 * square + c**4 / 24 * fourth + c**6 / 720 * (fourth @ square)
    odd = identity + c**2 / 6 * square + c**4 / 120 * fourth + c**6 / 5040 * (fourth @ square)
    return drift / jnp.maximum(1.0, bound), even + c * unit @ odd


def rate(step: Int[Array, ""], num_steps: int) -> Scalar:
    """ρ: constant in the first half, then linearly to zero."""
    return jnp.minimum(MAX_RATE, RATE_SLOPE * (1.0 - step / num_steps)).astype(default_float())


def mean_rate(step: Int[Array, ""], num_steps: int, windows: BatchWindows | None) -> Scalar:
    """ρ of the mean: as `rate`, but 1/t in the second half with minibatches.

    With steps 1/t the last mean is the average over all later batches. The noise of one batch in E[r] is √(N/|batch|)
    posterior standard deviations, which a constant rate would keep; in G it cancels between u and −u.

    The rate is at most √(|batch|/N). A single datum can decide a direction; a batch that holds it then has N/|batch|
    times the curvature of all data. The low-rank warm-up also bounds the step by the largest curvature seen so far
    (`Probe`). If that comes too late, this bound leaves a step of √(N/|batch|) instead of N/|batch|.
    """
    if windows is None:
        return rate(step, num_steps)
    late = jnp.maximum(step - num_steps // 2, 0)
    largest = min(MAX_RATE, math.sqrt(windows.size / windows.order.shape[0]))
    return (1.0 / (late + 1.0 / largest)).astype(default_float())


def finite_share(residuals: Float[Array, "draws dim"]) -> Float[Array, ""]:
    """The share of the draws whose score is finite."""
    return jnp.mean(jnp.all(jnp.isfinite(residuals), axis=-1), dtype=residuals.dtype)


def is_far_too_wide(residuals: Float[Array, "draws dim"], reach: Float[Array, ""] | float) -> Bool[Array, ""]:
    """Whether most odd parts of r, which for a Gaussian are (I − Lᵀ P L) u, are clipped."""
    plus, minus = jnp.split(residuals, 2)
    longest = jnp.max(jnp.abs(0.5 * plus - 0.5 * minus), axis=-1)
    bound = MAX_RESIDUAL * math.sqrt(residuals.shape[-1]) * reach
    return jnp.mean(~(longest < bound), dtype=residuals.dtype) > MANY_CLIPPED


def even_and_odd(
    residuals: Float[Array, "draws dim"], reach: Float[Array, ""] | float = 1.0
) -> tuple[Float[Array, "pairs dim"], Float[Array, "pairs dim"]]:
    """e and o of r(±u) = e ± o, each clipped to `MAX_RESIDUAL` √dim in length.

    A draw whose score is not finite is left out, and the others count for it: e and o are sums over the finite draws of
    a pair, divided by the share of finite draws. The remaining u then no longer have mean zero and second moment I,
    which pulls q away from the region without scores.

    Args:
        residuals: r at the draws; the second half of the draws mirrors the first.
        reach: Factor of the bound, see `sivi.warmup.trust`.
    """
    finite = jnp.all(jnp.isfinite(residuals), axis=-1, keepdims=True)
    plus, minus = jnp.split(jnp.where(finite, residuals, 0.0), 2)
    share = jnp.maximum(finite_share(residuals), 1.0 / residuals.shape[0])
    return _clipped(0.5 * plus + 0.5 * minus, reach) / share, _clipped(0.5 * plus - 0.5 * minus, reach) / share


def _clipped(vectors: Float[Array, "pairs dim"], reach: Float[Array, ""] | float) -> Float[Array, "pairs dim"]:
    # In units of the largest entry, whose square could overflow.
    largest = jnp.maximum(jnp.max(jnp.abs(vectors), axis=-1, keepdims=True), jnp.finfo(vectors.dtype).tiny)
    scaled = vectors / largest
    length = jnp.linalg.norm(scaled, axis=-1, keepdims=True)
    allowed = MAX_RESIDUAL * math.sqrt(vectors.shape[-1]) * reach
    shorter: Array = allowed * (scaled / length)
    return jnp.where(largest * length > allowed, shorter, vectors)
