"""What every stage of the warm-up draws and evaluates: balanced noise, rows of data, scores at many points."""

import math
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray

from .._arguments import default_float
from ..targets import Anchored, Target

#: Points are evaluated in blocks such that points × rows of data stays below this: 64 MB for each number that the
#: target's program keeps per point and datum.
MAX_POINTS_TIMES_ROWS = 2**24

#: Normal numbers that are drawn side by side, at most.
MAX_TOGETHER = 2**22

#: Windows of rows that a draw sees at once, at most, where all draws together are to see all rows.
MAX_WINDOWS = 8

#: Up to this dimension a QR takes less time than the rest of a step.
MAX_QR_DIM = 64


class BalancedNoise(eqx.Module):
    """Draws of N(0, I) in pairs ±u, along directions that are orthogonal in blocks of `dim`.

    Each draw by itself is exactly normal: a uniform direction times an independent χ_dim radius, which a block shares.
    Over a whole block the mean of u uᵀ is a multiple of I, so that a matrix estimated from it has noise in its size
    alone. With fewer pairs than `dim` the directions are merely independent.

    Attributes:
        frames: Two random orthogonal matrices Q₀, Q₁ in more than `MAX_QR_DIM` dimensions, where a new one for every
            step would take too long: Q₀ D Q₁ with random signs D is uniform too.
        num_pairs: Pairs per call.
        dim: Length of u.

    Example:
        >>> u = BalancedNoise(jax.random.key(0), 4, 2).draw(jax.random.key(1))
        >>> u.shape, bool(jnp.all(u[:4] == -u[4:])), bool(jnp.abs(u[0] @ u[1]) < 1e-5)
        ((8, 2), True, True)
    """

    frames: Float[Array, "2 dim dim"] | None
    num_pairs: int = eqx.field(static=True)
    dim: int = eqx.field(static=True)

    def __init__(self, key: PRNGKeyArray, num_pairs: int, dim: int, *, frames: Float[Array, "2 dim dim"] | None = None):
        """`frames` of other noise will do, where they are needed; signs are drawn anew for every call."""
        self.num_pairs, self.dim = num_pairs, dim
        if not MAX_QR_DIM < dim <= num_pairs:
            self.frames = None
        elif frames is None:
            self.frames = _orthogonal(jax.random.normal(key, (2, dim, dim), default_float()))
        else:
            self.frames = frames

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the normal numbers that all draws are made from.

        The last row of each block gives its radius, the others its directions.
        """
        if self.num_pairs < self.dim:
            return self.num_pairs, self.dim
        rows = self.dim if self.frames is None else 1
        return -(-self.num_pairs // self.dim), rows + 1, self.dim

    def draw(self, key: PRNGKeyArray) -> Float[Array, "draws dim"]:
        """2 `num_pairs` draws; the second half mirrors the first."""
        return self.made_from(jax.random.normal(key, self.shape, default_float()))

    def made_from(self, normal: Float[Array, "*shape"]) -> Float[Array, "draws dim"]:
        """The draws that normal numbers of `shape` give."""
        if self.num_pairs < self.dim:
            return jnp.concatenate([normal, -normal])
        directions, radial = normal[:, :-1], normal[:, -1:]
        if self.frames is None:
            frames = _orthogonal(directions)
        else:
            frames = (self.frames[0] * jnp.where(directions < 0, -1.0, 1.0).astype(normal.dtype)) @ self.frames[1]
        radii = jnp.linalg.norm(radial, axis=-1, keepdims=True)
        half = (radii * frames).reshape(-1, self.dim)[: self.num_pairs]
        return jnp.concatenate([half, -half])


def normals(keys: Sequence[Key[Array, "..."]], shapes: Sequence[tuple[int, ...]]) -> list[Float[Array, "..."]]:
    """For each array of keys and its shape an array `(*keys.shape, *shape)` of normal numbers.

    Up to `MAX_TOGETHER` of them are drawn side by side, as many for every key as the longest needs: XLA takes long
    to compile every place in a program where random numbers are made. With JAX's default generator, what is kept
    is what each key gives by itself.
    """
    sizes, counts = [math.prod(shape) for shape in shapes], [key.size for key in keys]
    if max(sizes) * sum(counts) > MAX_TOGETHER:
        return [_each(key, shape) for key, shape in zip(keys, shapes, strict=True)]
    every = jnp.concatenate([key.reshape(-1) for key in keys])
    drawn = jax.vmap(lambda key: jax.random.normal(key, (max(sizes),), default_float()))(every)
    ends = np.cumsum(counts)
    return [
        drawn[end - count : end, :size].reshape(*key.shape, *shape)
        for key, shape, size, count, end in zip(keys, shapes, sizes, counts, ends, strict=True)
    ]


def _each(keys: Key[Array, "*keys"], shape: tuple[int, ...]) -> Float[Array, "..."]:
    drawn = jax.vmap(lambda key: jax.random.normal(key, shape, default_float()))(keys.reshape(-1))
    return drawn.reshape(*keys.shape, *shape)


def _orthogonal(normal: Float[Array, "num dim dim"]) -> Float[Array, "num dim dim"]:
    """Uniform orthogonal matrices from normal ones: QR, with the signs that make it unique."""
    frames, triangles = jnp.linalg.qr(normal)
    signs = jnp.where(jnp.diagonal(triangles, axis1=1, axis2=2) < 0, -1.0, 1.0).astype(frames.dtype)
    return frames * signs[:, None, :]


class Rows(eqx.Module):
    """Which rows of the data a step sees: windows of one shuffled order, read round and round.

    All rows are seen equally often, so that their noise cancels over a round instead of adding up.

    Attributes:
        order: A permutation of the rows, or None for a target without minibatches.
        size: Rows per step.
    """

    order: Int[Array, " num_data"] | None
    size: int = eqx.field(static=True)

    @staticmethod
    def of(key: PRNGKeyArray, target: Target, batch_size: int | None, num_steps: int) -> "Rows":
        """Windows of `batch_size` rows, or larger, so that half of the steps see all rows once."""
        num_data = target.num_data
        if batch_size is None or num_data is None:
            return Rows(None, num_data or 1)
        size = min(num_data, max(batch_size, -(-2 * num_data // num_steps)))
        if size == num_data:
            return Rows(None, num_data)
        return Rows(jax.random.permutation(key, num_data), size)

    def at(self, step: Int[Array, ""]) -> Int[Array, " size"] | None:
        """The row indices of a step; None for all."""
        if self.order is None:
            return None
        num_data = self.order.shape[0]
        # Modulo the number of windows first: step × size would overflow for large data.
        window = step % -(-num_data // self.size)
        return self.order[(window * self.size + jnp.arange(self.size)) % num_data]

    def part(self, k: Int[Array, ""], num: int, first: Int[Array, ""]) -> Int[Array, " _"] | None:
        """The k-th of `num` parts of all rows, the first of which begins with the window `first`; None for all.

        Of very many rows not all are seen: a part has at most `MAX_WINDOWS` windows.
        """
        if self.order is None:
            return None
        num_data = self.order.shape[0]
        size = min(max(self.size, -(-num_data // num)), MAX_WINDOWS * self.size)
        start = (first % -(-num_data // self.size)) * self.size + k * size
        return self.order[(start + jnp.arange(size)) % num_data]


def anchored(target: Target, point: Float[Array, " dim"], rows: Rows) -> Target:
    """The target, with the error of minibatches at `point` taken away where there are any."""
    return target if rows.order is None else Anchored.at(target, point)


def scores_at(
    target: Target, points: Float[Array, "*shape dim"], rows: Int[Array, " size"] | None
) -> Float[Array, "*shape dim"]:
    """Scores at many points, all with the same rows."""
    return _in_blocks(lambda x: target.score(x, rows), points, _num_rows(target, rows))


def exact_scores_at(
    target: Target, points: Float[Array, "*shape dim"], rows: Int[Array, " size"] | None
) -> Float[Array, "*shape dim"]:
    """The same for scores whose differences are looked at: with all digits, also where products have fewer."""
    with jax.default_matmul_precision("highest"):
        return scores_at(target, points, rows)


def log_probs_at(target: Target, points: Float[Array, "*shape dim"]) -> Float[Array, "*shape"]:
    """Log densities at many points, on all data."""
    return _in_blocks(target.log_prob, points, _num_rows(target, None))


def _num_rows(target: Target, rows: Int[Array, " size"] | None) -> int:
    return (target.num_data or 1) if rows is None else int(rows.shape[0])


def _in_blocks(function: Callable[[Array], Array], points: Array, num_rows: int) -> Array:
    flat = points.reshape(-1, points.shape[-1])
    block = max(1, MAX_POINTS_TIMES_ROWS // num_rows)
    whole = block >= flat.shape[0]
    values = jax.vmap(function)(flat) if whole else jax.lax.map(function, flat, batch_size=block)
    return values.reshape(*points.shape[:-1], *values.shape[1:])
