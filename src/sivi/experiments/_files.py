"""Result files: written whole or not at all, arrays without pickle."""

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._storage.atomic import write_whole


class DamagedFile(Exception):
    """A result file that is not what was written."""


def write(path: Path, content: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write `path`, a JSON file, and, if there are arrays, an `.npz` file beside it.

    The arrays go first, and the JSON file holds their checksum: a crash between the two, or a later change of
    either, is seen on reading.
    """
    checksum = None
    if arrays:
        stream = io.BytesIO()
        np.savez_compressed(stream, **arrays)  # pyright: ignore[reportArgumentType]
        checksum = hashlib.sha256(stream.getvalue()).hexdigest()
        write_whole(path.with_suffix(".npz"), lambda temporary: temporary.write_bytes(stream.getvalue()))
    text = json.dumps({**content, "arrays_sha256": checksum}, indent=1, ensure_ascii=False, allow_nan=False)
    write_whole(path, lambda temporary: temporary.write_text(f"{text}\n"))


def read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What `write` wrote, or `DamagedFile`."""
    try:
        content = json.loads(path.read_text())
        checksum = content.pop("arrays_sha256")
        if checksum is None:
            return content, {}
        stored = path.with_suffix(".npz").read_bytes()
        if hashlib.sha256(stored).hexdigest() != checksum:
            raise DamagedFile(f"{path.with_suffix('.npz').name} does not belong to {path.name}")
        with np.load(io.BytesIO(stored), allow_pickle=False) as arrays:
            return content, dict(arrays)
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise DamagedFile(f"{path.name} cannot be read ({type(error).__name__}: {error})") from error
