"""Data by name: the only place that reads or downloads any.

Files are looked for in the folder that the environment variable `SIVI_DATA_DIR` names.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from .base import Dataset, DatasetError, PosteriorReference
from .waveform import download_waveform, load_waveform, load_waveform_reference
from .waveform_generator import waveform_generator

_T = TypeVar("_T")

_DATASETS: dict[str, Callable[[], Dataset]] = {"waveform": load_waveform}
_REFERENCES: dict[str, Callable[[], PosteriorReference]] = {"waveform": load_waveform_reference}
_DOWNLOADS: dict[str, Callable[[Path], Path]] = {"waveform": download_waveform}


def load(name: str) -> Dataset:
    """A dataset, from the folder that `SIVI_DATA_DIR` names.

    Args:
        name: `"waveform"`.

    Raises:
        DatasetError: It is not there; the message says what to set, and what fetches it.
    """
    return _one_of(_DATASETS, name)()


def load_reference(name: str) -> PosteriorReference:
    """Draws and moments of a dataset's posterior from long Markov chains, from the same folder.

    Args:
        name: `"waveform"`.

    Raises:
        DatasetError: They are not there.
    """
    return _one_of(_REFERENCES, name)()


def download(name: str, folder: str | os.PathLike[str]) -> Path:
    """Fetch a dataset from its public origin, check it, and write it where `load` finds it.

    Args:
        name: `"waveform"`.
        folder: The folder that `SIVI_DATA_DIR` then has to name; made if need be.

    Returns:
        The file.

    Raises:
        DatasetError: It could not be fetched, or is not what it was.
    """
    return _one_of(_DOWNLOADS, name)(Path(folder))


def _one_of(known: dict[str, Callable[..., _T]], name: str) -> Callable[..., _T]:
    if name not in known:
        raise ValueError(f"name must be one of {sorted(known)}; got {name!r}.")
    return known[name]


__all__ = [
    "Dataset",
    "DatasetError",
    "PosteriorReference",
    "download",
    "load",
    "load_reference",
    "waveform_generator",
]
