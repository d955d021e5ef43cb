"""Files that are safe to open from a stranger: a JSON header, plain arrays and a checksum. No code, no pickle.

Layout of a file: 8 bytes of magic, the header's length (little-endian uint64), the header (UTF-8 JSON), the raw
bytes of the arrays in the order of the header's table, and the SHA-256 of everything before it.
"""

import hashlib
import json
import math
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import jax.numpy as jnp
import numpy as np

from .._errors import FitFileError
from .atomic import write_whole

MAGIC = b"sivifit\x01"
_DTYPES = (
    *("float16", "bfloat16", "float32", "float64", "bool"),
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
)
_DIGEST = hashlib.sha256().digest_size
_BLOCK = 2**20  # bytes read at once where they are not kept
_LONGEST_HEADER, _MOST_ARRAYS = 2**26, 100_000  # bytes; far more than a fit has


def write(
    path: Path,
    header: dict[str, Any],
    arrays: dict[str, np.ndarray],
    before: Callable[[os.stat_result], None] | None = None,
) -> None:
    """Write a file, whole or not at all; `before` as in `write_whole`."""
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

    write_whole(path, write_chunks, before)


def read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays of a file; a damaged or changed one is refused.

    The first bytes are looked at before the rest is read, and the rest is in memory once.
    """
    with open(path, "rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise FitFileError(f"{path} is not a sivi fit file.")
        size = os.fstat(file.fileno()).st_size
        if size < len(MAGIC) + 8 + _DIGEST:
            raise FitFileError(f"{path} is truncated: {size} bytes.")
        reader = _Reader(file, size - _DIGEST)
        try:
            header, arrays = _read(reader)
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            reader.check_digest(path)
            raise FitFileError(f"{path} has a malformed header: {error}") from error
        reader.check_digest(path)
        return header, arrays


class _Reader:
    """The bytes of a file up to its checksum, which is computed on the way."""

    def __init__(self, file: BinaryIO, end: int):
        self.file, self.end = file, end
        self.position = len(MAGIC)
        self._digest = hashlib.sha256(MAGIC)

    def fill(self, buffer: memoryview) -> None:
        if len(buffer) > self.end - self.position or self.file.readinto(buffer) != len(buffer):  # pyright: ignore[reportAttributeAccessIssue]
            raise ValueError("an array reaches past the end")
        self.position += len(buffer)
        self._digest.update(buffer)

    def read(self, length: int) -> bytes:
        content = bytearray(min(length, max(self.end - self.position, 0)))
        self.fill(memoryview(content))
        if len(content) < length:
            raise ValueError("the header reaches past the end")
        return bytes(content)

    def check_digest(self, path: Path) -> None:
        """Read what is left, and refuse a file whose checksum is another."""
        while self.position < self.end:
            block = self.file.read(min(_BLOCK, self.end - self.position))
            if not block:
                break
            self.position += len(block)
            self._digest.update(block)
        if self.file.read(_DIGEST + 1) != self._digest.digest():
            raise FitFileError(f"{path} is damaged or was changed: its checksum does not match its content.")


def _read(reader: _Reader) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    (length,) = struct.unpack("<Q", reader.read(8))
    if length > _LONGEST_HEADER:
        raise ValueError(f"it has {length} bytes")
    header = json.loads(reader.read(length).decode())
    table = header["arrays"]
    if len(table) > _MOST_ARRAYS:
        raise ValueError(f"it lists {len(table)} arrays")
    arrays = {}
    for name, dtype, shape in table:
        arrays[str(name)] = _read_array(reader, name, dtype, shape)
    if reader.position != reader.end:
        raise ValueError("bytes left over after the last array")
    return header, arrays


def _read_array(reader: _Reader, name: Any, dtype: Any, shape: Any) -> np.ndarray:
    if dtype not in _DTYPES or not all(type(n) is int and 0 <= n < 2**63 for n in shape):
        raise ValueError(f"array {name!r} of dtype {dtype!r} and shape {shape!r}")
    kind = jnp.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    if size > reader.end - reader.position:
        raise ValueError(f"array {name!r} reaches past the end")
    content = np.empty(size, np.uint8)
    reader.fill(memoryview(content))
    return content.view(kind).reshape(shape)
