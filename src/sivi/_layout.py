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

from ._arguments import as_real, check_count, default_float, describe
from ._errors import FitFileError
from ._types import Scalar
from .constraints import Constraint
from .constraints.base import from_json as constraint_from_json
from .constraints.base import to_json as constraint_to_json


class Variable(NamedTuple):
    """One leaf of the structure: its dotted name, shape and dtype name, and what its values must be, if anything."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    constraint: Constraint | None = None

    @property
    def size(self) -> int:
        """How many numbers of the vector it takes, which a constraint can make fewer than it has entries."""
        return math.prod(self.shape) if self.constraint is None else self.constraint.size

    def __str__(self) -> str:
        rule = "" if self.constraint is None else f" ({self.constraint})"
        return f"{self.name} {self.dtype}{list(self.shape)}{rule}"


class Layout(eqx.Module):
    """How a vector of length `dim` is cut into named variables.

    The vector is free: any numbers will do. A variable with a constraint is a smooth function of its part of it.
    `posterior.layout` and `target.layout` are layouts. `unravel` and `ravel` lead from free numbers to a point in the
    user's structure and back; `unravel_many` and `ravel_many` do so for a set of points. They work under `jit`, `vmap`
    and `grad`.

    Attributes:
        variables: The leaves in ravel order.
        treedef: The structure they are put back into.

    Example:
        >>> from sivi.constraints import positive
        >>> layout = Layout.like({"mu": np.zeros((2, 2)), "tau": positive()})
        >>> layout.dim, layout.names
        (5, ('mu', 'tau'))
        >>> float(layout.unravel(jnp.zeros(5))["tau"])
        1.0
        >>> layout.ravel({"mu": np.zeros((2, 2)), "tau": 1.0}).tolist()
        [0.0, 0.0, 0.0, 0.0, 0.0]
    """

    variables: tuple[Variable, ...] = eqx.field(static=True)
    treedef: Any = eqx.field(static=True)

    @staticmethod
    def vector(dim: int) -> "Layout":
        """The layout of a plain vector: one variable called `x`."""
        variable = Variable("x", (check_count("dim", dim),), str(default_float()))
        return Layout((variable,), jax.tree.structure(0))

    @staticmethod
    def like(example: PyTree) -> "Layout":
        """The layout of an example pytree, whose leaves are floating-point numbers, arrays of them and constraints.

        A layout is an example of itself, in the types that JAX computes in now: without x64, float32 for float64.
        """
        if isinstance(example, Layout):
            variables = (v._replace(dtype=str(jax.dtypes.canonicalize_dtype(v.dtype))) for v in example.variables)
            return Layout(tuple(variables), example.treedef)
        paths_and_leaves, treedef = jax.tree_util.tree_flatten_with_path(example, is_leaf=_is_constraint)
        if not paths_and_leaves:
            raise ValueError(f"like must have at least one leaf; got {describe(example)}.")
        variables = []
        for path, leaf in paths_and_leaves:
            name = jax.tree_util.keystr(path, simple=True, separator=".") or "x"
            if isinstance(leaf, Constraint):
                variables.append(Variable(name, leaf.shape, str(default_float()), leaf))
            else:
                variables.append(Variable(name, *_shape_and_dtype(name, leaf)))
        names = [variable.name for variable in variables]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"like: every unknown must have a unique name; got two called {twice[0]!r}.")
        return Layout(tuple(variables), treedef)

    @property
    def dim(self) -> int:
        return sum(variable.size for variable in self.variables)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(variable.name for variable in self.variables)

    @property
    def is_constrained(self) -> bool:
        """Whether some variable is more than a part of the vector."""
        return any(variable.constraint is not None for variable in self.variables)

    @property
    def is_vector(self) -> bool:
        """Whether the structure is a single array of shape (dim,), the vector itself."""
        return (
            self.treedef == jax.tree.structure(0)
            and len(self.variables) == 1
            and self.variables[0].shape == (self.dim,)
            and not self.is_constrained
        )

    def unravel(self, x: Float[Array, " dim"]) -> PyTree:
        """The point x in the user's structure, constraints applied."""
        return jax.tree.unflatten(self.treedef, self._values(x))

    def unravel_many(self, x: Float[Array | np.ndarray, "n dim"]) -> PyTree:
        """The points x in the user's structure, as `sample` returns it: each array has a leading axis of points."""
        return jax.vmap(self.unravel)(jnp.asarray(x))

    def named(self, x: Float[Array, " dim"]) -> dict[str, Array]:
        """The point x as a flat dict from dotted name to array, constraints applied."""
        return dict(zip(self.names, self._values(x), strict=True))

    def elements(self, x: Float[Array, " dim"]) -> Float[Array, " entries"]:
        """All entries of all variables at the point x, constraints applied, in the order of `element_names`."""
        return jnp.concatenate([jnp.ravel(value).astype(x.dtype) for value in self._values(x)])

    def element_names(self) -> list[str]:
        """A name for every entry of every variable: `mu`, `w[0]`, `L[1,0]`."""
        return [
            f"{variable.name}[{','.join(map(str, index))}]" if variable.shape else variable.name
            for variable in self.variables
            for index in np.ndindex(*variable.shape)
        ]

    def log_det(self, x: Float[Array, " dim"]) -> Scalar:
        """log |det ∂(variables)/∂x| at the point x: what turns a log density of the variables into one of x.

        For a variable with more entries than free numbers, over the entries that its constraint names.
        """
        total = jnp.zeros((), x.dtype)
        for variable, piece in zip(self.variables, self._pieces(x), strict=True):
            if variable.constraint is not None:
                total = total + variable.constraint.log_det(piece)
        return total

    def ravel(self, tree: PyTree) -> Float[Array, " dim"]:
        """The vector of a point given in the user's structure; values that JAX is not tracing are checked."""
        self.check(tree)
        pieces = []
        for variable, leaf in zip(self.variables, self.leaves(tree), strict=True):
            value = jnp.asarray(leaf, default_float())
            pieces.append(jnp.ravel(value) if variable.constraint is None else variable.constraint.inverse(value))
        return jnp.concatenate(pieces)

    def ravel_many(self, trees: PyTree) -> Float[Array, "n dim"]:
        """The vectors of points given in the user's structure, each array with a leading axis of points."""
        self.check(trees, 1)  # here, where the values can still be seen
        leaves = [jnp.asarray(leaf, default_float()) for leaf in self.leaves(trees)]
        lengths = {len(leaf) for leaf in leaves}
        if len(lengths) > 1:
            raise ValueError(f"every variable must have the same number of points; got {sorted(lengths)}.")
        return jax.vmap(lambda one: self.ravel(jax.tree.unflatten(self.treedef, one)))(leaves)

    def points(self, tree: PyTree) -> tuple[Float[Array, "n dim"], bool]:
        """One point or a batch of points in the user's structure, as vectors, and whether it is one alone."""
        if self.is_vector:
            points = jnp.asarray(as_real("x", tree), default_float())
            if points.ndim not in (1, 2) or points.shape[-1] != self.dim:
                raise ValueError(f"x must have shape ({self.dim},) or (n, {self.dim}); got {points.shape}.")
            return jnp.atleast_2d(points), points.ndim == 1
        leaves = self.leaves(tree)
        single = np.ndim(leaves[0]) == len(self.variables[0].shape)
        return (self.ravel(tree)[None] if single else self.ravel_many(tree)), single

    def leaves(self, tree: PyTree) -> list[Any]:
        """The values of the variables, in ravel order, of a point in the user's structure; another one is refused."""
        try:
            return self.treedef.flatten_up_to(tree)
        except (TypeError, ValueError):
            given = f"a dict with the keys {sorted(map(str, tree))}" if isinstance(tree, dict) else describe(tree)
            raise ValueError(
                f"a point must have the structure of the unknowns, {', '.join(self.names)}; got {given}."
            ) from None

    def check(self, tree: PyTree, num_axes: int = 0) -> None:
        """Refuse a point, or a set of them, with a wrong shape or with values outside a variable's constraint.

        Args:
            tree: The point in the user's structure.
            num_axes: How many axes each array has before those of its variable: 1 for a set of points.
        """
        for variable, leaf in zip(self.variables, self.leaves(tree), strict=True):
            name = f"variable {variable.name!r}"
            shape = np.shape(as_real(name, leaf))
            if variable.constraint is not None:
                variable.constraint.check(leaf, name, num_axes)
            elif shape[num_axes:] != variable.shape or len(shape) < num_axes:
                leading = f" after the first {num_axes}" if num_axes else ""
                raise ValueError(f"{name} must have shape {variable.shape}{leading}; got {shape}.")

    def _pieces(self, x: Float[Array, " dim"]) -> list[Array]:
        ends = np.cumsum([variable.size for variable in self.variables])
        return [x[end - variable.size : end] for variable, end in zip(self.variables, ends, strict=True)]

    def _values(self, x: Float[Array, " dim"]) -> list[Array]:
        values = []
        for variable, piece in zip(self.variables, self._pieces(x), strict=True):
            constraint = variable.constraint
            value = piece.reshape(variable.shape) if constraint is None else constraint.forward(piece)
            values.append(value.astype(jax.dtypes.canonicalize_dtype(variable.dtype)))
        return values

    def to_json(self) -> dict[str, Any]:
        """A JSON description; the structure is kept if it is made of dicts, lists and tuples."""
        positions = jax.tree.unflatten(self.treedef, list(range(len(self.variables))))
        return {
            "variables": [_variable_to_json(variable) for variable in self.variables],
            "structure": _structure_to_json(positions),
        }

    @staticmethod
    def from_json(description: dict[str, Any]) -> "Layout":
        """The inverse of `to_json`; an unknown structure comes back as a dict by name."""
        variables = tuple(_variable_from_json(entry) for entry in description["variables"])
        structure = description["structure"]
        if structure is None:
            treedef = jax.tree.structure(OrderedDict.fromkeys((v.name for v in variables), 0))
        else:
            treedef = jax.tree.structure(_structure_from_json(structure))
        return Layout(variables, treedef)


