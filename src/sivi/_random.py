"""Random numbers of several shapes, drawn in one place of a program."""

import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ._arguments import default_float

#: Arrays with at most this many numbers for each key are drawn together.
MAX_SIZE = 2**16

#: Numbers that are drawn together, at most.
MAX_TOGETHER = 2**22


def side_by_side(
    keys: Sequence[Key[Array, "..."]],
    shapes: Sequence[tuple[int, ...]],
    draw: Callable[..., Array],
    *parameters: Float[Array, " num"],
) -> list[Float[Array, "..."]]:
    """An array `(*keys.shape, *shape)` of random numbers for each array of keys and its shape.

    XLA takes long to compile every place in a program where random numbers are made. So small arrays are drawn in one
    place, each with as many numbers as the largest of them needs, and cut to their size. With JAX's default generator
    the numbers that are kept are those that each key gives alone.

    Args:
        keys: Arrays of keys; an array without axes is one key.
        shapes: The shape of what each key of an array gives.
        draw: A sampler of `jax.random`, called as `draw(key, shape, dtype, *parameters)`.
        parameters: Arrays with one number for each array of keys.

    Example:
        >>> one, two = jax.random.split(jax.random.key(0))
        >>> a, b = side_by_side([one, two], [(3,), (2, 2)], jax.random.normal)
        >>> a.shape, bool(jnp.all(b == jax.random.normal(two, (2, 2))))
        ((3,), True)
    """
    sizes, counts, dtype = [math.prod(shape) for shape in shapes], [key.size for key in keys], default_float()
    together = [i for i, size in enumerate(sizes) if size <= MAX_SIZE]
    longest = max((sizes[i] for i in together), default=0)
    if longest * sum(counts[i] for i in together) > MAX_TOGETHER:
        together = []
    arrays: dict[int, Array] = {}
    if together:
        index = np.repeat(together, [counts[i] for i in together])
        drawn = jax.vmap(lambda key, *values: draw(key, (longest,), dtype, *values))(
            jnp.concatenate([keys[i].reshape(-1) for i in together]), *(parameter[index] for parameter in parameters)
        )
        ends = np.cumsum([counts[i] for i in together])
        for i, end in zip(together, ends, strict=True):
            arrays[i] = drawn[end - counts[i] : end, : sizes[i]].reshape(*keys[i].shape, *shapes[i])
    for i in [i for i in range(len(sizes)) if i not in together]:
        values = [parameter[i] for parameter in parameters]
        draw_each = jax.vmap(lambda key, shape=shapes[i], values=values: draw(key, shape, dtype, *values))
        arrays[i] = draw_each(keys[i].reshape(-1)).reshape(*keys[i].shape, *shapes[i])
    return [arrays[i] for i in range(len(sizes))]
