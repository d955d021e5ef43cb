"""Gaussian variational inference in high dimension: a diagonal and r directions of their own, nothing dim × dim.

First the mean-field optimum, a diagonal s, from several starts by the steps of `sivi.warmup.dense` with diagonal L.
There the expected curvature in units of s, P̃ = diag(s) E_q[−∇² log p] diag(s), has a unit diagonal: what a diagonal
cannot see are its eigenvalues θ far from 1, wide directions (θ ≪ 1) and narrow ones (θ ≫ 1).

Then rounds of three steps, with q = N(m, L Lᵀ), L = diag(s) K and K = Q diag(θ^(−1/2), 1) as in `LowRankMap`, so that
the curvature of q is Λ̃ = K⁻ᵀ K⁻¹ = I + W (diag θ − I) Wᵀ:

1. the extreme eigenpairs (W, θ) of P̃, see `sivi.warmup.directions`;
2. steps m ← m + ρ L E[r] in the new coordinates, in which a mean far away along a wide direction is near;
3. s from what the directions leave over. By Stein's lemma, E[(K⁻ᵀ r) (K⁻ᵀ u)ᵀ] = Λ̃ − P̃, with no noise where q = p.
   Its diagonal is g, and 1 − g_i is the diagonal of P̃ less that of W (diag θ − I) Wᵀ; s² ← s² / (1 − g) makes
   it 1. (In factor analysis of a precision matrix, this is the iterated principal factor method.)
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from .._affine import AffineMap, DiagonalMap, LowRankMap
from .._types import default_float
from ..targets import Target
from .directions import extreme_directions
from .draws import BalancedNoise, Rows, scores_at
from .pooling import NUM_ELBO_PAIRS, pool_diagonal, start_weights
from .steps import even_and_odd, mean_rate, rate

#: Pairs ±u per step.
NUM_PAIRS = 16

#: Rounds; the widest direction can become four times wider in each.
NUM_ROUNDS = 8

#: One step changes no scale by more than e^±0.3, and one round by more than a factor 2.
MAX_EXPONENT = 0.3
MAX_ROUND_FACTOR = 4.0

#: Length, in units of u, over which curvature is measured for the step size; how fast its largest value is forgotten.
PROBE = 0.25
FORGET = 0.95


class Probe(NamedTuple):
    """A power iteration for the largest curvature in u, which bounds the step of the mean."""

    vector: Float[Array, " dim"]
    largest: Float[Array, ""]


def fit_low_rank(
    fit_key: PRNGKeyArray,
    pool_key: PRNGKeyArray,
    target: Target,
    means: Float[Array, "starts dim"],
    rows: Rows,
    num_steps: int,
    rank: int,
) -> AffineMap:
    """Mean-field from every start, pooled; then rounds of directions, mean and scale.

    Args:
        fit_key: Random key.
        pool_key: Random key of the starts' weights.
        target: The target.
        means: m₀ of every start; s₀ = 1.
        rows: Which data each step sees.
        num_steps: Steps of each start, and again of all rounds together.
        rank: r; 0 stops after the diagonal.
    """
    diagonal_key, rounds_key = jax.random.split(fit_key)
    ends, scales = _fit_diagonal(diagonal_key, target, means, rows, num_steps)
    u = BalancedNoise(pool_key, NUM_ELBO_PAIRS, target.dim).draw(jax.random.fold_in(pool_key, 1))
    weights = start_weights(
        u,
        target,
        lambda u: ends[:, None, :] + scales[:, None, :] * u,
        lambda j, x: (x - ends[j]) / scales[j],
        jnp.sum(jnp.log(scales), axis=1),
    )
    pooled = pool_diagonal(weights, ends, scales, means[0])
    if rank == 0:
        return pooled
    return _rounds(rounds_key, target, pooled, rows, max(1, num_steps // NUM_ROUNDS), rank)


def _fit_diagonal(
    key: PRNGKeyArray, target: Target, means: Float[Array, "starts dim"], rows: Rows, num_steps: int
) -> tuple[Float[Array, "starts dim"], Float[Array, "starts dim"]]:
    noise = BalancedNoise(key, NUM_PAIRS, means.shape[1])

    def one(affine: DiagonalMap, probe: Probe, u: Array, t: Array) -> tuple[DiagonalMap, Probe]:
        even, odd = even_and_odd(_residuals(target, affine, u, rows.at(t)))
        probe = _sharpen(probe, target, affine, u[0], rows.at(t))
        step = jnp.minimum(mean_rate(t, num_steps, rows), 1.0 / probe.largest)
        gap = jnp.mean(odd * u[:NUM_PAIRS], axis=0)
        exponent = jnp.clip(0.5 * rate(t, num_steps) * gap, -MAX_EXPONENT, MAX_EXPONENT)
        new = DiagonalMap(affine.mean + step * affine.scale * jnp.mean(even, axis=0), affine.scale * jnp.exp(exponent))
        return _if_finite(new, affine), probe

    def step(state: tuple[DiagonalMap, Probe], t: Array) -> tuple[tuple[DiagonalMap, Probe], None]:
        u = noise.draw(jax.random.fold_in(key, t))
        return jax.vmap(lambda affine, probe: one(affine, probe, u, t))(*state), None

    probes = jax.vmap(lambda k: _new_probe(k, means.shape[1]))(jax.random.split(key, means.shape[0]))
    start = jax.vmap(DiagonalMap)(means, jnp.ones_like(means)), probes
    (affine, _), _ = jax.lax.scan(step, start, jnp.arange(num_steps))
    return affine.mean, affine.scale


def _rounds(
    key: PRNGKeyArray, target: Target, diagonal: DiagonalMap, rows: Rows, steps_per_round: int, rank: int
) -> LowRankMap:
    dim, num_steps = diagonal.dim, NUM_ROUNDS * steps_per_round
    start_key, probe_key, noise_key, directions_key = jax.random.split(key, 4)
    noise = BalancedNoise(noise_key, NUM_PAIRS, dim)

    def one_round(state: tuple[LowRankMap, Probe, Array], index: Int[Array, ""]) -> tuple[tuple, None]:
        affine, probe, gap = state
        scale = affine.scale / jnp.sqrt(jnp.clip(1.0 - gap, 1.0 / MAX_ROUND_FACTOR, MAX_ROUND_FACTOR))
        directions, stretch = extreme_directions(
            jax.random.fold_in(directions_key, index), target, affine, scale, rows.at(index * steps_per_round)
        )
        affine = _if_finite(LowRankMap(affine.mean, scale, directions, stretch), affine)
        unit = jnp.ones_like(scale)
        dual = eqx.tree_at(
            lambda a: (a.mean, a.scale, a.stretch), affine, (jnp.zeros_like(scale), unit, 1.0 / affine.stretch)
        )  # u ↦ K⁻ᵀ u

        def step(state: tuple[Array, Probe, Array], i: Array) -> tuple[tuple[Array, Probe, Array], None]:
            mean, probe, gap = state
            t = index * steps_per_round + i
            u = noise.draw(jax.random.fold_in(noise_key, t))
            now = eqx.tree_at(lambda a: a.mean, affine, mean)
            even, odd = even_and_odd(_residuals(target, now, u, rows.at(t)))
            probe = _sharpen(probe, target, now, u[0], rows.at(t))
            rho = jnp.minimum(mean_rate(t, num_steps, rows), 1.0 / probe.largest)
            new_mean = now.forward(rho * jnp.mean(even, axis=0))
            turned = jax.vmap(dual.forward)(odd) * jax.vmap(dual.forward)(u[:NUM_PAIRS])
            return (_if_finite(new_mean, mean), probe, gap + jnp.mean(turned, axis=0) / steps_per_round), None

        inner = (affine.mean, probe, jnp.zeros_like(scale))
        (mean, probe, gap), _ = jax.lax.scan(step, inner, jnp.arange(steps_per_round))
        return (eqx.tree_at(lambda a: a.mean, affine, mean), probe, jnp.nan_to_num(gap)), None

    frame = jnp.linalg.qr(jax.random.normal(start_key, (dim, rank), diagonal.mean.dtype))[0]
    start = LowRankMap(diagonal.mean, diagonal.scale, frame, jnp.ones(rank, diagonal.mean.dtype))
    state = start, _new_probe(probe_key, dim), jnp.zeros_like(diagonal.scale)
    (affine, _, _), _ = jax.lax.scan(one_round, state, jnp.arange(NUM_ROUNDS))
    return affine


def _residuals(
    target: Target, affine: AffineMap, u: Float[Array, "draws dim"], rows: Int[Array, " size"] | None
) -> Float[Array, "draws dim"]:
    """r(u) = Lᵀ S(m + L u) + u."""
    scores = scores_at(target, jax.vmap(affine.forward)(u), rows)
    return jax.vmap(affine.pull_back)(scores) + u


def _new_probe(key: PRNGKeyArray, dim: int) -> Probe:
    vector = jax.random.normal(key, (dim,), default_float())
    return Probe(vector / jnp.linalg.norm(vector), jnp.ones((), vector.dtype))


def _sharpen(
    probe: Probe, target: Target, affine: AffineMap, u: Float[Array, " dim"], rows: Int[Array, " size"] | None
) -> Probe:
    """One power iteration on Lᵀ(−∇² log p)L at u, by a difference of scores."""
    ends = jnp.stack([affine.forward(u + PROBE * probe.vector), affine.forward(u - PROBE * probe.vector)])
    plus, minus = scores_at(target, ends, rows)
    image = affine.pull_back(minus - plus) / (2 * PROBE)
    size = jnp.linalg.norm(image)
    good = jnp.isfinite(size) & (size > 0)
    vector = jnp.where(good, image / jnp.where(good, size, 1.0), probe.vector)
    return Probe(vector, jnp.maximum(FORGET * probe.largest, jnp.where(good, size, 0.0)))


def _if_finite(new: PyTree, old: PyTree) -> PyTree:
    """`new`, or all of `old` if any number of `new` is not finite."""
    finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(new)]))
    return jax.tree.map(lambda a, b: jnp.where(finite, a, b), new, old)
