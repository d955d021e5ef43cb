"""Rotations along the axes of the arrays that a vector is made of: cheap where a full matrix would not be."""

import math

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped


class ArrayAsMatrix(eqx.Module):
    """One array of a vector seen as a matrix: `cols` is the length of one of its axes, `rows` that of all others.

    Attributes:
        start: Where the array begins in the vector.
        shape: The shape of the array.
        axis: The axis of the array that becomes the columns.
    """

    start: int = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)
    axis: int = eqx.field(static=True)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def cols(self) -> int:
        return self.shape[self.axis] if self.shape else 1

    @property
    def rows(self) -> int:
        return self.size // self.cols

    def matrix(self, v: Shaped[Array, "*draws dim"]) -> Shaped[Array, "*draws rows cols"]:
        """The array's part of v."""
        draws = v.shape[:-1]
        part = v[..., self.start : self.start + self.size].reshape(*draws, *self.shape)
        if self.shape:
            part = jnp.moveaxis(part, len(draws) + self.axis, -1)
        return part.reshape(*draws, self.rows, self.cols)

    def vector(self, matrix: Shaped[Array, "*draws rows cols"]) -> Shaped[Array, "*draws size"]:
        """The inverse of `matrix`: the part of the vector that belongs to the array."""
        draws = matrix.shape[:-2]
        if self.shape:
            others = self.shape[: self.axis] + self.shape[self.axis + 1 :]
            matrix = jnp.moveaxis(matrix.reshape(*draws, *others, self.cols), -1, len(draws) + self.axis)
        return matrix.reshape(*draws, self.size)


class AxisRotation(eqx.Module):
    """Q = diag(Q¹, Q², …), one block per array; seen as a matrix, an array Y is mapped to R Y Cᵀ.

    With orthogonal R and C, Q is a Kronecker product: it takes rows + cols products per entry, not rows · cols. C can
    be one matrix for all rows of Y, or a separate matrix for each row; the rows are rotated first, then R mixes them.

    Attributes:
        views: How each array is seen as a matrix.
        factors: R and C of each array; None where an axis is not rotated.

    Example:
        >>> quarter = jnp.array([[0.0, -1.0], [1.0, 0.0]])
        >>> rotation = AxisRotation((ArrayAsMatrix(0, (2, 3), 1),), ((quarter, None),))
        >>> rotation.apply(jnp.arange(6.0)).tolist()
        [-3.0, -4.0, -5.0, 0.0, 1.0, 2.0]
    """

    views: tuple[ArrayAsMatrix, ...]
    factors: tuple[tuple[Float[Array, "_ _"] | None, Float[Array, "*rows _ _"] | None], ...]

    @property
    def dim(self) -> int:
        return sum(view.size for view in self.views)

    def apply(self, v: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Q v."""
        return self._applied(v, list(self.factors))

    def undo(self, v: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Qᵀ v, which is Q⁻¹ v."""
        parts = []
        for view, (left, right) in zip(self.views, self.factors, strict=True):
            part = view.matrix(v)
            part = part if left is None else left.T @ part
            parts.append(view.vector(part if right is None else _each_row(jnp.swapaxes(right, -1, -2), part)))
        return _joined(parts)

    def variances(self, v: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """The diagonal of Q diag(v) Qᵀ."""
        return self._applied(v, [tuple(None if f is None else f**2 for f in pair) for pair in self.factors])

    def _applied(self, v: Float[Array, " dim"], factors: list[tuple[Array | None, ...]]) -> Float[Array, " dim"]:
        parts = []
        for view, (left, right) in zip(self.views, factors, strict=True):
            part = view.matrix(v)
            part = part if right is None else _each_row(right, part)
            parts.append(view.vector(part if left is None else left @ part))
        return _joined(parts)


def _each_row(right: Float[Array, "*rows cols cols"], part: Float[Array, "rows cols"]) -> Float[Array, "rows cols"]:
    """C y for every row y, with one C for all or one for each."""
    return part @ right.T if right.ndim == 2 else jnp.einsum("ikl,il->ik", right, part)


def _joined(parts: list[Array]) -> Array:
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts)
