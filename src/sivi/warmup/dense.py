"""Gaussian variational inference by natural gradients, from scores alone: a full covariance.

q = N(m, L Lᵀ), x = m + L u with u ~ N(0, I). The score of q there is ∇log q(x) = −L⁻ᵀ u, so

    r(u) = Lᵀ (S(x) − ∇log q(x)) = Lᵀ S(m + L u) + u

is zero for every u when p = q: estimates built from r have no variance at a Gaussian optimum. Two expectations are
all that the descent of KL(q‖p) needs. First, E[r] = Lᵀ E[S] = −Lᵀ ∇_m KL. Second, by Stein's lemma
E[S(m + L u) uᵀ] = E[∇S] L, so with P = E_q[−∇² log p]

    G = E[r uᵀ] = I − Lᵀ P L,

which is symmetric, and zero exactly at the optimal covariance P⁻¹. The natural gradient steps are

    m ← m + ρ Σ E[S] = m + ρ L E[r],      Σ⁻¹ ← (1 − ρ) Σ⁻¹ + ρ P = L⁻ᵀ (I − ρ G) L⁻¹,

and L (I − ρ G)^(−1/2) = L exp(½ ρ G) up to O(ρ²). The exponential keeps L invertible whatever the noise in G, and
its exponent is limited: one step changes no standard deviation by more than e^±0.3 (e^±0.5 above 64 dimensions).
Where q is too narrow, G > 0 and L grows. Where q is much too wide, G ≪ 0, the full step of m would be ρ Lᵀ P L ≫ 2
times the distance: it is shortened in those directions until L has shrunk, by 1 / (½ ρ |G|).

Noise comes in pairs ±u. With r(±u) = e ± o, E[r] is the mean of the even parts e and G that of o uᵀ. The two are
cut to a maximal length separately: a common cut would, far away from the mean, cut off the curvature too.
Everything is the same in any affine coordinates, so the condition number of the posterior hardly matters.

Reference:
    Khan and Rue, The Bayesian learning rule (JMLR 2023), for the natural gradient steps.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..targets import Target
from .draws import BalancedNoise, Rows, scores_at
from .steps import even_and_odd, mean_rate, rate

#: At least so many pairs ±u per step; more where a whole block of `dim` orthogonal directions needs them.
MIN_PAIRS = 32

#: The eigenvalues of the exponent are clipped one by one up to this dimension. Above, where eigenvectors would take
#: most of the time, the exponent and the step of m are scaled as a whole.
MAX_EIGH_DIM = 64
MAX_EXPONENT = 0.3
MAX_EXPONENT_NORM = 0.5


def fit_dense(
    target: Target,
    means: Float[Array, "starts dim"],
    noise: BalancedNoise,
    normal: Float[Array, "steps *shape"],
    rows: Rows,
) -> tuple[Float[Array, "starts dim"], Float[Array, "starts dim dim"]]:
    """One Gaussian per start, all side by side on the same noise and the same rows.

    Args:
        target: The target; only its score is used.
        means: m₀ of every start; L₀ = I.
        noise: What every step draws.
        normal: Normal numbers of `noise.shape` for every step.
        rows: Which data each step sees.

    Returns:
        m and L of every start.
    """
    (num_starts, dim), num_steps = means.shape, normal.shape[0]

    def step(state: tuple[Array, Array], now: tuple[Array, Array]) -> tuple[tuple[Array, Array], None]:
        (mean, root), (t, numbers) = state, now
        u = noise.made_from(numbers)
        points = mean[:, None, :] + jnp.einsum("nj,kij->kni", u, root)
        scores = scores_at(target, points, rows.at(t))
        residuals = jnp.einsum("kni,kij->knj", scores, root) + u
        rates = mean_rate(t, num_steps, rows), rate(t, num_steps)
        return jax.vmap(lambda m, L, r: update(m, L, r, u, *rates))(mean, root, residuals), None

    roots = jnp.broadcast_to(jnp.eye(dim, dtype=means.dtype), (num_starts, dim, dim))
    return jax.lax.scan(step, (means, roots), (jnp.arange(num_steps), normal))[0]


def num_pairs(dim: int) -> int:
    """Pairs ±u per step: whole blocks of `dim` orthogonal directions."""
    return -(-MIN_PAIRS // dim) * dim


def update(
    mean: Float[Array, " dim"],
    root: Float[Array, "dim dim"],
    residuals: Float[Array, "draws dim"],
    u: Float[Array, "draws dim"],
    mean_rate: Float[Array, ""],
    rate: Float[Array, ""],
) -> tuple[Float[Array, " dim"], Float[Array, "dim dim"]]:
    """One natural gradient step of m and L; none where it would not be finite.

    Args:
        mean: m.
        root: L.
        residuals: r(u) at each draw.
        u: The draws; the second half mirrors the first.
        mean_rate: ρ of m.
        rate: ρ of L.
    """
    even, odd = even_and_odd(residuals)
    half = u[: odd.shape[0]]
    gap = odd.T @ half / half.shape[0]
    drift, growth = _limited(jnp.mean(even, axis=0), 0.25 * rate * (gap + gap.T))
    new_mean, new_root = mean + mean_rate * root @ drift, root @ growth
    finite = jnp.isfinite(jnp.sum(new_mean) + jnp.sum(new_root))
    return jnp.where(finite, new_mean, mean), jnp.where(finite, new_root, root)


def _limited(
    drift: Float[Array, " dim"], exponent: Float[Array, "dim dim"]
) -> tuple[Float[Array, " dim"], Float[Array, "dim dim"]]:
    """The step of m in units of L, and the factor exp(½ ρ G) of L, both within bounds."""
    dim = exponent.shape[0]
    if dim <= MAX_EIGH_DIM:
        values, vectors = jnp.linalg.eigh(exponent)
        growth = (vectors * jnp.exp(jnp.clip(values, -MAX_EXPONENT, MAX_EXPONENT))) @ vectors.T
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
