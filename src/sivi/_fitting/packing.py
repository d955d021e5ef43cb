"""Trees of arrays as a few long vectors: what the loop of updates carries.

Whatever is done to all numbers of a family and an optimiser after an update (is it finite, keep it or not, is it the
best one) is then one operation where there was one for each array, and XLA compiles each of them.
"""

import math
from collections.abc import Hashable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from .._backend import alignment_of_arrays

#: The vectors of a packed tree, (repeats, numbers) each, by the type of their numbers.
Packed = dict[str, Array | np.ndarray]


class Packing(eqx.Module):
    """How the arrays of a tree, which all have a leading axis of repeats, are put into vectors, by type.

    Off the CPU every array is padded with zeros, so that the next one starts at a multiple of `alignment` numbers:
    XLA multiplies matrices where they stand in a vector, and cuBLAS refuses those that start just anywhere.

    Attributes:
        treedef: The structure of the tree.
        others: Its leaves that are no arrays, with None in the places of arrays.
        shapes: The shape of every array, without the leading axis, and the name of its type.
        alignment: The number of which the places of all arrays are multiples.
    """

    treedef: Any = eqx.field(static=True)
    others: tuple[Hashable, ...] = eqx.field(static=True)
    shapes: tuple[tuple[tuple[int, ...], str] | None, ...] = eqx.field(static=True)
    alignment: int = eqx.field(static=True)

    @staticmethod
    def of(tree: PyTree) -> "Packing":
        """The packing of a tree, and of all trees like it."""
        leaves, treedef = jax.tree.flatten(tree)
        arrays = [eqx.is_array(leaf) for leaf in leaves]
        others = tuple(None if is_array else leaf for leaf, is_array in zip(leaves, arrays, strict=True))
        shapes = tuple((leaf.shape[1:], str(leaf.dtype)) if eqx.is_array(leaf) else None for leaf in leaves)
        return Packing(treedef, others, shapes, alignment_of_arrays())

    def pack(self, tree: PyTree) -> Packed:
        """The vectors of a tree."""
        return self._pack(tree, jnp)

    def pack_on_host(self, tree: PyTree) -> Packed:
        """The same by NumPy, which has no program to compile."""
        return {name: jnp.asarray(vector) for name, vector in self._pack(jax.device_get(tree), np).items()}

    def _pack(self, tree: PyTree, xp: Any) -> dict[str, Any]:
        pieces: dict[str, list[Any]] = {}
        for leaf, shape in zip(self.treedef.flatten_up_to(tree), self.shapes, strict=True):
            if shape is not None:
                rows = leaf.reshape(leaf.shape[0], -1)
                missing = -rows.shape[1] % self.alignment
                pieces.setdefault(shape[1], []).append(xp.pad(rows, ((0, 0), (0, missing))) if missing else rows)
        return {name: leaves[0] if len(leaves) == 1 else xp.concatenate(leaves, 1) for name, leaves in pieces.items()}

    def unpack(self, packed: Packed) -> PyTree:
        """The tree of these vectors."""
        firsts: dict[str, int] = {}
        leaves = []
        for other, shape in zip(self.others, self.shapes, strict=True):
            if shape is None:
                leaves.append(other)
                continue
            vector, size = packed[shape[1]], math.prod(shape[0])
            first = firsts.get(shape[1], 0)
            firsts[shape[1]] = first + size + -size % self.alignment
            leaves.append(vector[:, first : first + size].reshape(vector.shape[0], *shape[0]))
        return jax.tree.unflatten(self.treedef, leaves)

    def unpack_on_host(self, packed: Packed) -> PyTree:
        """The same by NumPy."""
        tree = self.unpack(jax.device_get(packed))
        return jax.tree.map(lambda leaf: jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf, tree)


def chosen(where: Bool[Array, " *repeats"], one: Packed, other: Packed) -> Packed:
    """`one` for the repeats that say so, or for all of them, and `other` for the rest."""
    return {name: jnp.where(where.reshape(-1, 1), one[name], other[name]) for name in one}


def all_finite(*packed: Packed) -> Bool[Array, " repeats"]:
    """Whether all numbers of a repeat are finite: their sum is, short of an overflow near 10³⁸."""
    floats = [v for vectors in packed for v in vectors.values() if jnp.issubdtype(v.dtype, jnp.inexact)]
    total: Float[Array, " repeats"] = sum(jnp.sum(vector, axis=1) for vector in floats)  # pyright: ignore
    return jnp.isfinite(total)
