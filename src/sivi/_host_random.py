"""Keys and random numbers by NumPy: what a fit needs a few of, without a program to compile for it.

XLA takes up to half a second to compile a place where random numbers are made, and a default fit has few places that
need many. Keys are split as `jax.random.split` and `jax.random.fold_in` do, and uniform numbers are those of
`jax.random.uniform`, up to rounding; `normals_of` gives those of `jax.random.normal`, and `normals`, which is faster,
those of NumPy's generator, seeded by the key. Keys of other
generators than JAX's default go through JAX.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Key, PRNGKeyArray, UInt32
from scipy.special import erfinv

from ._arguments import default_float
from ._threefry import threefry


def is_concrete(*keys: Array) -> bool:
    """Whether no key is a tracer: only then can NumPy see it."""
    return not any(isinstance(key, Tracer) for key in keys)


def split(key: Key[Array, "*keys"], num: int = 2) -> Key[Array, "*keys num"]:
    """`jax.random.split` of one key, or of each of several.

    Example:
        >>> bool(jnp.all(split(jax.random.key(3), 4) == jax.random.split(jax.random.key(3), 4)))
        True
    """
    if not _known(key):
        return jax.random.split(key, num) if key.ndim == 0 else jax.vmap(lambda k: jax.random.split(k, num))(key)
    return _children(key, np.arange(num, dtype=np.uint32))


def fold_in(key: Key[Array, "*keys"], data: int) -> Key[Array, "*keys"]:
    """`jax.random.fold_in` of one key, or of each of several."""
    if not _known(key):
        return jax.random.fold_in(key, data) if key.ndim == 0 else jax.vmap(lambda k: jax.random.fold_in(k, data))(key)
    return _children(key, np.array(data, np.uint32))


def stack(keys: Sequence[PRNGKeyArray]) -> Key[Array, " keys"]:
    """Several keys as one array."""
    if not all(map(_known, keys)):
        return jnp.stack(keys)
    return jax.random.wrap_key_data(jnp.asarray(np.stack([_data(key) for key in keys])))


def children(keys: Key[Array, " keys"], num: int) -> list[Key[Array, " keys"]]:
    """As many arrays of new keys, one of each key."""
    return [fold_in(keys, i) for i in range(num)]


def unstack(keys: Key[Array, " keys"]) -> list[PRNGKeyArray]:
    """The keys of an array, one by one."""
    if not _known(keys):
        return list(keys)
    return [jax.random.wrap_key_data(jnp.asarray(words)) for words in _data(keys)]


def uniforms(
    keys: Key[Array, " num"], shapes: Sequence[tuple[int, ...]], bounds: Sequence[float]
) -> list[np.ndarray] | None:
    """Uniform(±bound) of several shapes, one key each; None where NumPy cannot make JAX's numbers."""
    if not _known(keys) or default_float() != np.float32:
        return None
    drawn = []
    for key, shape, bound in zip(_data(keys), shapes, bounds, strict=True):
        count = np.arange(int(np.prod(shape)), dtype=np.uint64)
        one, two = threefry((key[0], key[1]), (count >> np.uint64(32)).astype(np.uint32), count.astype(np.uint32))
        fraction = (((one ^ two) >> np.uint32(9)) | np.uint32(0x3F800000)).view(np.float32) - np.float32(1.0)
        low, high = np.float32(-bound), np.float32(bound)
        drawn.append(np.maximum(low, fraction * (high - low) + low).reshape(shape))
    return drawn


def normals(key: PRNGKeyArray, *shapes: tuple[int, ...]) -> list[Float[np.ndarray, "..."]]:
    """Standard normal numbers of several shapes, by NumPy's generator, which the key seeds."""
    source, dtype = generator(key), default_float().type
    return [source.standard_normal(shape, dtype) for shape in shapes]


def normals_of(words: UInt32[np.ndarray, "keys 2"], length: int) -> Float[np.ndarray, "keys length"]:
    """`jax.random.normal` of each key, given as its two words, in float32 and up to rounding."""
    count = np.broadcast_to(np.arange(length, dtype=np.uint32), (len(words), length))
    one, two = threefry((words[:, :1], words[:, 1:]), np.zeros_like(count), count)
    low = np.nextafter(np.float32(-1.0), np.float32(0.0))
    fraction = (((one ^ two) >> np.uint32(9)) | np.uint32(0x3F800000)).view(np.float32) - np.float32(1.0)
    uniform = np.maximum(low, fraction * (np.float32(1.0) - low) + low)
    return np.float32(np.sqrt(2.0)) * erfinv(uniform)


def child_words(words: UInt32[np.ndarray, "*keys 2"], number: int | np.ndarray) -> UInt32[np.ndarray, "*children 2"]:
    """The words of the child of this number, see `fold_in`, of a key or of several; or of several numbers of a key."""
    count = np.asarray(number, np.uint32)
    return np.stack(threefry((words[..., 0], words[..., 1]), np.zeros_like(count), count), axis=-1)


def words_of(key: Key[Array, "*keys"]) -> UInt32[np.ndarray, "*keys 2"] | None:
    """The two words of a key of JAX's default generator, if NumPy can see it."""
    return _data(key) if _known(key) else None


def generator(key: PRNGKeyArray) -> np.random.Generator:
    """NumPy's generator, seeded by a key."""
    return np.random.default_rng([int(word) for word in _data(key).ravel()])


def _known(key: Array) -> bool:
    """Whether a key can be seen, and is one of JAX's default generator, in its default setting."""
    if not is_concrete(key) or str(jax.random.key_impl(key)) != "threefry2x32":
        return False
    return bool(getattr(jax.config, "jax_threefry_partitionable", True))


def _data(key: Array) -> np.ndarray:
    return np.asarray(jax.random.key_data(key))


def _children(key: Array, numbers: np.ndarray) -> Array:
    words = _data(key)
    first, second = (words[..., i].reshape((*words.shape[:-1], *(1,) * numbers.ndim)) for i in range(2))
    shape = np.broadcast_shapes(first.shape, numbers.shape)
    count = np.broadcast_to(numbers, shape)
    found = threefry((first, second), np.zeros_like(count), count)
    return jax.random.wrap_key_data(jnp.asarray(np.stack(found, axis=-1)))
