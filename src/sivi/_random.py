"""Random numbers: many normal ones, of several shapes in one place of a program, and normal ones that are balanced.

XLA compiles every place where a program makes random numbers anew, and takes long over it: hence `side_by_side`.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PRNGKeyArray

from ._arguments import default_float
from ._threefry import threefry

#: Arrays with at most this many numbers for each key are drawn together.
MAX_SIZE = 2**16

#: Numbers that are drawn together, at most.
MAX_TOGETHER = 2**22

#: Up to this dimension a QR takes less time than the rest of a step.
MAX_QR_DIM = 64


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


#: Where the noise of many draws comes from, by its name in a run's settings: `normals`, or, for runs that an earlier
#: version began, `jax.random.normal` of each layer's key.
NOISE = ("together", "by layer")
_noise: ContextVar[str] = ContextVar("sivi_noise", default=NOISE[0])


@contextlib.contextmanager
def noise_made(how: str) -> Iterator[None]:
    """What is traced within makes the noise of many draws in this way."""
    token = _noise.set(how)
    try:
        yield
    finally:
        _noise.reset(token)


def noise_is_together() -> bool:
    """Whether the noise of many draws comes from `normals`."""
    return _noise.get() == NOISE[0]


def normals(key: PRNGKeyArray, *shapes: tuple[int, ...]) -> list[Float[Array, "..."]]:
    """Independent standard normal numbers of several shapes, in the default float type.

    In float32 they come from the generator of JAX's default keys, but both of its words are used, nothing is rolled
    into a loop, and all shapes share one place: a quarter of the time of `jax.random.normal` on a CPU, and a shorter
    compilation. The numbers are not those of `jax.random.normal`.

    Example:
        >>> a, b = normals(jax.random.key(0), (3,), (2, 2))
        >>> a.shape, b.shape
        ((3,), (2, 2))
    """
    sizes = [math.prod(shape) for shape in shapes]
    if default_float() == np.float32:
        flat = _float32_normals(key, sum(sizes))
    else:
        flat = jax.random.normal(key, (sum(sizes),), default_float())
    ends = np.cumsum(sizes)
    parts = zip(ends - sizes, ends, shapes, strict=True)
    return [flat[first:end].reshape(shape) for first, end, shape in parts]


def _float32_normals(key: PRNGKeyArray, num: int) -> Float[Array, " num"]:
    words = jax.random.key_data(key)
    if str(jax.random.key_impl(key)) != "threefry2x32":
        words = jax.random.bits(key, (2,), jnp.uint32)
    count = jax.lax.iota(jnp.uint32, -(-num // 2))
    # The first word is zero in the numbers that JAX makes from a key, and in the keys that it splits off.
    bits = jnp.concatenate(threefry((words[0], words[1]), jnp.ones_like(count), count))[:num]
    # In (-1, 1), symmetric, without 0 and without rounding: 24 bits and a half.
    uniform = (jax.lax.bitcast_convert_type(bits, jnp.int32) >> 8).astype(jnp.float32) * 2.0**-23 + 2.0**-24
    return _normal_quantile(uniform)


#: Rational approximations of the normal quantile in the centre and in the tails, lowest powers first.
_CENTRE = (3.3871327179, 50.434271938, 159.29113202, 59.109374720), (1.0, 17.895169469, 78.757757664, 67.187563600)
_TAIL = (1.4234372777, 2.7568153900, 1.3067284816, 0.17023821103), (1.0, 0.73700164250, 0.12021132975)


def _normal_quantile(u: Float[Array, " num"]) -> Float[Array, " num"]:
    """The standard normal quantile of (1 + u) / 2, to seven digits, for 1 − |u| from 2⁻²⁴ on.

    Wichura, Algorithm AS 241: the percentage points of the normal distribution (Applied Statistics, 1988), PPND7. It
    ends with a division, which XLA does not compute again for every use of the numbers, as it does with products.
    """
    centre, tail = 0.180625 - 0.25 * u * u, jnp.sqrt(-jnp.log(0.5 - 0.5 * jnp.abs(u))) - 1.6
    is_centre = jnp.abs(u) <= 0.85
    numerator, denominator = (
        jnp.where(is_centre, _polynomial(of_centre, centre), _polynomial(of_tail, tail))
        for of_centre, of_tail in zip(_CENTRE, _TAIL, strict=True)
    )
    return jnp.where(is_centre, 0.5 * u, jnp.sign(u)) * numerator / denominator


def _polynomial(coefficients: tuple[float, ...], x: Float[Array, " num"]) -> Float[Array, " num"]:
    value = jnp.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = value * x + coefficient
    return value


class BalancedNoise(eqx.Module):
    """Draws of N(0, I) in pairs ±u, along directions that are orthogonal in blocks of `dim`.

    Each draw alone is exactly normal: a uniform direction times an independent χ_dim radius, which a block shares. Over
    a whole block the mean of u uᵀ is a multiple of I, so a matrix estimated from it has noise in its scale alone. With
    fewer pairs than `dim` the directions are independent, not orthogonal.

    Attributes:
        frames: In more than `MAX_QR_DIM` dimensions, two random orthogonal matrices Q₀ and Q₁; None otherwise. A QR for
            every call would take too long there, and Q₀ D Q₁ with random signs D is uniform too.
        num_pairs: Pairs per call.
        dim: Length of u.

    Example:
        >>> u = BalancedNoise(jax.random.key(0), 4, 2).draw(jax.random.key(1))
        >>> u.shape, bool(jnp.all(u[:4] == -u[4:])), bool(jnp.abs(u[0] @ u[1]) < 1e-5)
        ((8, 2), True, True)
    """

    frames: Float[Array | np.ndarray, "2 dim dim"] | None
    num_pairs: int = eqx.field(static=True)
    dim: int = eqx.field(static=True)

    def __init__(
        self,
        key: PRNGKeyArray,
        num_pairs: int,
        dim: int,
        *,
        frames: Float[Array | np.ndarray, "2 dim dim"] | None = None,
    ):
        """The `frames` of other noise can be used again, since the signs are new in every call."""
        self.num_pairs, self.dim = num_pairs, dim
        if not MAX_QR_DIM < dim <= num_pairs:
            self.frames = None
        elif frames is None:
            self.frames = orthogonal(jax.random.normal(key, (2, dim, dim), default_float()))
        else:
            self.frames = frames

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the normal numbers that all draws of a call are made from.

        The last row of each block gives its radius, the others its directions.
        """
        if self.num_pairs < self.dim:
            return self.num_pairs, self.dim
        rows = self.dim if self.frames is None else 1
        return -(-self.num_pairs // self.dim), rows + 1, self.dim

    def draw(self, key: PRNGKeyArray) -> Float[Array, "draws dim"]:
        """2 `num_pairs` draws; the second half mirrors the first."""
        return self.from_normals(jax.random.normal(key, self.shape, default_float()))

    def from_normals(self, normal: Float[Array, "*shape"]) -> Float[Array, "draws dim"]:
        """The draws made from normal numbers of shape `shape`."""
        half = self.half_from_normals(normal)
        return jnp.concatenate([half, -half])

    def half_from_normals(
        self, normal: Float[Array | np.ndarray, "..."], xp: Any = jnp
    ) -> Float[Array | np.ndarray, "*calls pairs dim"]:
        """The first draw of every pair, of one call or of several; `xp` is the module that computes, or `numpy`."""
        if self.num_pairs < self.dim:
            return normal
        directions, radial = normal[..., :-1, :], normal[..., -1:, :]
        if self.frames is None:
            frames = orthogonal(directions, xp)
        else:
            frames = (self.frames[0] * xp.where(directions < 0, -1.0, 1.0).astype(normal.dtype)) @ self.frames[1]
        radii = xp.linalg.norm(radial, axis=-1, keepdims=True)
        calls = normal.shape[: normal.ndim - 3]
        return (radii * frames).reshape(*calls, -1, self.dim)[..., : self.num_pairs, :]


def orthogonal(
    normal: Float[Array | np.ndarray, "*num dim dim"], xp: Any = jnp
) -> Float[Array | np.ndarray, "*num dim dim"]:
    """Uniform orthogonal matrices from normal ones: QR, with the signs that make it unique."""
    frames, triangles = xp.linalg.qr(normal)
    signs = xp.where(xp.diagonal(triangles, axis1=-2, axis2=-1) < 0, -1.0, 1.0).astype(frames.dtype)
    return frames * signs[..., None, :]
