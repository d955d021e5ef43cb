"""All datasets, and the way from a name to arrays.

A file is known by its content. The catalogue names a path, a SHA-256 and addresses, and a file is read only if its
bytes have that checksum, wherever it lies. A damaged file is downloaded again in the cache, and is an error in the
user's own folder. The checksum is that of the member, not of the archive, which may be packed anew.
"""

import contextlib
import os
from pathlib import Path

from .._arguments import check_choice
from . import hapt, mnist, regression, waveform
from ._download import NEEDS_POOCH, DownloadError, write_download
from ._entry import CatalogueEntry, DataFile, FileFormat
from ._lookup import Location, Place, cache_folder, find_format, is_file, locate, missing, read_checked
from .base import Dataset, DatasetError, Description

ENTRIES: dict[str, CatalogueEntry] = {
    entry.about.name: entry for entry in (waveform.ENTRY, mnist.ENTRY, hapt.ENTRY, *regression.ENTRIES)
}


def names() -> tuple[str, ...]:
    """The datasets there are.

    Example:
        >>> names()[:3]
        ('waveform', 'mnist', 'hapt')
    """
    return tuple(ENTRIES)


def describe(name: str) -> Description:
    """What is known of a dataset without reading it: shape, origin, licence, scaling.

    Args:
        name: One of `names()`.

    Example:
        >>> about = describe("boston")
        >>> about.shape, about.kind, about.target
        ((506, 13), 'regression', 'MEDV')
    """
    return _entry(name).about


def find(name: str) -> Location | None:
    """Where a dataset is on this machine, whatever the content of its files; None if a file is missing.

    Args:
        name: One of `names()`.
    """
    format_and_location = find_format(_entry(name))
    return None if format_and_location is None else format_and_location[1]


def load(name: str, *, download: bool = True, progress: bool = True) -> Dataset:
    """A dataset, from the data folder, otherwise from the cache, otherwise from its public origin.

    The data folder is the one that the environment variable `SIVI_DATA_DIR` names. The cache is the one that
    `SIVI_CACHE_DIR` names, otherwise the user's own. Every file is checked against its SHA-256 before it is read; what
    is downloaded stays in the cache. Downloads need the packages of `pip install 'sivi[data]'`.

    Args:
        name: One of `names()`.
        download: False keeps away from the network.
        progress: Whether a download shows a bar, on a terminal.

    Raises:
        DatasetError: It is not here and cannot be downloaded, or a file is damaged. The message says which, and what
            to do.
    """
    entry = _entry(name)
    file_format = _chosen_format(entry)
    contents = [_obtain(name, file, download, progress)[2] for file in file_format.files]
    try:
        inputs, outputs = file_format.read(*contents)
    except (ValueError, KeyError) as error:
        raise DatasetError(f"{file_format.files[0].path} is not what {name} is made of: {error}.") from error
    if (inputs.shape, outputs.shape) != (entry.about.shape, entry.about.shape[:1]):
        raise DatasetError(f"{name} must have inputs of the shape {entry.about.shape}; got {inputs.shape}.")
    return Dataset(
        entry.about, inputs, outputs, entry.test_masks(), {file.path: file.sha256 for file in file_format.files}
    )


def fetch(name: str, folder: str | os.PathLike[str] | None = None, *, progress: bool = True) -> Location:
    """Make sure that a dataset is here and whole: what is missing or damaged is downloaded.

    Args:
        name: One of `names()`.
        folder: Where the origin's files shall be, for `SIVI_DATA_DIR` to name, here or on another machine. If it is
            None, `load` must be able to find them: they are downloaded to the cache if they are not here yet.
        progress: Whether to show a bar, on a terminal.

    Returns:
        Where the files are.

    Raises:
        DatasetError: It cannot be downloaded.
    """
    entry = _entry(name)
    if folder is not None:
        if not isinstance(folder, (str, os.PathLike)):
            raise TypeError(f"folder must be a path, or None; got {folder!r}.")
        return Location("folder", tuple(_into(name, file, Path(folder), progress) for file in entry.formats[-1].files))
    obtained = [_obtain(name, file, True, progress) for file in _chosen_format(entry).files]
    place: Place = "cache" if any(place == "cache" for place, _, _ in obtained) else "data folder"
    return Location(place, tuple(path for _, path, _ in obtained))


def _entry(name: str) -> CatalogueEntry:
    return ENTRIES[check_choice("name", ENTRIES, name)]


def _chosen_format(entry: CatalogueEntry) -> FileFormat:
    """The format that is here, otherwise that of the origin."""
    format_and_location = find_format(entry)
    return entry.formats[-1] if format_and_location is None else format_and_location[0]


def _obtain(name: str, file: DataFile, may_download: bool, progress: bool) -> tuple[Place, Path, bytes]:
    """A file's place, path and checked content.

    A damaged file is an error in the data folder, which belongs to the user, and is downloaded again in the cache.
    """
    here = locate(file)
    if here is not None:
        place, path = here
        try:
            return place, path, read_checked(path, file)
        except DatasetError:
            if place == "data folder" or not may_download:
                raise
    damaged = here is not None
    if not may_download:
        raise missing(name, file, "was not to be downloaded", damaged)
    cache = cache_folder()
    if cache is None:
        raise missing(name, file, NEEDS_POOCH, damaged)
    try:
        return "cache", cache / file.path, write_download(file, cache, progress)
    except DownloadError as error:
        raise missing(name, file, str(error), damaged) from error


def _into(name: str, file: DataFile, folder: Path, progress: bool) -> Path:
    """A file of a folder, downloaded unless it is there and whole."""
    path = folder / file.path
    if is_file(path):
        with contextlib.suppress(DatasetError):
            read_checked(path, file)
            return path
    try:
        write_download(file, folder, progress)
    except DownloadError as error:
        raise DatasetError(f"{name} was not fetched: {file.path} {error}.") from error
    return path
