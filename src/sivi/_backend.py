"""What depends on the device, or on how precisely it multiplies matrices."""

from contextlib import AbstractContextManager, nullcontext

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ._arguments import describe


def matmul_precision(name: str | None) -> AbstractContextManager[object]:
    """What is computed within has this precision; None changes nothing."""
    if name is None:
        return nullcontext()
    if not isinstance(name, str):
        raise TypeError(f"precision must be a name, such as 'float32', or None; got {describe(name)}.")
    try:
        context = jax.default_matmul_precision(name)
        with context:
            pass
    except ValueError as error:
        raise ValueError(
            "precision must be None or one that jax.default_matmul_precision takes, such as 'float32', "
            f"'tensorfloat32' or 'bfloat16'; got {name!r}."
        ) from error
    return jax.default_matmul_precision(name)


def matmul_highest(a: Array, b: Array) -> Array:
    """a @ b in full precision, where differences cancel that some devices would round away first."""
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)
