"""Downloads: into memory, checked, and only then written, whole, to where they belong."""

import hashlib
import io
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from .._storage.atomic import write_whole
from ._archive import read_member
from ._entry import Address, DataFile
from .base import DatasetError

_SECONDS = 30  # without an answer, an address is given up
_CHUNK = 1 << 16
NEEDS_POOCH = "needs pooch to be downloaded (pip install 'sivi[data]')"


class DownloadError(DatasetError):
    """A file could be had from none of its addresses; the message is the end of a sentence."""


def write_download(file: DataFile, folder: Path, progress: bool) -> bytes:
    """Fetch a file from the first of its addresses that has it, and write it to its path in a folder.

    Nothing is written, and no folder made, before the content has the file's checksum.

    Args:
        file: The file.
        folder: The folder, made if need be.
        progress: Whether to show a bar, on a terminal.

    Returns:
        The content.
    """
    if not file.addresses:
        raise DownloadError("has no public origin")
    reasons = []
    for address in file.addresses:
        try:
            content = _content(address, file, progress)
        except DownloadError as error:
            reasons.append(f"{address.url} {error}")
            continue
        _write(folder / file.path, content)
        return content
    raise DownloadError(f"could not be downloaded ({'; '.join(reasons)})")


def _content(address: Address, file: DataFile, progress: bool) -> bytes:
    content = _get(address.url, Path(file.path).name, progress)
    if address.member is not None:
        try:
            content = read_member(content, address.member)
        except ValueError as error:
            raise DownloadError(str(error)) from error
    if (found := hashlib.sha256(content).hexdigest()) != file.sha256:
        raise DownloadError(f"gave {len(content):,} bytes with the SHA-256 {found} instead of {file.sha256}")
    return content


def _get(url: str, name: str, progress: bool) -> bytes:
    """What an address holds, by pooch."""
    try:
        import pooch
    except ImportError as error:
        raise DownloadError(NEEDS_POOCH) from error
    from requests import RequestException

    stream = io.BytesIO()
    # pooch sets the bar's total to the length that the server states, but asks first whether the bar is true.
    bar: Any = tqdm(
        total=1, desc=name, unit="B", unit_scale=True, disable=None if progress else True, dynamic_ncols=True
    )
    # The file as it is stored: a server may otherwise pack it, and requests then unpack it.
    headers = {"Accept-Encoding": "identity"}
    get = pooch.HTTPDownloader(progressbar=bar, chunk_size=_CHUNK, timeout=_SECONDS, headers=headers)
    try:
        with bar:
            get(url, stream, None)
    except RequestException as error:
        raise DownloadError(_reason(error)) from error
    return stream.getvalue()


def _reason(error: Exception) -> str:
    """The end of a sentence that begins with the address."""
    from requests import HTTPError, Timeout
    from requests.exceptions import ChunkedEncodingError, ConnectionError

    if isinstance(error, HTTPError) and error.response is not None:
        return f"answered {error.response.status_code} {error.response.reason}"
    if isinstance(error, Timeout):
        return f"gave no answer in {_SECONDS} seconds"
    if isinstance(error, ChunkedEncodingError):
        return "broke off"
    if isinstance(error, ConnectionError):
        return "could not be reached"
    return f"failed with {type(error).__name__}"


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, lambda temporary: temporary.write_bytes(content))
    except OSError as error:
        raise DatasetError(
            f"{str(path.parent)!r} must be a folder that can be written to; {error.strerror}."
        ) from error
