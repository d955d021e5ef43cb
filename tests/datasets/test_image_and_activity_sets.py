"""MNIST and HAPT: their files' forms, and their content."""

import gzip
import struct
import zipfile

import numpy as np
import pytest

from local_data import assert_same_arrays, with_checksum
from sivi import datasets
from sivi.datasets.hapt import from_zip
from sivi.datasets.mnist import from_idx, read_idx


def idx(array, kind=8):
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, kind, array.ndim, *array.shape)
    return gzip.compress(header + array.astype(np.uint8).tobytes(), mtime=0)


class TestIdx:
    def test_round_trip(self):
        array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
        np.testing.assert_array_equal(read_idx(idx(array), 3), array)

    def test_images_become_rows_between_0_and_1(self):
        images = np.arange(12).reshape(3, 2, 2) * 23
        inputs, labels = from_idx(idx(images), idx(np.array([7, 0, 9])), idx(images[:1]), idx(np.array([1])))
        np.testing.assert_allclose(inputs[0], np.array([0, 23, 46, 69]) / 255, rtol=1e-7)
        np.testing.assert_array_equal(inputs[3], inputs[0])
        assert inputs.dtype == np.float32
        assert (labels.dtype, labels.tolist()) == (np.int32, [7, 0, 9, 1])

    @pytest.mark.parametrize(
        ("content", "rule"),
        [
            (b"nothing", "must be gzipped"),
            (idx(np.zeros((2, 2)))[:-12], "must be gzipped"),
            (gzip.compress(b"\0\0", mtime=0), "must have 2 axes"),
            (idx(np.zeros(3)), "must have 2 axes of unsigned bytes; it begins with 00000801"),
            (idx(np.zeros((2, 2)), kind=13), "it begins with 00000d02"),
            (gzip.compress(struct.pack(">BBBBII", 0, 0, 8, 2, 2, 2) + b"abc", mtime=0), r"must have 16 bytes; got 15"),
            (
                gzip.compress(struct.pack(">BBBBII", 0, 0, 8, 2, 2, 2) + b"abcde", mtime=0),
                r"must have 16 bytes; got 17",
            ),
        ],
        ids=["not gzip", "cut off", "too short", "one axis", "floats", "a byte too few", "a byte too many"],
    )
    def test_what_is_not_one(self, content, rule):
        with pytest.raises(ValueError, match=rule):
            read_idx(content, 2)


def write_hapt(path, train, test, folder=""):
    """An archive in the layout of the origin, with the nine digits that single precision takes."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{folder}README.txt", "read me")
        for name, (x, y) in (("train", train), ("test", test)):
            rows = "\n".join(" ".join([f"{value:.9g}" for value in row]) for row in x.tolist())
            archive.writestr(f"{folder}{name.title()}/X_{name}.txt", rows + "\n")
            archive.writestr(f"{folder}{name.title()}/y_{name}.txt", "\n".join(str(label + 1) for label in y) + "\n")


@pytest.mark.parametrize("folder", ["", "HAPT Data Set/"])
def test_hapt_archive(tmp_path, folder):
    x = np.array([[0.1, -1.0], [1.0, 1 / 3]])
    write_hapt(tmp_path / "hapt.zip", (x, np.array([0, 11])), (x[:1], np.array([4])), folder)
    inputs, labels = from_zip((tmp_path / "hapt.zip").read_bytes())
    np.testing.assert_array_equal(inputs, np.float32([[0.1, -1.0], [1.0, 1 / 3], [0.1, -1.0]]))
    assert (inputs.dtype, labels.dtype, labels.tolist()) == (np.float32, np.int32, [0, 11, 4])


def test_hapt_archive_without_a_part():
    with pytest.raises(ValueError, match=r"must be a ZIP archive with Train/X_train\.txt, and is not"):
        from_zip(b"nothing")


@pytest.mark.needs_data
class TestFiles:
    def test_mnist(self):
        data = datasets.load("mnist", download=False)
        assert (data.train[0].shape, data.test[0].shape) == ((60_000, 784), (10_000, 784))
        assert (data.inputs.dtype, data.outputs.dtype) == (np.float32, np.int32)
        assert (data.inputs.min(), data.inputs.max()) == (0.0, 1.0)
        counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
        np.testing.assert_array_equal(np.bincount(data.train[1]), counts)
        counts = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
        np.testing.assert_array_equal(np.bincount(data.test[1]), counts)
        np.testing.assert_allclose(data.train[0].mean(dtype=float), 0.1307, atol=5e-5)  # the constant everyone uses
        assert data.train[1][:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
        assert np.shares_memory(data.train[0], data.inputs)

    def test_hapt(self):
        data = datasets.load("hapt", download=False)
        assert (data.train[0].shape, data.test[0].shape) == ((7767, 561), (3162, 561))
        assert (data.inputs.min(), data.inputs.max(), data.inputs.dtype) == (-1.0, 1.0, np.float32)
        counts = [1226, 1073, 987, 1293, 1423, 1413, 47, 23, 75, 60, 90, 57]
        np.testing.assert_array_equal(np.bincount(data.train[1]), counts)
        counts = [496, 471, 420, 508, 556, 545, 23, 10, 32, 25, 49, 27]
        np.testing.assert_array_equal(np.bincount(data.test[1]), counts)
        assert len(data.about.classes) == 12
        assert datasets.with_intercept(data.inputs[:2]).shape == (2, 562)

    def test_hapt_compact_and_origin_load_alike(self, monkeypatch, tmp_path):
        """The origin's bytes are not at hand: the values of the compact file, in the origin's layout."""
        compact = datasets.load("hapt", download=False)
        path = tmp_path / "hapt" / "hapt.zip"
        path.parent.mkdir()
        write_hapt(path, compact.train, compact.test)
        with_checksum(monkeypatch, "hapt", path)
        monkeypatch.setenv("SIVI_DATA_DIR", str(tmp_path))
        assert_same_arrays(datasets.load("hapt", download=False), compact)
