"""What depends on the device, or on how precisely it multiplies matrices."""

from contextlib import AbstractContextManager, nullcontext

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ._arguments import describe

#: Up to this many particles, a CPU evaluates small networks faster one after the other than side by side.
_FEWEST_SIDE_BY_SIDE = 8
#: Four megabytes: the caches of a CPU hold a few such arrays.
_NUMBERS_IN_CACHE = 2**20
#: Up to this many rows, a triangular solve is fast everywhere.
_SMALL_SOLVE = 16


def _on_cpu() -> bool:
    return jax.default_backend() == "cpu"


def noise_from_host() -> bool:
    """Whether NumPy makes the noise of draws: on a CPU, where it is as fast, and has no program to compile."""
    return _on_cpu()


def alignment_of_arrays() -> int:
    """Numbers of which the place of an array in a packed vector is a multiple: 256 bytes, off the CPU."""
    return 1 if _on_cpu() else 64


def numbers_in_cache() -> int | None:
    """Numbers of an array that the caches of a CPU hold beside a few others; None elsewhere."""
    return _NUMBERS_IN_CACHE if _on_cpu() else None


def repeats_in_turn() -> bool:
    """Whether repeats run one after the other: on a CPU, which is busy with one."""
    return _on_cpu()


def particles_in_turn(num: int) -> bool:
    """Whether `num` particles go through a small network one after the other.

    XLA's CPU backend has a fast product of a matrix with one vector and another for many; in between, a product
    costs more than as many single ones.
    """
    return 1 < num < _FEWEST_SIDE_BY_SIDE and _on_cpu()


def inverts_by_halves(size: int) -> bool:
    """Whether to invert a triangular matrix by products of its halves.

    On a CPU, LAPACK's solve of more than a few rows starts threads and on busy cores waits for them longer
    than all the rest of an update takes; products do not.
    """
    return size > _SMALL_SOLVE and _on_cpu()


def columns_to_pad(num: int) -> int:
    """Columns of zeros that bring a matrix to a multiple of eight: off the CPU, other lengths are far slower."""
    return 0 if _on_cpu() else -num % 8


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
