"""HAPT: 561 features of the signals of a smartphone, and which of 12 activities or changes of posture it was.

The origin's features are scaled to [-1, 1] over all rows, those for testing included, and are left so, in single
precision. Labels 1 to 12 become 0 to 11. The rows for testing are those of 9 of the 30 people. The compact file was
computed from the raw signals by the recipe of the origin; where rows of the origin's own file could be compared, the
two differ by at most 5e-8. No column of ones: `sivi.datasets.with_intercept` adds one.
"""

import io

import numpy as np

from ._archive import read_arrays, read_member
from ._entry import Address, CatalogueEntry, DataFile, FileFormat
from ._published import last_rows
from .base import Description
from .splits import Pair

_ADDRESS = Address(
    "https://archive.ics.uci.edu/static/public/341/"
    "smartphone+based+recognition+of+human+activities+and+postural+transitions.zip"
)
_ORIGIN = DataFile("hapt/hapt.zip", "4ac4ae064227c07045a99551876b54d204837e995e298b6488559e209b3deb09", (_ADDRESS,))
_COMPACT = DataFile("hapt/hapt.npz", "0aeb79c6f67afdc7111ccc05365aa8f57384786b48b2c478d9424f833b34dcd8")
_CLASSES = """walking, walking upstairs, walking downstairs, sitting, standing, laying, stand to sit, sit to stand,
    sit to lie, lie to sit, stand to lie, lie to stand"""


def from_compact(content: bytes) -> Pair:
    """An `.npz` file with the arrays of the origin's text files."""
    return _joined(*read_arrays(content, ("X_train", "y_train", "X_test", "y_test")))


def from_zip(content: bytes) -> Pair:
    """The origin's archive."""
    parts = ("Train/X_train.txt", 2), ("Train/y_train.txt", 1), ("Test/X_test.txt", 2), ("Test/y_test.txt", 1)
    return _joined(*(np.loadtxt(io.BytesIO(read_member(content, name)), ndmin=ndim) for name, ndim in parts))


def _joined(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, y_test: np.ndarray) -> Pair:
    return np.concatenate([x, x_test]).astype(np.float32), np.concatenate([y, y_test]).astype(np.int32) - 1


ENTRY = CatalogueEntry(
    Description(
        name="hapt",
        title="Human activities and postural transitions by smartphone",
        num_data=10_929,
        num_features=561,
        target="the activity",
        classes=tuple(" ".join(name.split()) for name in _CLASSES.split(",")),
        columns=(),
        scaling="published: features scaled to [-1, 1] over all rows, those for testing included",
        origin="Reyes-Ortiz, Anguita, Oneto and Parra, Smartphone-based recognition of human activities and postural "
        "transitions (2015), doi 10.24432/C54G7M",
        url="https://archive.ics.uci.edu/dataset/341",
        licence="CC BY 4.0; its README: no commercial use",
    ),
    (FileFormat((_COMPACT,), from_compact), FileFormat((_ORIGIN,), from_zip)),
    lambda: last_rows(10_929, 3162),
)
