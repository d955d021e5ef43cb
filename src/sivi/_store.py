"""Files that are safe to open from a stranger: a JSON header, plain arrays and a checksum. No code, no pickle.

Layout of a file: 8 bytes of magic, the header's length (little-endian uint64), the header (UTF-8 JSON), the raw
bytes of the arrays in the order of the header's table, and the SHA-256 of everything before it.

Objects are written as a class name and its fields. On reading, a name stands only for a class of this library;
anything else is refused.
"""

import dataclasses
import hashlib
import json
import math
import struct
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ._errors import FitFileError
from ._files import write_whole
from ._networks import ACTIVATIONS

MAGIC = b"sivifit\x01"
_DTYPES = (
    *("float16", "bfloat16", "float32", "float64", "bool"),
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
)
_DIGEST = hashlib.sha256().digest_size


class NotStorable(Exception):
    """A part that has no name in this library, such as a user's own class; `args[0]` says which."""


def write(path: Path, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write a file, whole or not at all."""
    unknown = sorted({str(array.dtype) for array in arrays.values()} - set(_DTYPES))
    if unknown:
        raise TypeError(f"a fit file holds arrays of dtype {', '.join(_DTYPES)}; got {', '.join(unknown)}.")
    table = [[name, str(array.dtype), list(array.shape)] for name, array in arrays.items()]
    text = json.dumps({**header, "arrays": table}, ensure_ascii=False).encode()
    chunks = [MAGIC, struct.pack("<Q", len(text)), text]
    chunks += [np.ascontiguousarray(array).tobytes() for array in arrays.values()]

    def write_chunks(temporary: Path) -> None:
        digest = hashlib.sha256()
        with open(temporary, "wb") as file:
            for chunk in chunks:
                digest.update(chunk)
                file.write(chunk)
            file.write(digest.digest())

    write_whole(path, write_chunks)


def read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays of a file, or a `FitFileError` that says what is wrong with it."""
    content = path.read_bytes()
    if not content.startswith(MAGIC):
        raise FitFileError(f"{path} is not a sivi fit file.")
    start = len(MAGIC) + 8
    if len(content) < start + _DIGEST:
        raise FitFileError(f"{path} is truncated: {len(content)} bytes.")
    body, digest = content[:-_DIGEST], content[-_DIGEST:]
    if hashlib.sha256(body).digest() != digest:
        raise FitFileError(f"{path} is damaged or was changed: its checksum does not match its content.")
    (length,) = struct.unpack("<Q", body[len(MAGIC) : start])
    try:
        header = json.loads(body[start : start + length].decode())
        return header, _read_arrays(header["arrays"], body, start + length)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise FitFileError(f"{path} has a malformed header: {error}") from error


def _read_arrays(table: list[Any], body: bytes, offset: int) -> dict[str, np.ndarray]:
    arrays = {}
    for name, dtype, shape in table:
        if dtype not in _DTYPES or not all(isinstance(n, int) and n >= 0 for n in shape):
            raise ValueError(f"array {name!r} of dtype {dtype!r} and shape {shape!r}")
        count = math.prod(shape)
        if offset + count * jnp.dtype(dtype).itemsize > len(body):
            raise ValueError(f"array {name!r} reaches past the end")
        arrays[str(name)] = np.frombuffer(body, jnp.dtype(dtype), count, offset).reshape(shape).copy()
        offset += count * jnp.dtype(dtype).itemsize
    if offset != len(body):
        raise ValueError("bytes left over after the last array")
    return arrays


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


def _rebuild(name: str, fields: dict[str, Any], arrays: list[Any]) -> Any:
    cls = _library_classes().get(name)
    if cls is None:
        raise FitFileError(f"the file names a class that this version of sivi does not have: {name!r}.")
    expected = {field.name for field in dataclasses.fields(cls)}
    if set(fields) != expected:
        raise FitFileError(
            f"the file's {name} has fields {sorted(fields)}; this version of sivi has {sorted(expected)}."
        )
    module = object.__new__(cls)
    for field in dataclasses.fields(cls):
        object.__setattr__(module, field.name, decode(fields[field.name], arrays))
    return module


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
