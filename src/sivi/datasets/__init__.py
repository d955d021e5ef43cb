"""Data by name: the only place that reads or downloads any.

Files are looked for in the folder that the environment variable `SIVI_DATA_DIR` names, then in the cache, and are
otherwise downloaded from their public origin; each is checked against its SHA-256.
"""

from .._arguments import check_choice
from . import waveform as _waveform
from ._catalogue import describe, fetch, find, load, names
from ._lookup import Location
from ._waveform_generator import waveform_generator
from .base import Dataset, DatasetError, Description, PosteriorReference
from .splits import Scale, Split, with_intercept

_REFERENCES = {"waveform": _waveform.load_reference}


def load_reference(name: str) -> PosteriorReference:
    """Draws and moments of a dataset's posterior from long Markov chains; they have no public origin.

    Args:
        name: `"waveform"`.

    Raises:
        DatasetError: They are not in the folder that `SIVI_DATA_DIR` names.
    """
    return _REFERENCES[check_choice("name", _REFERENCES, name)]()


__all__ = [
    "Dataset",
    "DatasetError",
    "Description",
    "Location",
    "PosteriorReference",
    "Scale",
    "Split",
    "describe",
    "fetch",
    "find",
    "load",
    "load_reference",
    "names",
    "waveform_generator",
    "with_intercept",
]
