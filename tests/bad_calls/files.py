"""Fit files that someone has changed: with a checksum that was made right, or without."""

import hashlib
import json
import random
import struct
from typing import Any

_DIGEST = 32
#: What an entry of a header is replaced by.
_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    0.5,
    1e308,
    float("nan"),
    float("inf"),
    10**30,
    "",
    "x",
    "../../etc/passwd",
    [],
    [[]],
    {},
    {"class": "os.system"},
    [-1],
    [10**9],
    ["a", 1],
)


def changed(content: bytes, rng: random.Random) -> tuple[str, bytes]:
    """What was done to a file, in words, and the file."""
    kind = rng.choice(("bits", "end", "header", "header", "header", "header", "numbers", "entry", "arrays"))
    if kind == "bits":
        where = rng.randrange(len(content))
        return f"a bit of byte {where}", _flipped(content, where, rng)
    if kind == "end":
        length = rng.randrange(len(content))
        return f"cut at {length}", content[:length]
    (size,) = struct.unpack("<Q", content[8:16])
    header, rest = json.loads(content[16 : 16 + size]), content[16 + size : -_DIGEST]
    if kind == "numbers" and rest:
        where = rng.randrange(len(rest))
        return f"a bit of number byte {where}", _sealed(content[:8], header, _flipped(rest, where, rng))
    places = [place for place in _places(header) if (place[0] == "arrays") == (kind == "arrays")]
    *path, last = rng.choice(places)
    inner = header
    for step in path:
        inner = inner[step]
    if kind == "entry" and isinstance(inner, dict):
        del inner[last]
        return f"without {[*path, last]}", _sealed(content[:8], header, rest)
    value = rng.choice(_VALUES)
    inner[last] = value
    return f"{[*path, last]} is {value!r:.40}", _sealed(content[:8], header, rest)


def _places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    found: list[tuple[Any, ...]] = []
    for key, value in items:
        found += [(*path, key), *_places(value, (*path, key))]
    return found


def _flipped(content: bytes, where: int, rng: random.Random) -> bytes:
    return content[:where] + bytes([content[where] ^ (1 << rng.randrange(8))]) + content[where + 1 :]


def _sealed(magic: bytes, header: Any, rest: bytes) -> bytes:
    text = json.dumps(header).encode()
    body = magic + struct.pack("<Q", len(text)) + text + rest
    return body + hashlib.sha256(body).digest()
