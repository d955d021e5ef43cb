"""One process on many targets of one shape, in one program; an interrupted run goes on where it was.

`sivi.fit(repeats=)` runs repeats on one target; here every member has rows of its own. The random numbers of an update
depend on the member's key and on the number of the update alone, so where a run is cut does not matter. On a CPU the
members take turns within a chunk: one of them fits in the caches, and all of them do not.
"""

import abc
import functools
import time
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PRNGKeyArray, PyTree

from .._backend import matmul_precision
from .._compiler import options, options_of_a_start
from .._programs import compiled
from .._repeats import across_repeats
from .._storage.atomic import write_whole

#: Visits to Python in a run, at most, and the seconds between two files, at least.
_CHUNKS, _SECONDS_BETWEEN_FILES = 20, 20.0
_FILE = "side-by-side.npz"


class Process(eqx.Module):
    """What is done to one member, step by step. A state has arrays, and else only what is known beforehand.

    A member is a target, or a pytree with a target in it.

    Attributes:
        precision: Of products of matrices, by JAX's names; None for the device's own.
    """

    precision: ClassVar[str | None] = None

    @abc.abstractmethod
    def start(self, key: PRNGKeyArray, target: Any) -> PyTree:
        """The state before the first step."""

    @abc.abstractmethod
    def step(self, key: PRNGKeyArray, index: Int[Array, ""], state: Any, target: Any) -> PyTree:
        """The state after a step, whose key is used for nothing else."""


class Ran(NamedTuple):
    """The states at the end, with a leading axis of members, and the seconds of all parts of the run."""

    states: PyTree
    seconds: float


def run_side_by_side(
    process: Process,
    targets: PyTree,
    keys: Key[Array, " members"],
    num_steps: int,
    scratch: Path,
    chunk_size: int | None = None,
) -> Ran:
    """Run a process on stacked targets to its end.

    Args:
        process: What is done.
        targets: Of all members: their arrays have a leading axis.
        keys: One for each member.
        num_steps: How many steps.
        scratch: Folder of the file from which an interrupted run goes on.
        chunk_size: Steps between two visits to Python, on which the result does not depend.
    """
    begin, file = time.perf_counter(), scratch / _FILE
    chunk_size = max(1, -(-num_steps // _CHUNKS)) if chunk_size is None else chunk_size
    stored = _stored(file, process, keys, targets)
    step, earlier, states = (0, 0.0, _start(process, keys, targets)) if stored is None else stored
    saved = time.perf_counter()
    while step < num_steps:
        last = min(step + chunk_size, num_steps)
        states = _advance(process, keys, states, targets, jnp.int32(step), jnp.int32(last))
        jax.block_until_ready(eqx.filter(states, eqx.is_array))
        step, now = last, time.perf_counter()
        if step < num_steps and now - saved > _SECONDS_BETWEEN_FILES:
            save_states(file, states, step, earlier + now - begin)
            saved = time.perf_counter()
    return Ran(states, earlier + time.perf_counter() - begin)


def save_states(file: Path, states: PyTree, step: int, seconds: float) -> None:
    """Write what `run_side_by_side` goes on from."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(states, eqx.is_array))]

    def write(path: Path) -> None:
        with path.open("wb") as stream:
            np.savez(stream, *leaves, step=np.int64(step), seconds=np.float64(seconds))

    write_whole(file, write)


def _stored(
    file: Path, process: Process, keys: Key[Array, " members"], targets: PyTree
) -> tuple[int, float, PyTree] | None:
    """Steps, seconds and states of an interrupted run; None if there is none, or of another shape."""
    if not file.exists():
        return None
    like = eqx.filter_eval_shape(functools.partial(_start_body, process), keys, targets)
    shapes, static = eqx.partition(like, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    expected, structure = jax.tree.flatten(shapes)
    with np.load(file, allow_pickle=False) as arrays:
        leaves = [arrays[name] for name in (f"arr_{i}" for i in range(len(expected))) if name in arrays]
        step, seconds = int(arrays["step"]), float(arrays["seconds"])
    if [(leaf.shape, leaf.dtype) for leaf in leaves] != [(leaf.shape, leaf.dtype) for leaf in expected]:
        return None
    return step, seconds, eqx.combine(jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in leaves]), static)


def _start_body(process: Process, keys: Key[Array, " members"], targets: PyTree) -> PyTree:
    with matmul_precision(process.precision):
        start_keys = jax.vmap(lambda key: jax.random.fold_in(key, 0))(keys)
        return across_repeats(process.start, len(keys), start_keys, targets)


_start = compiled(_start_body, options=options_of_a_start)


@functools.partial(compiled, options=options)  # on a CPU all passes of LLVM, for loops of minutes
def _advance(
    process: Process,
    keys: Key[Array, " members"],
    states: PyTree,
    targets: PyTree,
    first: Int[Array, ""],
    last: Int[Array, ""],
) -> PyTree:
    """The steps from `first` to `last`. Both are arguments: one program serves every chunk and every length."""

    def one(key: PRNGKeyArray, state: PyTree, target: PyTree) -> PyTree:
        arrays, static = eqx.partition(state, eqx.is_array)

        def body(carry: tuple[Array, PyTree]) -> tuple[Array, PyTree]:
            index, arrays = carry
            # 0 is the start's.
            moved = process.step(jax.random.fold_in(key, index + 1), index, eqx.combine(arrays, static), target)
            return index + 1, eqx.filter(moved, eqx.is_array)

        _, arrays = jax.lax.while_loop(lambda carry: carry[0] < last, body, (first, arrays))
        return eqx.combine(arrays, static)

    with matmul_precision(process.precision):
        return across_repeats(one, len(keys), keys, states, targets)
