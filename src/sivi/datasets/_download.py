"""Downloads: into memory, checked, and only then written, whole, to where they belong."""

import hashlib
import time
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from .._storage.atomic import write_whole
from ._archive import MOST_BYTES, read_member
from ._entry import Address, DataFile
from .base import DatasetError

_SECONDS = 30  # without an answer, an address is given up
_CHUNK, _FEW = 1 << 16, 1 << 10
#: A server that is slower than this from the first minute on is given up, so that no download goes on for ever.
_FIRST_SECONDS, _LEAST_PER_SECOND = 60.0, 2000.0
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
            content = read_member(content, address.member, MOST_BYTES)
        except ValueError as error:
            raise DownloadError(str(error)) from error
    if (found := hashlib.sha256(content).hexdigest()) != file.sha256:
        raise DownloadError(f"gave {len(content):,} bytes with the SHA-256 {found} instead of {file.sha256}")
    return content


def _get(url: str, name: str, progress: bool) -> bytes:
    """What an address holds, which is given up if it is too much, or comes too slowly."""
    try:
        import requests  # which pooch needs
    except ImportError as error:
        raise DownloadError(NEEDS_POOCH) from error
    # The file as it is stored: a server may otherwise pack it, and requests then unpack it.
    headers = {"Accept-Encoding": "identity"}
    try:
        with requests.get(url, stream=True, timeout=_SECONDS, headers=headers) as response:
            response.raise_for_status()
            total = response.headers.get("Content-Length", "")
            with tqdm(
                total=int(total) if total.isdecimal() else None,
                desc=name,
                unit="B",
                unit_scale=True,
                disable=None if progress else True,
                dynamic_ncols=True,
            ) as bar:
                return _read(response.raw, bar, int(total) if total.isdecimal() else None)
    except requests.RequestException as error:
        raise DownloadError(_reason(error)) from error


def _read(raw: Any, bar: Any, total: int | None) -> bytes:
    """All bytes of a response of urllib3, as they come: `read` would wait until a whole chunk is here."""
    from urllib3.exceptions import HTTPError, ReadTimeoutError

    if total is not None and total > MOST_BYTES:
        raise DownloadError(f"has {total:,} bytes, and {MOST_BYTES:,} are the most that is taken")
    take = getattr(raw, "read1", None)
    content, begin = bytearray(), time.monotonic()
    try:
        while part := raw.read(_FEW) if take is None else take(_CHUNK):
            content += part
            bar.update(len(part))
            seconds = time.monotonic() - begin
            if len(content) > MOST_BYTES:
                raise DownloadError(f"sent more than {MOST_BYTES:,} bytes, the most that is taken")
            if seconds > _FIRST_SECONDS and len(content) < _LEAST_PER_SECOND * seconds:
                raise DownloadError(f"sent {len(content):,} bytes in {seconds:.0f} seconds, which is too slow")
    except ReadTimeoutError as error:
        raise DownloadError(f"gave no answer in {_SECONDS} seconds") from error
    except (HTTPError, OSError) as error:
        if isinstance(error, DatasetError):
            raise
        raise DownloadError("broke off") from error
    if total is not None and len(content) < total:
        raise DownloadError("broke off")
    return bytes(content)


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
