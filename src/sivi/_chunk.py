"""The compiled loop: updates `first` to `last` of all repeats as one program, which a fit compiles once."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from ._affine import AffineMap, IdentityMap
from ._types import RepeatKeys
from .batching import Batches
from .families import Family
from .objectives import Objective
from .schedules import RunPlan
from .stopping import Plateau, StopState, watch
from .targets import Anchored, Target, Whitened

#: A fit stops as diverged when more than this share of its updates was not finite, or this many in a row.
MAX_SKIPPED_SHARE = 0.1
MAX_SKIPPED_IN_A_ROW = 100


class Carry(eqx.Module):
    """What one update hands to the next; everything but `stop` has a leading axis of repeats."""

    family: Family
    state: PyTree
    skipped: Int[Array, " repeats"]
    streak: Int[Array, " repeats"]
    stop: StopState


class Problem(eqx.Module):
    """What the updates of a fit have in common; all but objective, target and rule with a leading axis of repeats.

    The anchor is the score on all data at the centre of the affine map, which the scores of minibatches are held to.
    """

    objective: Objective
    target: Target
    affine: AffineMap
    batches: Batches | None
    run_key: RepeatKeys
    rule: Plateau | None
    anchor: Float[Array, "repeats dim"] | None = None
    batching: str = eqx.field(static=True, default="shuffle")


def across_repeats(function: Callable[..., Any], repeats: int, *arguments: PyTree) -> PyTree:
    """`function` for every repeat: the arrays of its arguments and of what it returns have a leading axis for them.

    On a CPU one after the other, since it is busy with one; elsewhere all at once.
    """
    arrays, static = eqx.partition(arguments, eqx.is_array)
    rest: list[Any] = []

    def one(arrays: PyTree) -> PyTree:
        out, other = eqx.partition(function(*eqx.combine(arrays, static)), eqx.is_array)
        rest[:] = [other]
        return out

    if repeats == 1:
        out = jax.tree.map(lambda leaf: leaf[None], one(jax.tree.map(lambda leaf: leaf[0], arrays)))
    elif jax.default_backend() == "cpu":
        out = jax.lax.map(one, arrays)
    else:
        out = jax.vmap(one)(arrays)
    return eqx.combine(out, rest[0])


def pulled_back(target: Target, affine: AffineMap, anchor: Float[Array, " dim"] | None = None) -> Target:
    """The target in the coordinates in which it is fitted."""
    if anchor is not None:
        target = Anchored(target, affine.mean, anchor)
    return target if isinstance(affine, IdentityMap) else Whitened(target, affine)


@eqx.filter_jit
def anchors(target: Target, affine: AffineMap, repeats: int) -> Float[Array, "repeats dim"]:
    """The score on all data at the centre of every repeat's map."""
    return across_repeats(lambda affine: target.score(affine.mean), repeats, affine)


def member_of(tree: PyTree, index: int) -> PyTree:
    """One repeat of a tree whose arrays have a leading axis for them."""
    return jax.tree.map(lambda leaf: leaf[index] if eqx.is_array(leaf) else leaf, tree)


@eqx.filter_jit
def run_chunk(
    carry: Carry,
    first: Int[Array, ""],
    last: Int[Array, ""],
    num_steps: Int[Array, ""],
    problem: Problem,
    chunk_size: int,
) -> tuple[Array, Carry, dict[str, Array]]:
    """Updates `first` to `last`, or to where the run ends: the steps done, what they left, and their metrics.

    The first and last step are arguments, so the trip count of the loop is not known to the compiler: a ragged last
    chunk needs no program of its own, and the body is compiled alike for every `chunk_size`.
    """
    repeats = carry.skipped.shape[0]
    batches = problem.batches
    arrays, static = eqx.partition(carry, eqx.is_array)

    def update(step: Array, carry: Carry, orders: Array | None) -> tuple[Any, Any, Any, Any, dict[str, Array]]:
        objective = problem.objective.bind(RunPlan(carry.stop.timeline(num_steps), problem.batching))

        def member(
            family: Family,
            state: PyTree,
            skipped: Array,
            streak: Array,
            affine: AffineMap,
            key: Array,
            batch: Any,
            anchor: Array | None,
        ) -> tuple[Any, Any, Array, Array, dict[str, Array]]:
            target = pulled_back(problem.target, affine, anchor)
            rows = None if batch is None else batch[0].batch(step, batch[1])
            old = (family, state)
            new = objective.step(jax.random.fold_in(key, step), family, state, target, rows)
            finite = _all_finite(new[:2])
            kept = jax.tree.map(
                lambda new, old: jnp.where(finite, new, old),
                *(eqx.filter(pair, eqx.is_array) for pair in (new[:2], old)),
            )
            family, state = eqx.combine(kept, eqx.filter(new[:2], eqx.is_array, inverse=True))
            return family, state, skipped + ~finite, jnp.where(finite, 0, streak + 1), new[2]

        batch = None if batches is None else (batches, orders)
        return across_repeats(
            member,
            repeats,
            carry.family,
            carry.state,
            carry.skipped,
            carry.streak,
            problem.affine,
            problem.run_key,
            batch,
            problem.anchor,
        )

    def body(loop: tuple[Any, ...]) -> tuple[Any, ...]:
        step, arrays, orders, recorded = loop
        carry = eqx.combine(arrays, static)
        if batches is not None:
            orders = batches.next_order(step, orders)
        *parts, metrics = update(step, carry, orders)
        losses = metrics["loss"] if "loss" in metrics else jnp.full(repeats, jnp.nan)
        stop = watch(problem.rule, carry.stop, step + 1, num_steps, losses)
        recorded = {name: recorded[name].at[step - first].set(metrics[name]) for name in recorded}
        return step + 1, eqx.filter(Carry(*parts, stop), eqx.is_array), orders, recorded

    def unfinished(loop: tuple[Any, ...]) -> Bool[Array, ""]:
        carry = loop[1]
        bad = diverged(carry.skipped, carry.streak, num_steps)
        return (loop[0] < jnp.minimum(last, carry.stop.end)) & ~bad.any()

    orders = None if batches is None else batches.order(first)
    shapes = eqx.filter_eval_shape(update, first, carry, orders)[-1]
    recorded = {name: jnp.zeros((chunk_size, *leaf.shape), leaf.dtype) for name, leaf in shapes.items()}
    step, arrays, _, recorded = jax.lax.while_loop(unfinished, body, (first, arrays, orders, recorded))
    return step, eqx.combine(arrays, static), recorded


def diverged(
    skipped: Int[Array | np.ndarray, " repeats"], streak: Int[Array | np.ndarray, " repeats"], num_steps: int | Array
) -> Bool[Array | np.ndarray, " repeats"]:
    """Which repeats had too many updates that were not finite: in all, the last among them, or in a row at the end."""
    too_many = skipped > MAX_SKIPPED_SHARE * num_steps
    return (too_many & (streak > 0)) | (streak >= MAX_SKIPPED_IN_A_ROW)


def _all_finite(tree: PyTree) -> Bool[Array, ""]:
    """Whether all numbers are finite: their sum is, short of an overflow near 10³⁸."""
    leaves = jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))
    return jnp.isfinite(sum(jnp.sum(leaf) for leaf in leaves))
