"""Gaussian variational inference in high dimension: a diagonal plus r directions, with no matrix of dim × dim.

First the mean-field optimum, a diagonal s, from several starts by the steps of `sivi.warmup.dense` with diagonal L.
There the expected curvature in units of s, P̃ = diag(s) E_q[−∇² log p] diag(s), has a unit diagonal. A diagonal misses
its eigenvalues θ far from 1: wide directions (θ ≪ 1) and narrow ones (θ ≫ 1).

Then rounds of three steps, with q = N(m, L Lᵀ), L = diag(s) K and K = Q diag(θ^(−1/2), 1) as in `LowRankMap`, so that
the curvature of q is Λ̃ = K⁻ᵀ K⁻¹ = I + W (diag θ − I) Wᵀ:

1. the extreme eigenpairs (W, θ) of P̃, see `sivi.warmup.directions`;
2. natural-gradient steps m ← m + ρ L E[r] in the new coordinates, in which a mean far away along a wide direction is
   near; minibatches have a control variate at the round's first m, see `sivi.targets.ControlVariate`;
3. s from the curvature that the directions leave over. By Stein's lemma, E[(K⁻ᵀ r) (K⁻ᵀ u)ᵀ] = Λ̃ − P̃, with no noise
   where q = p. Its diagonal is g, and 1 − g_i is the diagonal of P̃ less that of W (diag θ − I) Wᵀ; s² ← s² / (1 − g)
   makes it 1. (In factor analysis of a precision matrix, this is the iterated principal factor method.)

At the end the mean takes Newton steps, see `sivi.warmup.newton_mean`.

Each draw over which the curvature is averaged sees its own part of the rows, and all draws together see all rows
where they can: the extreme eigenvalues of a curvature estimated from few rows are mostly noise.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from .._arguments import default_float
from .._batches import BatchWindows
from .._random import BalancedNoise
from ..coordinates import AffineMap, DiagonalMap, LowRankMap, RotatedMap
from ..coordinates.rotation import AxisRotation
from ..targets import ControlVariate, Target, Whitened
from ..targets.evaluate import scores_at
from .attempts import Attempt, Starts, best_attempt, pooled
from .dense import Fitted, even_and_odd, finite_share, mean_rate, rate
from .directions import extreme_directions
from .mixture_moments import NUM_ELBO_PAIRS, DiagonalGaussians
from .newton_mean import refine_mean
from .rotation import closed_form_axes, has_closed_form, identity_rotation, measure, per_row_identity, unit_scales
from .status import RAN_AWAY, Evidence, drift_noise, steps_code
from .trust import Trust, unit

#: Pairs ±u per step.
NUM_PAIRS = 16

#: Rounds; in each, the widest direction can become four times wider. Fewer with axes from a closed form, which has
#: found most of the widths already.
NUM_ROUNDS, NUM_CLOSED_FORM_ROUNDS = 8, 4

#: Rotations of the axes by measured curvature; rotations by closed-form curvature, which has no noise.
NUM_ROTATIONS, NUM_CLOSED_FORM_ROTATIONS = 4, 2

#: One step changes no scale by more than e^±0.3, and one round by more than a factor 2.
MAX_EXPONENT = 0.3
MAX_ROUND_FACTOR = 4.0

#: Length, in units of u, over which curvature is measured for the step size; decay per step of its largest value.
PROBE = 0.25
PROBE_DECAY = 0.95


class Probe(NamedTuple):
    """A power iteration for the largest curvature in u, which bounds the step of the mean: direction and curvature."""

    vector: Float[Array, " dim"]
    largest: Float[Array, ""]


def fit_low_rank(
    fit_key: PRNGKeyArray,
    weights_key: PRNGKeyArray,
    target: Target,
    starts: Starts,
    windows: BatchWindows | None,
    num_steps: int,
    rank: int,
    shapes: tuple[tuple[int, ...], ...] = (),
) -> tuple[AffineMap, Int[Array, ""]]:
    """Mean-field from every start, then the moments of their mixture; then rounds of directions, mean and scale.

    Returns the map and the code of its status. A mean-field fit that never moved or ran away says so itself; otherwise
    the status is that of the last round.

    Args:
        fit_key: Random key.
        weights_key: Random key of the starts' weights.
        target: The target.
        starts: Where the starts are.
        windows: The rows of data of each step; None for all rows.
        num_steps: Steps of each start, and again of all rounds together.
        rank: r; 0 stops after the diagonal.
        shapes: The shapes of the arrays that x is made of. The coordinates are rotated along their axes first.
    """
    diagonal_key, rounds_key = jax.random.split(fit_key)
    u = BalancedNoise(weights_key, NUM_ELBO_PAIRS, target.dim).draw(jax.random.fold_in(weights_key, 1))

    def attempt(index: Int[Array, ""]) -> Attempt:
        first, scale = starts.of_attempt(index)
        scales = jnp.broadcast_to(scale, first.shape)
        fitted = fit_diagonal(diagonal_key, target, first, windows, num_steps, scales)
        noise = drift_noise(windows, num_steps // 4)
        return pooled(u, target, first, fitted, DiagonalGaussians(fitted.mean, fitted.root), noise)

    diagonal = (best := best_attempt(attempt, DiagonalMap(u[0], u[0]))).affine
    assert isinstance(diagonal, DiagonalMap)
    rotation = identity_rotation(shapes)
    if rotation is None:
        if rank == 0:
            return diagonal, best.code
        low_rank, code = _rounds(rounds_key, target, diagonal, windows, num_steps, NUM_ROUNDS, rank)
        return low_rank, jnp.where(best.code >= RAN_AWAY, best.code, code)
    rotated = _fit_rotation(jax.random.fold_in(diagonal_key, 1), target, diagonal, windows, num_steps, rotation)
    if rank == 0:
        return rotated, best.code
    # The mean of the rounds is relative to the map around them.
    zero = jnp.zeros_like(diagonal.mean)
    around = eqx.tree_at(lambda a: a.inner.scale, rotated, jnp.ones_like(zero))
    num_rounds = NUM_CLOSED_FORM_ROUNDS if has_closed_form(target, rotation) else NUM_ROUNDS
    inner, code = _rounds(rounds_key, Whitened(target, around), rotated.inner, windows, num_steps, num_rounds, rank)
    mean, inner = around.forward(inner.mean), eqx.tree_at(lambda a: a.mean, inner, zero)
    affine = RotatedMap(mean, rotated.scale, rotated.rotation, inner)
    return affine, jnp.where(best.code >= RAN_AWAY, best.code, code)


def _fit_rotation(
    key: PRNGKeyArray,
    target: Target,
    diagonal: DiagonalMap,
    windows: BatchWindows | None,
    num_steps: int,
    rotation: AxisRotation,
) -> RotatedMap:
    """Axes along which the curvature is nearest to diagonal, and a diagonal Gaussian along them.

    If the target knows its curvature, axes and scales come from the closed form at draws of the current Gaussian, and
    only the mean is fitted. Otherwise each pass measures the curvature along the current axes, and fits a diagonal
    Gaussian along them; the last pass keeps its axes. Several passes are needed: the mean-field mean can still be far
    away, since its steps are short where directions of different scales are mixed, and the curvature changes with it.
    """
    scale, zero = unit_scales(diagonal.scale, rotation), jnp.zeros_like(diagonal.mean)
    widest = jnp.max(diagonal.scale / scale)
    closed_form = has_closed_form(target, rotation)
    num_passes = NUM_CLOSED_FORM_ROTATIONS if closed_form else NUM_ROTATIONS

    def fitted(key: Array, mean: Array, rotation: AxisRotation, sd: Array) -> tuple[Array, Array]:
        axes = RotatedMap(mean, scale, rotation, DiagonalMap(zero, jnp.ones_like(zero)))
        corrected = target if windows is None else ControlVariate.at(target, mean)
        steps = num_steps // num_passes
        fitted = fit_diagonal(key, Whitened(corrected, axes), zero[None], windows, steps, sd[None])
        return axes.forward(fitted.mean[0]), fitted.root[0]

    def measured(state: tuple[Array, AxisRotation, Array], k: Array) -> tuple[tuple[Array, AxisRotation, Array], None]:
        mean, rotation, _ = state
        measure_key, fit_key = jax.random.split(jax.random.fold_in(key, k))
        around = DiagonalMap(mean, diagonal.scale)
        measurement = measure(measure_key, target, around, scale, rotation, windows)
        sd, better = _if_finite(measurement, (diagonal.scale / scale, rotation))
        mean, sd = fitted(fit_key, mean, rotation, jnp.minimum(sd, widest))
        last = k == num_passes - 1
        kept = jax.tree.map(lambda new, old: jnp.where(last, old, new), better, rotation)
        return (mean, kept, sd), None

    def computed(state: tuple[Array, AxisRotation, Array], k: Array) -> tuple[tuple[Array, AxisRotation, Array], None]:
        mean, rotation, sd = state
        fit_key, draw_key = jax.random.split(jax.random.fold_in(key, k))
        half = sd * jax.random.normal(draw_key, (NUM_PAIRS, len(zero)), zero.dtype)
        points = mean + scale * jax.vmap(rotation.apply)(jnp.concatenate([half, -half]))
        sd, rotation = _if_finite(closed_form_axes(target, points, scale, rotation), (sd, rotation))
        mean, _ = fitted(fit_key, mean, rotation, sd)
        return (mean, rotation, sd), None

    start = diagonal.mean, per_row_identity(rotation) if closed_form else rotation, diagonal.scale / scale
    (mean, rotation, sd), _ = jax.lax.scan(computed if closed_form else measured, start, jnp.arange(num_passes))
    return RotatedMap(mean, scale, rotation, DiagonalMap(zero, sd))


def fit_diagonal(
    key: PRNGKeyArray,
    target: Target,
    means: Float[Array, "starts dim"],
    windows: BatchWindows | None,
    num_steps: int,
    scales: Float[Array, "starts dim"],
) -> Fitted:
    """The mean-field optimum from every start: m and s, with s₀ = `scales`."""
    noise = BalancedNoise(key, NUM_PAIRS, means.shape[1])

    def one(q: Fitted, trust: Trust, probe: Probe, u: Array, t: Array) -> tuple[Fitted, Trust, Probe]:
        affine = DiagonalMap(q.mean, q.root)
        residuals, probe = _residuals(target, affine, u, probe, windows, t)
        even, odd = even_and_odd(residuals, trust.reach)
        drift, gap = jnp.mean(even, axis=0), jnp.mean(odd * u[:NUM_PAIRS], axis=0)
        step = jnp.minimum(mean_rate(t, num_steps, windows), 1.0 / probe.largest)
        exponent = jnp.clip(0.5 * rate(t, num_steps) * gap, -MAX_EXPONENT, MAX_EXPONENT)
        new = _if_finite((q.mean + step * q.root * drift, q.root * jnp.exp(exponent)), (q.mean, q.root))
        limited = trust.is_limited(drift, jnp.sum(unit(drift) ** 2 * gap))
        mean, scale, trust = trust.advanced((q.mean, q.root), new, finite_share(residuals), limited)
        return Fitted(mean, scale, q.evidence.add(drift, gap, t, num_steps)), trust, probe

    def step(state: tuple[Fitted, Trust, Probe], t: Array) -> tuple[tuple[Fitted, Trust, Probe], None]:
        u = noise.draw(jax.random.fold_in(key, t))
        return jax.vmap(lambda q, trust, probe: one(q, trust, probe, u, t))(*state), None

    probes = jax.vmap(lambda k: _new_probe(k, means.shape[1]))(jax.random.split(key, means.shape[0]))
    start = jax.vmap(lambda m, s: (Fitted(m, s, Evidence.none(s)), Trust.at(m, s)))(means, scales)
    return jax.lax.scan(step, (*start, probes), jnp.arange(num_steps))[0][0]


def _rounds(
    key: PRNGKeyArray,
    target: Target,
    diagonal: DiagonalMap,
    windows: BatchWindows | None,
    num_steps: int,
    num_rounds: int,
    rank: int,
) -> tuple[LowRankMap, Int[Array, ""]]:
    """Rounds of directions, mean and scale from a diagonal Gaussian; then Newton steps of the mean. And the status."""
    steps_per_round = max(1, num_steps // num_rounds)
    dim, num_steps = diagonal.dim, num_rounds * steps_per_round
    start_key, probe_key, noise_key, directions_key = jax.random.split(key, 4)
    noise = BalancedNoise(noise_key, NUM_PAIRS, dim)

    def one_round(state: tuple[LowRankMap, Probe, Array, Array], index: Int[Array, ""]) -> tuple[tuple, None]:
        affine, probe, gap, _ = state
        scale = affine.scale / jnp.sqrt(jnp.clip(1.0 - gap, 1.0 / MAX_ROUND_FACTOR, MAX_ROUND_FACTOR))
        directions, stretch = extreme_directions(
            jax.random.fold_in(directions_key, index), target, affine, scale, windows, index * steps_per_round
        )
        affine = _if_finite(LowRankMap(affine.mean, scale, directions, stretch), affine)
        corrected = target if windows is None else ControlVariate.at(target, affine.mean)
        unit = jnp.ones_like(scale)
        dual = eqx.tree_at(
            lambda a: (a.mean, a.scale, a.stretch), affine, (jnp.zeros_like(scale), unit, 1.0 / affine.stretch)
        )  # u ↦ K⁻ᵀ u

        def step(state: tuple[Array, Probe, Array, Array], i: Array) -> tuple[tuple[Array, Probe, Array, Array], None]:
            mean, probe, gap, drift = state
            t = index * steps_per_round + i
            u = noise.draw(jax.random.fold_in(noise_key, t))
            current = eqx.tree_at(lambda a: a.mean, affine, mean)
            residuals, probe = _residuals(corrected, current, u, probe, windows, t)
            even, odd = even_and_odd(residuals)
            rho = jnp.minimum(mean_rate(t, num_steps, windows), 1.0 / probe.largest)
            one_drift = jnp.mean(even, axis=0)
            new_mean = current.forward(rho * one_drift)
            products = jax.vmap(dual.forward)(odd) * jax.vmap(dual.forward)(u[:NUM_PAIRS])
            gap, drift = gap + jnp.mean(products, axis=0) / steps_per_round, drift + one_drift / steps_per_round
            return (_if_finite(new_mean, mean), probe, gap, drift), None

        inner = (affine.mean, probe, jnp.zeros_like(scale), jnp.zeros_like(scale))
        (mean, probe, gap, drift), _ = jax.lax.scan(step, inner, jnp.arange(steps_per_round))
        return (eqx.tree_at(lambda a: a.mean, affine, mean), probe, jnp.nan_to_num(gap), drift), None

    frame = jnp.linalg.qr(jax.random.normal(start_key, (dim, rank), diagonal.mean.dtype))[0]
    start = LowRankMap(diagonal.mean, diagonal.scale, frame, jnp.ones(rank, diagonal.mean.dtype))
    zero = jnp.zeros_like(diagonal.scale)
    state = start, _new_probe(probe_key, dim), zero, zero
    (affine, _, gap, drift), _ = jax.lax.scan(one_round, state, jnp.arange(num_rounds))
    code = steps_code(drift, gap, drift_noise(windows, steps_per_round))
    return refine_mean(jax.random.fold_in(key, 4), target, affine, windows), code


def _new_probe(key: PRNGKeyArray, dim: int) -> Probe:
    vector = jax.random.normal(key, (dim,), default_float())
    return Probe(vector / jnp.linalg.norm(vector), jnp.ones((), vector.dtype))


def _residuals(
    target: Target,
    affine: AffineMap,
    u: Float[Array, "draws dim"],
    probe: Probe,
    windows: BatchWindows | None,
    step: Int[Array, ""],
) -> tuple[Float[Array, "draws dim"], Probe]:
    """r(u) = Lᵀ S(m + L u) + u; and one power iteration on Lᵀ(−∇² log p)L at the first u, by a difference of scores.

    One call of the target for all points, since each call has to be compiled.
    """
    rows = None if windows is None else windows.at(step)
    shift = PROBE * probe.vector
    points = jnp.concatenate([u, jnp.stack([u[0] + shift, u[0] - shift])])
    scores = jax.vmap(affine.pull_back)(scores_at(target, jax.vmap(affine.forward)(points), rows))
    image = (scores[-1] - scores[-2]) / (2 * PROBE)
    size: Array = jnp.linalg.norm(image)
    usable = jnp.isfinite(size) & (size > 0)
    vector = jnp.where(usable, image / jnp.where(usable, size, 1.0), probe.vector)
    return scores[:-2] + u, Probe(vector, jnp.maximum(PROBE_DECAY * probe.largest, jnp.where(usable, size, 0.0)))


def _if_finite(new: PyTree, old: PyTree) -> PyTree:
    """`new`, or all of `old` if any number of `new` is not finite."""
    finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(new)]))
    return jax.tree.map(lambda a, b: jnp.where(finite, a, b), new, old)