def _is_constraint(node: object) -> bool:
    return isinstance(node, Constraint)


def _variable_to_json(variable: Variable) -> list[Any]:
    entry = [variable.name, list(variable.shape), variable.dtype]
    return entry if variable.constraint is None else [*entry, constraint_to_json(variable.constraint)]


def _variable_from_json(entry: list[Any]) -> Variable:
    """Three items, or four with a constraint."""
    name, shape, dtype, *rest = entry
    constraint = constraint_from_json(*rest) if rest else None
    if constraint is not None and constraint.shape != tuple(shape):
        raise FitFileError(f"the file's variable {name!r} has shape {tuple(shape)}, its constraint {constraint.shape}.")
    return Variable(name, tuple(shape), dtype, constraint)


def _shape_and_dtype(name: str, leaf: Any) -> tuple[tuple[int, ...], str]:
    if callable(leaf):
        raise TypeError(
            "like: every unknown must be a number, an array or a constraint such as sivi.positive(), called; "
            f"variable {name!r} is a function, {describe(leaf)}."
        )
    # An array that JAX is tracing, such as one made by a property of a model, has a type and a shape, but no values.
    dtype = np.dtype(leaf.dtype if isinstance(leaf, jax.Array) else getattr(leaf, "dtype", np.asarray(leaf).dtype))
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
