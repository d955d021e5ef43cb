"""Compiling the next program in a thread, while another one compiles or runs.

A thread compiles the loop of updates, by running none of them on zeros of the right shapes, while the warm-up compiles
and runs. On a CPU, whose cores XLA keeps busy, that still saves the time that Python takes to trace one of them.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from .._arguments import default_float


@contextlib.contextmanager
def compiling_in_background(compile_next: Callable[[], None]) -> Iterator[None]:
    """Call `compile_next` in a thread, in the float type of this one, and wait for it at the end.

    Only for work that nothing depends on: an error in it is silent, and comes again where it matters.
    """
    x64 = default_float().itemsize == 8  # of this thread, which may differ from others

    def quietly() -> None:
        with contextlib.suppress(Exception), jax.enable_x64(x64):
            compile_next()

    thread = threading.Thread(target=quietly, name="sivi-compile-ahead", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def zeros_like_output(function: Callable[..., PyTree], *arguments: Any) -> PyTree:
    """What `function` would return, with zeros for all numbers: nothing is computed."""

    def zeros(leaf: Any) -> Any:
        if not isinstance(leaf, jax.ShapeDtypeStruct):
            return leaf
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jnp.broadcast_to(jax.random.key(0), leaf.shape)
        return jnp.zeros(leaf.shape, leaf.dtype)

    return jax.tree.map(zeros, eqx.filter_eval_shape(function, *arguments))
