"""Draws of fitted families, in blocks of one size: one program for every number of draws.

On a CPU the noise of a moderate number of draws comes from NumPy, and the program has only the networks and the
coordinates in it; elsewhere, and for families whose noise is not normal, the program makes the same noise from a key.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from ._arguments import default_float
from ._backend import noise_from_host
from ._compiler import options_of_one_run
from ._host_random import child_words, fold_in, is_concrete, normals_of, words_of
from ._layout import Layout
from ._programs import compiled
from ._repeats import across_repeats, repeat_keys
from ._types import RepeatKeys
from .coordinates import CoordinateMap
from .families import Family, SemiImplicit

#: Draws in a block, at most, and numbers in one.
_MAX_DRAWS, _MAX_NUMBERS = 8192, 2**20
#: The same where the program makes the noise.
_MAX_DRAWS_ON_DEVICE, _MAX_NUMBERS_ON_DEVICE = 65_536, 2**24
#: Numbers up to which NumPy, which is slower than a compiled program, makes the noise.
_MOST_FROM_HOST = 2**21
#: Draws that share a key, of which each has a child.
_PER_KEY = 65_536


class BlockOfDraws(NamedTuple):
    """Draws of every repeat.

    Attributes:
        x: In the coordinates of the target.
        u: In those of the fit.
        at: The conditional distributions that they are of.
    """

    x: Float[Array, "repeats num dim"]
    u: Float[Array, "repeats num dim"]
    at: Any


def has_normal_noise(families: Family) -> bool:
    """Whether all noise of the families is standard normal, so that NumPy can make it."""
    return isinstance(families, SemiImplicit) and None not in noise_dims(families)


def noise_dims(families: SemiImplicit) -> tuple[int | None, int | None]:
    return families.mixing.normal_noise_dim, families.conditional.normal_noise_dim


def draw(
    families: Family, affines: CoordinateMap, key: PRNGKeyArray, num: int, repeats: int
) -> Float[Array | np.ndarray, "repeats num dim"]:
    """`num` draws of every repeat, in the coordinates of the target.

    The key of draw i is that of child i of a child of the key, one for every `_PER_KEY` draws.
    """
    if is_concrete(key) and num * affines.dim <= _MOST_FROM_HOST and can_use_host(families, key):
        size, block = block_size(numbers_of(affines)), draws_from_host
        found: Any = np.empty((repeats, num, affines.dim), default_float())
    else:
        size, block = block_size(numbers_of(affines), on_device=True), draws_from_key
        if num <= size:
            return block(families, affines, repeat_keys(fold_in(key, 0), repeats), 0, num, repeats).x[:, :num]
        found = None
    parts = []
    for first in range(0, num, size):
        which, within = divmod(first, _PER_KEY)
        keys = repeat_keys(fold_in(key, which), repeats)
        part = block(families, affines, keys, within, min(size, num - first), repeats).x[:, : num - first]
        if found is None:
            parts.append(part)
        else:
            found[:, first : first + size] = part
    return jnp.concatenate(parts, axis=1) if found is None else found


def can_use_host(families: Family, key: PRNGKeyArray) -> bool:
    """Whether NumPy makes the noise: of normal noise, in float32, from keys that it can read, on a CPU."""
    single = default_float() == np.float32
    return noise_from_host() and single and has_normal_noise(families) and words_of(key) is not None


def numbers_of(affines: CoordinateMap) -> int:
    """Numbers that a draw needs: the unknowns, or more where its coordinates take more."""
    return max(affines.dim, affines.numbers_per_point)


def block_size(numbers_per_draw: int, on_device: bool = False) -> int:
    """Draws in a block; a power of two, so that blocks fill a key. The draws do not depend on it."""
    most, numbers = (_MAX_DRAWS_ON_DEVICE, _MAX_NUMBERS_ON_DEVICE) if on_device else (_MAX_DRAWS, _MAX_NUMBERS)
    return max(16, min(most, 2 ** ((numbers // numbers_per_draw).bit_length() - 1)))


def draws_from_host(
    families: SemiImplicit, affines: CoordinateMap, keys: RepeatKeys, first: int, num: int, repeats: int
) -> BlockOfDraws:
    """A block of draws from number `first` of these keys on, of which the first `num` have noise of their own."""
    words, noise = words_of(keys), []
    assert words is not None
    own = np.stack([child_words(words[i], np.arange(first, first + num)) for i in range(repeats)])
    for k, length in enumerate(noise_dims(families)):
        noise.append(normals_of(child_words(own, k).reshape(-1, 2), length).reshape(repeats, num, length))
    return draws_of_noise(families, affines, *noise)


def draws_of_noise(
    families: SemiImplicit,
    affines: CoordinateMap,
    noise: Float[np.ndarray, "repeats num noise"],
    eps: Float[np.ndarray, "repeats num eps"],
) -> BlockOfDraws:
    """The draws that noise from the host makes, at most a block of them; those beyond it have noise zero."""
    block = block_size(numbers_of(affines))
    padded = [np.pad(array, ((0, 0), (0, block - array.shape[1]), (0, 0))) for array in (noise, eps)]
    return _draws_from_noise(families, affines, *map(jnp.asarray, padded), noise.shape[0])


def draws_from_key(
    families: Family, affines: CoordinateMap, keys: RepeatKeys, first: int, num: int, repeats: int
) -> BlockOfDraws:
    """The same by JAX, for all families."""
    size = block_size(numbers_of(affines), on_device=True)
    return _draws_from_key(families, affines, keys, jnp.asarray(np.int32(first)), size, repeats)


@functools.partial(compiled, options=options_of_one_run)
def _draws_from_noise(
    families: SemiImplicit,
    affines: CoordinateMap,
    noise: Float[Array, "repeats num noise"],
    eps: Float[Array, "repeats num eps"],
    repeats: int,
) -> BlockOfDraws:
    def one(family: SemiImplicit, affine: CoordinateMap, noise: Array, eps: Array) -> BlockOfDraws:
        components = family.conditional.at_each(jax.vmap(family.mixing.transform)(noise))
        u = components.transform(eps)
        return BlockOfDraws(jax.vmap(affine.forward)(u), u, components.stacked)

    return across_repeats(one, repeats, families, affines, noise, eps)


@functools.partial(compiled, options=options_of_one_run)
def _draws_from_key(
    families: Family, affines: CoordinateMap, keys: RepeatKeys, first: Int[Array, ""], num: int, repeats: int
) -> BlockOfDraws:
    def one(family: Family, affine: CoordinateMap, key: PRNGKeyArray) -> BlockOfDraws:
        u = jax.vmap(lambda i: family.sample(jax.random.fold_in(key, i)))(first + jnp.arange(num))
        return BlockOfDraws(jax.vmap(affine.forward)(u), u, None)

    return across_repeats(one, repeats, families, affines, keys)


def mixed(draws: Float[Array | np.ndarray, "repeats num dim"], key: PRNGKeyArray) -> Float[Array | np.ndarray, "_ dim"]:
    """Draws of all repeats in one row, which alternate, starting with a random repeat."""
    repeats, _, dim = draws.shape
    if repeats == 1:
        return draws[0]
    first = jax.random.randint(key, (), 0, repeats)
    if isinstance(draws, np.ndarray):
        return np.roll(draws, -int(first), axis=0).swapaxes(0, 1).reshape(-1, dim)
    return jnp.roll(draws, -first, axis=0).swapaxes(0, 1).reshape(-1, dim)


def structured(layout: Layout, draws: Float[Array | np.ndarray, "num dim"]) -> PyTree:
    """Draws in the structure of a layout, each array with a leading axis; on a CPU in blocks of one size."""
    if isinstance(draws, jax.Array) and not (is_concrete(draws) and noise_from_host()):
        return _unravel(layout, draws)
    num, block = len(draws), block_size(layout.dim)
    parts = []
    for first in range(0, num, block):
        rows = np.asarray(draws[first : first + block])
        padded = np.concatenate([rows, np.repeat(rows[-1:], block - len(rows), axis=0)])
        tree = _unravel(layout, jnp.asarray(padded))
        parts.append(jax.tree.map(lambda leaf: np.asarray(leaf)[: min(block, num - first)], tree))  # noqa: B023
    return jax.tree.map(lambda *leaves: jnp.asarray(leaves[0] if num <= block else np.concatenate(leaves)), *parts)


@compiled
def _unravel(layout: Layout, draws: Float[Array, "num dim"]) -> PyTree:
    return jax.vmap(layout.unravel)(draws)
