"""Where files are looked for: the data folder, then the cache; and what is said when they are nowhere."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ._entry import CatalogueEntry, DataFile, FileFormat
from .base import DatasetError

#: The environment variable that names a folder of data, which is only read.
FOLDER_VARIABLE = "SIVI_DATA_DIR"
#: The environment variable that names the folder for downloads, instead of the user's cache.
CACHE_VARIABLE = "SIVI_CACHE_DIR"

Place = Literal["data folder", "cache", "folder"]


@dataclass(frozen=True)
class Location:
    """Where the files of a dataset are.

    Attributes:
        place: `"data folder"`, the one that `SIVI_DATA_DIR` names; `"cache"`; or `"folder"`, the one given to `fetch`.
        files: All that are read.
    """

    place: Place
    files: tuple[Path, ...]


def data_folder() -> Path | None:
    """The folder that `SIVI_DATA_DIR` names."""
    return _folder_of(FOLDER_VARIABLE)


def cache_folder() -> Path | None:
    """The folder that `SIVI_CACHE_DIR` names, otherwise the user's cache, which pooch knows; None without pooch."""
    if (folder := _folder_of(CACHE_VARIABLE)) is not None:
        return folder
    try:
        import pooch
    except ImportError:
        return None
    return Path(pooch.os_cache("sivi"))


def _folder_of(variable: str) -> Path | None:
    """The folder that an environment variable names."""
    folder = os.environ.get(variable)
    try:
        return Path(folder).expanduser() if folder else None
    except RuntimeError:
        raise DatasetError(f"{variable} must name a folder; got {folder!r}, of a user without a home.") from None


def locate(file: DataFile) -> tuple[Place, Path] | None:
    """Where a file is, whatever its content."""
    places: tuple[tuple[Place, Path | None], ...] = (("data folder", data_folder()), ("cache", cache_folder()))
    for place, folder in places:
        if folder is not None and is_file(folder / file.path):
            return place, folder / file.path
    return None


def is_file(path: Path) -> bool:
    """Whether there is a file, in a folder that can be looked into."""
    try:
        return path.is_file()
    except OSError as error:
        raise DatasetError(f"{str(path.parent)!r} must be a folder that can be read; {error.strerror}.") from error


def find_format(entry: CatalogueEntry) -> tuple[FileFormat, Location] | None:
    """The first format of a dataset whose files are all here, and where they are."""
    for file_format in entry.formats:
        places = [here for file in file_format.files if (here := locate(file)) is not None]
        if len(places) == len(file_format.files):
            place: Place = "cache" if any(place == "cache" for place, _ in places) else "data folder"
            return file_format, Location(place, tuple(path for _, path in places))
    return None


def read_checked(path: Path, file: DataFile) -> bytes:
    """The content of a file, if it is what it should be."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DatasetError(f"{str(path)!r} must be a file that can be read; {error.strerror}.") from error
    if (found := hashlib.sha256(content).hexdigest()) != file.sha256:
        raise DatasetError(
            f"{str(path)!r} must have the SHA-256 {file.sha256}, and has {found} ({len(content):,} bytes): "
            "it is damaged or another version, so replace or remove it."
        )
    return content


def missing(name: str, file: DataFile, why: str, damaged: bool = False, remedy: str | None = None) -> DatasetError:
    """One sentence on a file that is nowhere: where it was looked for, and how to get it.

    Args:
        name: The dataset's.
        file: The file.
        why: Why it was not downloaded; its subject is the file.
        damaged: Whether the cache has it, but with other content.
        remedy: What to do, if it is not the usual.
    """
    folder, cache = data_folder(), cache_folder()
    looked = f"not in the folder that {FOLDER_VARIABLE} names ({'not set' if folder is None else repr(str(folder))})"
    if cache is not None:
        looked += f", {'damaged' if damaged else 'not'} in the cache ({str(cache)!r})"
    remedy = remedy or (
        f"`sivi data fetch {name}` fetches it where there is a network, with --out into a folder that "
        f"{FOLDER_VARIABLE} can name"
    )
    return DatasetError(f"{name} is not here: {file.path} is {looked} and {why}; {remedy}.")
