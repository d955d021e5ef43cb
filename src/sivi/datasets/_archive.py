"""Arrays and files inside an archive's bytes; nothing in them is ever executed."""

import io
import zipfile
import zlib
from collections.abc import Sequence

import numpy as np


#: No file is larger; more would be the fault of whoever made it, and must not fill the memory.
MOST_BYTES = 1 << 28


def read_member(archive: bytes, member: str, most: int = MOST_BYTES) -> bytes:
    """The content of the one file of a ZIP archive with this name, in whatever folder of it.

    Args:
        archive: The archive.
        member: The name.
        most: Bytes that are unpacked at most, whatever the archive says of its size.

    Raises:
        ValueError: There is none, or several, or it is too large; the message is the end of a sentence on the archive.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as stored:
            names = [name for name in stored.namelist() if name == member or name.endswith(f"/{member}")]
            if len(names) != 1:
                raise ValueError(f"must have one file {member}, and has {len(names)}")
            with stored.open(names[0]) as unpacked:
                content = unpacked.read(most + 1)
            if len(content) > most:
                raise ValueError(f"holds more than {most:,} bytes of {member}, the most that is taken")
            return content
    except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, NotImplementedError, OSError) as error:
        raise ValueError(f"must be a ZIP archive with {member}, and is not: {error}") from error


def read_arrays(content: bytes, names: Sequence[str]) -> list[np.ndarray]:
    """Arrays of an `.npz` file."""
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        return [stored[name] for name in names]
