"""What the catalogue knows of a dataset: its files, by name, checksum and address, and how they are read."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .base import Description
from .splits import Pair


@dataclass(frozen=True)
class Address:
    """Where a file can be downloaded.

    Attributes:
        url: The file, or a ZIP archive.
        member: The file's name in that archive.
    """

    url: str
    member: str | None = None


@dataclass(frozen=True)
class DataFile:
    """A file that is known by its content.

    Attributes:
        path: Its path in a folder of data, which the data folder and the cache share.
        sha256: Of its content.
        addresses: Where to download it, best first; none for a file that has no public origin.
    """

    path: str
    sha256: str
    addresses: tuple[Address, ...] = ()


@dataclass(frozen=True)
class FileFormat:
    """One of the file formats in which a dataset comes.

    Attributes:
        files: All of them are needed.
        read: From their contents to inputs and outputs.
    """

    files: tuple[DataFile, ...]
    read: Callable[..., Pair]


@dataclass(frozen=True)
class CatalogueEntry:
    """A dataset of the catalogue.

    Attributes:
        about: What it is.
        formats: In the order in which they are looked for; the last is that of the origin, and can be downloaded.
        test_masks: Rows for testing of the published splits, (splits, num_data).
    """

    about: Description
    formats: tuple[FileFormat, ...]
    test_masks: Callable[[], np.ndarray]
