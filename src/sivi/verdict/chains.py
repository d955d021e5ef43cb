"""Many chains of Hamiltonian Monte Carlo on the exact target, in one compiled program whatever they are used for.

Drift, tuning, the relaxation of modes, tempering and refinement differ in numbers only: starts, coordinates, step
sizes, lengths, temperatures. All of these are arguments of the program `_advance`, which runs a fixed block of chains;
other numbers of chains are cut into blocks and filled up. So a target is compiled once. The density occurs once in the
program too, since compiling it is the main cost: the first value is that of a trajectory with steps of length zero.

A target that knows only its score has no log density for the Metropolis rule. Its difference between two points of a
trajectory is then the line integral of the score, by Simpson's rule, at one more score per step. Its error is of
fourth order in the step, where the energy error that the rule corrects is of second order.
"""

import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._arguments import default_float
from .._programs import compiled
from ..coordinates import AffineMap
from ..targets import Target
from ..targets.evaluate import MAX_POINTS_TIMES_ROWS, rows_of
from . import limits


class Advanced(NamedTuple):
    """Where n chains are, in x, as NumPy arrays. For a target with a score alone, log densities are NaN.

    Attributes:
        positions: x at the end.
        log_prob: log p there, never tempered.
        grad: ∇ log p there, with respect to x, never tempered.
        acceptance: Mean acceptance probability of each chain over all transitions.
        snapshots: x at up to 16 equally spaced times; the last are the positions at the end. As many as transitions,
            if those are fewer than 16; none without transitions.
        snapshot_log_prob: log p of the snapshots.
        num_gradients: Gradients that this took, of all n chains together.
    """

    positions: Float[np.ndarray, "n dim"]
    log_prob: Float[np.ndarray, " n"]
    grad: Float[np.ndarray, "n dim"]
    acceptance: Float[np.ndarray, " n"]
    snapshots: Float[np.ndarray, "snapshots n dim"]
    snapshot_log_prob: Float[np.ndarray, "snapshots n"]
    num_gradients: int


