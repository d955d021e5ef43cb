"""Compiling what comes next while something else runs or compiles: for accelerators, whose compilers are slow."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree


def is_worthwhile() -> bool:
    """Whether programs take long to compile, on a machine that has cores to spare; on a CPU they are busy already."""
    return jax.default_backend() != "cpu"


@contextlib.contextmanager
def beside(work: Callable[[], None]) -> Iterator[None]:
    """Do `work` in a thread, if that is worthwhile, and wait for it at the end.

    Only for work that nothing depends on: what fails in it fails silently, and again where it matters.
    """
    if not is_worthwhile():
        yield
        return

    def quietly() -> None:
        with contextlib.suppress(Exception):
            work()

    thread = threading.Thread(target=quietly, name="sivi-compile-ahead", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def like(function: Callable[..., PyTree], *arguments: Any) -> PyTree:
    """What `function` would return, with zeros for all numbers: nothing is computed."""

    def zeros(leaf: Any) -> Any:
        if not isinstance(leaf, jax.ShapeDtypeStruct):
            return leaf
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jnp.broadcast_to(jax.random.key(0), leaf.shape)
        return jnp.zeros(leaf.shape, leaf.dtype)

    return jax.tree.map(zeros, eqx.filter_eval_shape(function, *arguments))
