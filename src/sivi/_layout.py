"""Between the vector of unknowns and the structure a user thinks in.

There is one ravel order in the whole library: the order of `jax.tree.leaves`, each leaf in C order.
"""

import math
from collections import OrderedDict
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from ._types import default_float, describe


class Variable(NamedTuple):
    """One leaf of the structure: its dotted name, shape and dtype name."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class Layout(eqx.Module):
    """How a vector of length `dim` is cut into named variables.

    Attributes:
        variables: The leaves in ravel order.
        treedef: The structure they are put back into.

    Example:
        >>> layout = Layout.like({"mu": 0.0, "w": np.zeros((2, 2))})
        >>> layout.dim, layout.names
        (5, ('mu', 'w'))
    """

    variables: tuple[Variable, ...] = eqx.field(static=True)
    treedef: Any = eqx.field(static=True)

    @staticmethod
    def vector(dim: int) -> "Layout":
        """The layout of a plain vector: one variable called `x`."""
        variable = Variable("x", (dim,), str(default_float()))
        return Layout((variable,), jax.tree.structure(0))

    @staticmethod
    def like(example: PyTree) -> "Layout":
        """The layout of an example pytree of floating-point leaves."""
        paths_and_leaves, treedef = jax.tree_util.tree_flatten_with_path(example)
        if not paths_and_leaves:
            raise ValueError(f"like must have at least one leaf; got {describe(example)}.")
        variables = []
        for path, leaf in paths_and_leaves:
            name = jax.tree_util.keystr(path, simple=True, separator=".") or "x"
            variables.append(Variable(name, *_shape_and_dtype(name, leaf)))
        return Layout(tuple(variables), treedef)

    @property
    def dim(self) -> int:
        return sum(variable.size for variable in self.variables)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(variable.name for variable in self.variables)

    @property
    def is_vector(self) -> bool:
        """Whether the structure is a single array of shape (dim,)."""
        return (
            self.treedef == jax.tree.structure(0)
            and len(self.variables) == 1
            and self.variables[0].shape == (self.dim,)
        )

    def unravel(self, x: Float[Array, " dim"]) -> PyTree:
        """The point x in the user's structure."""
        return jax.tree.unflatten(self.treedef, self._split(x))

    def named(self, x: Float[Array, " dim"]) -> dict[str, Array]:
        """The point x as a flat dict from dotted name to array."""
        return dict(zip(self.names, self._split(x), strict=True))

    def ravel(self, tree: PyTree) -> Float[Array, " dim"]:
        """The vector of a point given in the user's structure."""
        leaves = self.treedef.flatten_up_to(tree)
        for variable, leaf in zip(self.variables, leaves, strict=True):
            if jnp.shape(leaf) != variable.shape:
                raise ValueError(f"variable {variable.name!r} must have shape {variable.shape}; got {jnp.shape(leaf)}.")
        return jnp.concatenate([jnp.ravel(jnp.asarray(leaf, default_float())) for leaf in leaves])

    def _split(self, x: Float[Array, " dim"]) -> list[Array]:
        pieces, start = [], 0
        for variable in self.variables:
            piece = x[start : start + variable.size].reshape(variable.shape)
            pieces.append(piece.astype(jax.dtypes.canonicalize_dtype(variable.dtype)))
            start += variable.size
        return pieces

    def to_json(self) -> dict[str, Any]:
        """A JSON description; the structure is kept if it is made of dicts, lists and tuples."""
        positions = jax.tree.unflatten(self.treedef, list(range(len(self.variables))))
        return {
            "variables": [[v.name, list(v.shape), v.dtype] for v in self.variables],
            "structure": _structure_to_json(positions),
        }

    @staticmethod
    def from_json(description: dict[str, Any]) -> "Layout":
        """The inverse of `to_json`; an unknown structure comes back as a dict by name."""
        variables = tuple(Variable(n, tuple(s), d) for n, s, d in description["variables"])
        structure = description["structure"]
        if structure is None:
            treedef = jax.tree.structure(OrderedDict.fromkeys((name for name, _, _ in variables), 0))
        else:
            treedef = jax.tree.structure(_structure_from_json(structure))
        return Layout(variables, treedef)


def _shape_and_dtype(name: str, leaf: Any) -> tuple[tuple[int, ...], str]:
    dtype = np.dtype(getattr(leaf, "dtype", np.asarray(leaf).dtype))
    if not np.issubdtype(dtype, np.floating) or dtype.itemsize < 4:
        hint = " (write 0.0, not 0)" if np.issubdtype(dtype, np.integer) else ""
        raise TypeError(
            f"like: every unknown must be a float32 or float64 number{hint}; variable {name!r} has dtype {dtype}."
        )
    return tuple(np.shape(leaf)), str(jax.dtypes.canonicalize_dtype(dtype))


def _structure_to_json(node: Any) -> Any:
    """Nested dict / list / tuple / position → JSON; None where another container occurs."""
    if isinstance(node, int):
        return node
    if type(node) is dict and all(isinstance(key, str) for key in node):
        items = {key: _structure_to_json(value) for key, value in node.items()}
        return None if None in items.values() else {"dict": items}
    if type(node) in (list, tuple):
        children = [_structure_to_json(value) for value in node]
        return None if None in children else {type(node).__name__: children}
    return None


def _structure_from_json(node: Any) -> Any:
    if isinstance(node, int):
        return node
    ((kind, content),) = node.items()
    if kind == "dict":
        return {key: _structure_from_json(value) for key, value in content.items()}
    children = [_structure_from_json(value) for value in content]
    return tuple(children) if kind == "tuple" else children
