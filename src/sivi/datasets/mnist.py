"""MNIST: handwritten digits as 28 × 28 grey pixels.

Pixels are divided by 255, to lie in [0, 1], row by row in one vector of 784; labels are the digits. The first 60,000
rows are those for fitting. No column of ones: `sivi.datasets.with_intercept` adds one.
"""

import gzip
import math
import zlib

import numpy as np

from ._entry import Address, CatalogueEntry, DataFile, FileFormat
from ._published import last_rows
from .base import Description
from .splits import Pair

_SERVERS = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")
_SHA256 = {
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}
_UNSIGNED_BYTE = 8  # the code of the type in an idx file


def read_idx(content: bytes, ndim: int) -> np.ndarray:
    """The array of unsigned bytes in a gzipped idx file: two zeros, type, number of axes, their sizes, the values."""
    try:
        values = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"an idx file must be gzipped, and is not: {error}") from error
    start = 4 + 4 * ndim
    if len(values) < start or values[:4] != bytes([0, 0, _UNSIGNED_BYTE, ndim]):
        raise ValueError(f"an idx file must have {ndim} axes of unsigned bytes; it begins with {values[:4].hex()}")
    shape = tuple(int(size) for size in np.frombuffer(values, ">u4", ndim, offset=4))
    if len(values) != start + math.prod(shape):
        raise ValueError(f"an idx file of shape {shape} must have {start + math.prod(shape)} bytes; got {len(values)}")
    return np.frombuffer(values, np.uint8, offset=start).reshape(shape)


def from_idx(images: bytes, labels: bytes, test_images: bytes, test_labels: bytes) -> Pair:
    """The four files of the origin."""
    pixels = np.concatenate([read_idx(content, 3) for content in (images, test_images)])
    digits = np.concatenate([read_idx(content, 1) for content in (labels, test_labels)])
    inputs = np.divide(pixels.reshape(len(pixels), -1), 255, dtype=np.float32)
    return inputs, digits.astype(np.int32)


ENTRY = CatalogueEntry(
    Description(
        name="mnist",
        title="Handwritten digits",
        num_data=70_000,
        num_features=784,
        target="the digit",
        classes=tuple("0123456789"),
        columns=(),
        scaling="pixels divided by 255, to [0, 1]",
        origin="LeCun, Cortes and Burges, The MNIST database of handwritten digits (1998)",
        url="http://yann.lecun.com/exdb/mnist/",
        licence="none stated; often given as CC BY-SA 3.0",
    ),
    (
        FileFormat(
            tuple(
                DataFile(f"mnist/{name}", sha256, tuple(Address(server + name) for server in _SERVERS))
                for name, sha256 in _SHA256.items()
            ),
            from_idx,
        ),
    ),
    lambda: last_rows(70_000, 10_000),
)
