"""Independent repeats of a fit in one tree: its arrays have a leading axis for them."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from ._backend import repeats_in_turn
from ._host_random import fold_in, stack
from ._types import RepeatKeys

_REPEAT = 1000  # folded into the key of a fit, together with the repeat's number


def across_repeats(function: Callable[..., Any], repeats: int, *arguments: PyTree) -> PyTree:
    """Apply `function` to every repeat. Arrays in its arguments and result have a leading axis of repeats."""
    arrays, static = eqx.partition(arguments, eqx.is_array)
    others: list[Any] = []

    def one(arrays: PyTree) -> PyTree:
        out, other = eqx.partition(function(*eqx.combine(arrays, static)), eqx.is_array)
        others[:] = [other]
        return out

    if repeats == 1:
        out = jax.tree.map(lambda leaf: leaf[None], one(jax.tree.map(lambda leaf: leaf[0], arrays)))
    elif repeats_in_turn():
        out = jax.lax.map(one, arrays)
    else:
        out = jax.vmap(one)(arrays)
    return eqx.combine(out, others[0])


def member_of(tree: PyTree, index: int) -> PyTree:
    """One repeat of a tree, without the leading axis."""
    return jax.tree.map(lambda leaf: leaf[index] if eqx.is_array(leaf) else leaf, tree)


def only(tree: PyTree, index: int) -> PyTree:
    """One repeat of a tree, with a leading axis of length one."""
    return jax.tree.map(lambda leaf: leaf[index : index + 1] if eqx.is_array(leaf) else leaf, tree)


def stack_repeats(tree: PyTree, repeats: int) -> PyTree:
    """Equal repeats of a tree without the leading axis."""
    return jax.tree.map(
        lambda leaf: jnp.broadcast_to(leaf, (repeats, *leaf.shape)) if eqx.is_array(leaf) else leaf, tree
    )


def stack_trees(trees: Sequence[PyTree]) -> PyTree:
    """Trees of one structure as one, whose arrays have a leading axis; by NumPy, which has no program to compile."""

    def stacked(*leaves: Any) -> Any:
        return jnp.asarray(np.stack(leaves)) if eqx.is_array(leaves[0]) else leaves[0]

    return jax.tree.map(stacked, *trees)


def repeat_keys(key: PRNGKeyArray, repeats: int) -> RepeatKeys:
    """One key for every repeat: the first is `key` itself, and none depends on how many there are."""
    return stack([key, *(fold_in(key, _REPEAT + i) for i in range(1, repeats))])
