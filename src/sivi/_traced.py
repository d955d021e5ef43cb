"""A user's function, traced once: its arrays become arguments, and two that do the same are equal.

A Python function says nothing of what it will do: the values that it closes over, and globals, may have changed since
it last ran. So a function is traced whenever it is given to the library, and programs are found by the trace, not by
the function. The same closure, or another with the same code, then has the program that is there already. A number
that has changed makes another trace, and an array that has changed is another argument of the same program.
"""

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.extend import core
from jaxtyping import Array, PyTree

from ._jaxprs import default_precision, key_of, largest_result, with_precision, without_constants


class Trace:
    """What a function did with arguments of given shapes and types. Two that did the same are equal, and hash alike.

    Args:
        jaxpr: Takes the arrays of the function, then the arrays of its arguments.
        num_arrays: How many arrays the function holds.
        example: Its arguments, by shape and type.
        structure: Of its result: the tree of the arrays in it, and all the rest of it.
    """

    def __init__(self, jaxpr: core.ClosedJaxpr, num_arrays: int, example: PyTree, structure: tuple[Any, PyTree]):
        types, self.in_tree = jax.tree.flatten(example)
        self.in_types = [(leaf.shape, leaf.dtype) for leaf in types]
        self.out_tree, self.out_static = structure
        self._closed = jaxpr
        self._with_precision: dict[Hashable, core.ClosedJaxpr] = {None: jaxpr}
        marks = [False] * num_arrays + [True] * len(types)
        self.numbers_per_point = largest_result(jaxpr.jaxpr, marks)
        static, static_tree = jax.tree.flatten(self.out_static)
        self._key: Hashable = (
            key_of(jaxpr),
            num_arrays,
            *map(key_of, (self.in_tree, self.out_tree, static_tree, static)),
        )
        self._hash = hash(self._key)

    def evaluate(self, *inputs: Array) -> list[Array]:
        """What the function returns, with matrix products in the precision that is the default now."""
        precision = default_precision()
        if precision not in self._with_precision:
            changed = with_precision(self._closed.jaxpr, precision)
            self._with_precision[precision] = core.ClosedJaxpr(changed, self._closed.consts)
        return core.jaxpr_as_fun(self._with_precision[precision])(*inputs)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Trace) and self._hash == other._hash and self._key == other._key)

    def __hash__(self) -> int:
        return self._hash


class Traced(eqx.Module):
    """A function as JAX has seen it, with the arrays that it holds.

    Attributes:
        arrays: What the function closes over.
        trace: What it does with them and its arguments.
    """

    arrays: tuple[Array, ...]
    trace: Trace = eqx.field(static=True)

    def __call__(self, *arguments: PyTree) -> PyTree:
        leaves, tree = jax.tree.flatten(arguments)
        types = [(jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves]
        if tree != self.trace.in_tree or types != self.trace.in_types:
            raise TypeError(
                f"a function that was given for {_text(self.trace.in_types)} cannot take {_text(types)}: if "
                "jax_enable_x64 has changed since, give it again."
            )
        found = jax.tree.unflatten(self.trace.out_tree, self.trace.evaluate(*self.arrays, *leaves))
        return eqx.combine(found, self.trace.out_static)

    @property
    def numbers_per_point(self) -> int:
        """The most numbers in an array that depends on the arguments: memory that every point needs for itself."""
        return self.trace.numbers_per_point


def traced(function: Callable[..., Any], *example: PyTree) -> Traced:
    """`function` as it is now, for arguments of the shapes and types of the example.

    Args:
        function: Any JAX function.
        example: Its arguments, whose leaves are arrays.

    Example:
        >>> scale = 2.0
        >>> double = traced(lambda x: scale * x, jnp.ones(2))
        >>> double(jnp.arange(2.0)).tolist()
        [0.0, 2.0]
        >>> double.trace == traced(lambda y: 2.0 * y, jnp.ones(2)).trace
        True
    """
    # A function of its own: JAX would remember the trace of another, and not see what has changed since.
    closed, shapes, static = eqx.filter_make_jaxpr(lambda *arguments: function(*arguments))(*example)
    jaxpr, arrays = without_constants(closed)
    structure = jax.tree.structure(shapes), static
    return Traced(tuple(map(jnp.asarray, arrays)), Trace(jaxpr, len(arrays), example, structure))


def traced_functions(tree: PyTree) -> list[Traced]:
    """The traced functions in a tree."""
    nodes = jax.tree.leaves(tree, is_leaf=lambda node: isinstance(node, Traced))
    return [node for node in nodes if isinstance(node, Traced)]


def float_types_of(tree: PyTree) -> AbstractContextManager[object]:
    """Within it, JAX has the float types that the traced functions in a tree were given for."""
    types = [dtype for function in traced_functions(tree) for _, dtype in function.trace.in_types]
    return jax.enable_x64(jnp.float64 in types) if types else nullcontext()


def _text(types: list[tuple[tuple[int, ...], Any]]) -> str:
    return ", ".join(f"{dtype}{list(shape)}" for shape, dtype in types)
