"""What a dataset is, and how its files are found and read."""

import hashlib
import io
import os
import urllib.request
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .._errors import SiviError
from .._files import write_whole

#: The environment variable that names the folder of all datasets.
FOLDER_VARIABLE = "SIVI_DATA_DIR"
_SECONDS = 60  # without an answer, a download is given up


class DatasetError(SiviError, OSError):
    """Data that are not where they should be, or not what they should be."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Inputs and outputs, for fitting and for testing.

    Attributes:
        name: What `sivi.datasets.load` calls it.
        train: Inputs (num_data, features) and outputs (num_data,), in the structure of a model's `data`.
        test: Likewise, held out.
    """

    name: str
    train: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class PosteriorReference:
    """What long Markov chains say of a posterior.

    Attributes:
        name: The dataset's.
        mean: (dim,), of all draws of the longest run.
        cov: (dim, dim), likewise.
        draws: (n, dim), some of these.
        others: Sets of draws (m, dim) by other samplers, or of other approximations, by name.
    """

    name: str
    mean: np.ndarray
    cov: np.ndarray
    draws: np.ndarray
    others: Mapping[str, np.ndarray]


def read_arrays(file: str, names: Sequence[str], otherwise: str) -> dict[str, np.ndarray]:
    """Arrays of an `.npz` file in the folder that `SIVI_DATA_DIR` names.

    Args:
        file: Its path in that folder.
        names: The arrays.
        otherwise: For the error message: how else the file is to be had.
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        raise DatasetError(f"{FOLDER_VARIABLE} must name a folder with {file}; it is not set. {otherwise}")
    path = Path(folder) / file
    if not path.is_file():
        raise DatasetError(f"{FOLDER_VARIABLE} must name a folder with {file}; {folder!r} has none. {otherwise}")
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in names}
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise DatasetError(f"{str(path)!r} must be an .npz file with the arrays {list(names)}; {error}.") from error


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """An `.npz` file, whole or not at all, in a folder that is made if need be."""
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)  # pyright: ignore[reportArgumentType]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda temporary: temporary.write_bytes(stream.getvalue()))


def fetch(url: str, sha256: str) -> bytes:
    """What an address holds, if it is what it was."""
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS) as answer:
            content = answer.read()
    except OSError as error:
        raise DatasetError(f"{url} could not be fetched: {error}.") from error
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise DatasetError(f"{url} must have the SHA-256 {sha256}; what came has {found}.")
    return content
