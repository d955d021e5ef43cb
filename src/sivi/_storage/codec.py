"""Objects as JSON and arrays, and back.

An object of this library is written as its class name and its fields; on reading, a name stands only for a class of
this library. Nothing else is ever built, and no code is run.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._errors import FitFileError
from .._networks import ACTIVATIONS
from .old_names import class_name, field_names


class NotStorable(Exception):
    """A part that has no name in this library, such as a user's own class; `args[0]` says which."""


def encode(value: Any, arrays: list[Any]) -> Any:
    """A value as JSON; arrays in it are appended to `arrays` and referred to by position."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if eqx.is_array(value) or isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, eqx.Module) and _library_classes().get(type(value).__name__) is type(value):
        names = [field.name for field in dataclasses.fields(type(value))]
        fields = {name: encode(getattr(value, name), arrays) for name in names}
        return {"class": type(value).__name__, "fields": fields}
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        return {type(value).__name__: [encode(item, arrays) for item in value]}
    for name, function in ACTIVATIONS.items():
        if value is function:
            return {"activation": name}
    raise NotStorable(f"{type(value).__module__}.{type(value).__qualname__}")


def decode(node: Any, arrays: list[Any]) -> Any:
    """The inverse of `encode`."""
    if not isinstance(node, dict):
        return node
    if node.keys() == {"class", "fields"}:
        return _rebuild(node["class"], node["fields"], arrays)
    if len(node) != 1:
        raise FitFileError(f"the file names an unknown kind of value: {sorted(node)}.")
    ((kind, content),) = node.items()
    if kind == "array":
        return arrays[content]
    if kind in ("tuple", "list"):
        items = [decode(item, arrays) for item in content]
        return tuple(items) if kind == "tuple" else items
    if kind == "activation" and content in ACTIVATIONS:
        return ACTIVATIONS[content]
    raise FitFileError(f"the file names an unknown kind of value: {kind!r}.")


def _rebuild(name: Any, fields: Any, arrays: list[Any]) -> Any:
    """An object from its class name and fields, also where an earlier version called them otherwise.

    A field that the class has gained since has its default value. Every value goes through the check of its field.
    """
    cls = _library_classes().get(class_name(name))
    if cls is None:
        raise FitFileError(f"the file names a class that this version of sivi does not have: {name!r}.")
    fields = field_names(cls.__name__, fields)
    expected = {field.name: field for field in dataclasses.fields(cls)}
    lacking = [name for name, field in expected.items() if name not in fields and not _has_default(field)]
    if lacking or not fields.keys() <= expected.keys():
        raise FitFileError(
            f"the file's {name} has fields {sorted(fields)}; this version of sivi has {sorted(expected)}."
        )
    module = object.__new__(cls)
    for field in expected.values():
        value = decode(fields[field.name], arrays) if field.name in fields else _default(field)
        convert = field.metadata.get("converter")
        object.__setattr__(module, field.name, value if convert is None else convert(value))
    return module


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default is not dataclasses.MISSING else field.default_factory()  # pyright: ignore[reportCallIssue]


def _library_classes() -> dict[str, type]:
    """Every concrete Equinox module of this library by class name (a test keeps the names unique)."""
    package = __name__.partition(".")[0]
    found, queue = {}, list(eqx.Module.__subclasses__())
    while queue:
        cls = queue.pop()
        queue.extend(cls.__subclasses__())
        if cls.__module__.partition(".")[0] == package and not getattr(cls, "__abstractmethods__", None):
            found[cls.__name__] = cls
    return found


def to_numpy(leaf: Any) -> np.ndarray:
    """An array leaf as NumPy; a typed random key as its raw bits."""
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return np.asarray(jax.random.key_data(leaf))
    return np.asarray(leaf)


def fill(skeleton: Any, leaves: list[np.ndarray], what: str) -> Any:
    """`skeleton` with its arrays (or their shapes) replaced by `leaves`, after a check of shape and dtype."""

    def is_slot(leaf: Any) -> bool:
        return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)

    slots, treedef = jax.tree.flatten(skeleton)
    positions = [i for i, leaf in enumerate(slots) if is_slot(leaf)]
    if len(positions) != len(leaves):
        raise FitFileError(f"{what} does not fit the file: it has {len(positions)} arrays, the file {len(leaves)}.")
    for position, leaf in zip(positions, leaves, strict=True):
        slot = slots[position]
        if jnp.issubdtype(slot.dtype, jax.dtypes.prng_key):
            slots[position] = jax.random.wrap_key_data(jnp.asarray(leaf), impl=jax.random.key_impl(slot))
            continue
        if slot.shape != leaf.shape or slot.dtype != leaf.dtype:
            raise FitFileError(
                f"{what} does not fit the file: an array is {slot.dtype}{slot.shape} here and "
                f"{leaf.dtype}{leaf.shape} there."
            )
        slots[position] = jnp.asarray(leaf)
    return jax.tree.unflatten(treedef, slots)
