"""The precision of matrix products, for a part of a program."""

from contextlib import AbstractContextManager, nullcontext

import jax

from ._types import describe


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