def block_size(target: Target) -> int:
    """Chains that run side by side: a power of two, fewer where the target has many rows of data."""
    most = max(1, MAX_POINTS_TIMES_ROWS // (8 * rows_of(target)))
    return min(limits.BLOCK, 2 ** int(np.log2(most)))


def evaluate(target: Target, points: np.ndarray, affine: AffineMap) -> Advanced:
    """log p and its gradient at points (n, dim), by the program of the chains: nothing new is compiled.

    `affine` is of no consequence for the result; it has the class and the shapes of the one the chains use.
    """
    return advance(jax.random.key(0), target, points, affine, step_size=1.0, num_transitions=0, max_leapfrog=1)


def seconds_per_gradient(target: Target, points: np.ndarray, affine: AffineMap) -> float:
    """How long a gradient takes in a full block of chains; compiles their program."""
    block = np.resize(points, (block_size(target), points.shape[1]))
    evaluate(target, block, affine)
    seconds = []
    for _ in range(3):  # the least of three: a busy machine must not decide what is checked
        begin = time.perf_counter()
        evaluate(target, block, affine)
        seconds.append(time.perf_counter() - begin)
    return min(seconds) / len(block)


def advance(
    key: PRNGKeyArray,
    target: Target,
    positions: np.ndarray,
    affine: AffineMap,
    *,
    step_size: float | np.ndarray,
    num_transitions: int,
    max_leapfrog: int,
    beta: float | np.ndarray = 1.0,
    beta_end: float | np.ndarray | None = None,
    small_share: float = limits.SMALL_SHARE,
    fine_every: int = 0,
) -> Advanced:
    """Advance n chains, each by the same number of transitions.

    A transition has U{1..max_leapfrog} leapfrog steps, the same number in all chains of a block. The steps of a chain
    are step_size·U(.7, 1.1), or with probability `small_share` step_size·10^(−1.5U). With `fine_every=k`, one
    transition in k has small steps in all chains and up to 4·max_leapfrog of them. All of that leaves p^β invariant.

    All numbers are arguments of one program per target and class of coordinates. A new one is compiled only where
    `affine` is of another class or shape than before.

    Args:
        key: Random key.
        target: p. Chains that start where its density is zero or not finite move to the first place where it is not.
        positions: Starts (n, dim), in x. Any n.
        affine: x = m + L u; the momenta are N(0, I) in u.
        step_size: Of the integrator, in u: one, or one per chain (n,).
        num_transitions: 0 evaluates log p and its gradient, and moves nothing.
        max_leapfrog: Longest trajectory of ordinary transitions.
        beta: Inverse temperature of the first transition: the chains are those of p(x)^β; one, or one per chain (n,).
        beta_end: That of the last; between them log β is linear in the number of the transition. As `beta` by default.
        small_share: Share of chains with small steps, in every transition.
        fine_every: One transition in this many is fine; 0 for none.
    """
    starts = np.asarray(positions, default_float())
    num, block = len(starts), block_size(target)
    dtype = starts.dtype
    first = np.broadcast_to(np.asarray(beta, dtype), (num,))
    last = first if beta_end is None else np.broadcast_to(np.asarray(beta_end, dtype), (num,))
    steps = np.broadcast_to(np.asarray(step_size, dtype), (num,))
    counts = tuple(jnp.int32(n) for n in (num_transitions, max_leapfrog, fine_every))
    pieces = []
    for i, begin in enumerate(range(0, num, block)):
        rows = begin + np.arange(block) % min(block, num - begin)  # the last block is filled up with its own chains
        pieces.append(
            (
                min(block, num - begin),
                _advance(
                    jax.random.fold_in(key, i),
                    target,
                    affine,
                    jnp.asarray(starts[rows]),
                    tuple(jnp.asarray(array[rows]) for array in (steps, first, last)),
                    counts,
                    jnp.asarray(small_share, dtype),
                ),
            )
        )
    kept = np.unique(np.arange(num_transitions) * limits.SNAPSHOTS // max(num_transitions, 1))
    return Advanced(
        positions=np.concatenate([np.asarray(piece.state.position)[:n] for n, piece in pieces]),
        log_prob=np.concatenate([np.asarray(piece.state.log_prob)[:n] for n, piece in pieces]),
        grad=np.concatenate([np.asarray(piece.state.grad)[:n] for n, piece in pieces]),
        acceptance=np.concatenate([np.asarray(piece.acceptance)[:n] for n, piece in pieces]) / max(num_transitions, 1),
        snapshots=np.concatenate([np.asarray(piece.snapshots)[kept, :n] for n, piece in pieces], axis=1),
        snapshot_log_prob=np.concatenate([np.asarray(piece.log_probs)[kept, :n] for n, piece in pieces], axis=1),
        num_gradients=sum(n * int(piece.num_gradients) for n, piece in pieces),
    )


class _State(NamedTuple):
    """Positions x, log p and its gradient with respect to x, of a block of chains."""

    position: Float[Array, "block dim"]
    log_prob: Float[Array, " block"]
    grad: Float[Array, "block dim"]


class _Loop(NamedTuple):
    state: _State
    acceptance: Float[Array, " block"]
    snapshots: Float[Array, "snapshots block dim"]
    log_probs: Float[Array, "snapshots block"]
    num_gradients: Int[Array, ""]


@compiled
def _advance(
    key: PRNGKeyArray,
    target: Target,
    affine: AffineMap,
    positions: Float[Array, "block dim"],
    per_chain: tuple[Array, Array, Array],
    counts: tuple[Array, Array, Array],
    small_share: Float[Array, ""],
) -> _Loop:
    step_size, beta, beta_end = per_chain
    num_transitions, max_leapfrog, fine_every = counts
    block, dim = positions.shape
    dtype = positions.dtype
    values = jnp.full(block, -jnp.inf, dtype)
    snapshots = jnp.zeros((limits.SNAPSHOTS, block, dim), dtype)
    log_probs = jnp.zeros((limits.SNAPSHOTS, block), dtype)
    state = _State(positions, values, jnp.zeros_like(positions))

    def transition(index: Array, loop: _Loop) -> _Loop:
        """Number −1 evaluates the starts: one step of length zero, which is always taken."""
        keys = jax.random.split(jax.random.fold_in(key, index), 5)
        is_start = index < 0
        is_fine = (fine_every > 0) & (index % jnp.maximum(fine_every, 1) == fine_every - 1)
        small = is_fine | (jax.random.uniform(keys[0], (block,)) < small_share)
        u = jax.random.uniform(keys[1], (block,), dtype)
        low, high = limits.JITTER
        step = step_size * jnp.where(small, 10.0 ** (-limits.SMALL_DECADES * u), low + (high - low) * u)
        step = jnp.where(is_start, 0.0, step).astype(dtype)
        most = jnp.where(is_fine, limits.FINE_LENGTH, 1) * max_leapfrog
        num_leapfrog = jnp.where(is_start, 1, jax.random.randint(keys[2], (), 1, most + 1)).astype(jnp.int32)
        along = jnp.maximum(index, 0) / jnp.maximum(num_transitions - 1, 1)
        temper = (beta * (beta_end / beta) ** along).astype(dtype)

        noise = jax.random.normal(keys[3], (block, dim), dtype)
        old = loop.state
        new, change = _trajectory(target, affine, old, noise, step, temper, num_leapfrog)
        acceptance = jnp.exp(jnp.minimum(jnp.where(jnp.isnan(change), -jnp.inf, change), 0.0))
        accepted = is_start | (jax.random.uniform(keys[4], (block,), dtype) < acceptance)
        state = _State(
            *(jnp.where(accepted.reshape(-1, *[1] * (a.ndim - 1)), a, b) for a, b in zip(new, old, strict=True))
        )
        place = jnp.maximum(index, 0) * limits.SNAPSHOTS // jnp.maximum(num_transitions, 1)
        return _Loop(
            state,
            loop.acceptance + jnp.where(is_start, 0.0, acceptance),
            loop.snapshots.at[place].set(state.position),
            loop.log_probs.at[place].set(state.log_prob),
            loop.num_gradients + num_leapfrog,
        )

    loop = _Loop(state, jnp.zeros(block, dtype), snapshots, log_probs, jnp.int32(0))
    return jax.lax.fori_loop(-1, num_transitions, transition, loop)


def _trajectory(
    target: Target,
    affine: AffineMap,
    start: _State,
    momentum: Float[Array, "block dim"],
    step: Float[Array, " block"],
    beta: Float[Array, " block"],
    num_leapfrog: Int[Array, ""],
) -> tuple[_State, Float[Array, " block"]]:
    """A leapfrog trajectory in u, and the logarithm of its ratio in the Metropolis rule."""
    pull_back, forward = jax.vmap(affine.pull_back), jax.vmap(lambda v: affine.forward(v) - affine.mean)
    half = 0.5 * (step * beta)[:, None]

    def leapfrog(_: Array, carry: tuple[_State, Array, Array]) -> tuple[_State, Array, Array]:
        state, momentum, gain = carry
        momentum = momentum + half * pull_back(state.grad)
        moved = step[:, None] * forward(momentum)
        if target.knows_log_prob:
            position = state.position + moved
            log_prob, grad = jax.vmap(jax.value_and_grad(target.log_prob))(position)
        else:
            both = state.position + moved * jnp.array([0.5, 1.0], moved.dtype)[:, None, None]
            middle, grad = jax.vmap(jax.vmap(target.score))(both)
            position, log_prob = both[1], jnp.full_like(state.log_prob, jnp.nan)
            gain = gain + jnp.sum(moved * (state.grad + 4.0 * middle + grad), axis=1) / 6.0
        return _State(position, log_prob, grad), momentum + half * pull_back(grad), gain

    zero = jnp.zeros_like(start.log_prob)
    end, last, gain = jax.lax.fori_loop(0, num_leapfrog, leapfrog, (start, momentum, zero))
    gain = end.log_prob - start.log_prob if target.knows_log_prob else gain
    return end, beta * gain - 0.5 * (jnp.sum(last**2, axis=1) - jnp.sum(momentum**2, axis=1))
