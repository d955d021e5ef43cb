"""The seven regressions: the origins' files against the compact ones, and the published splits."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from local_data import assert_same_arrays, with_checksum
from sivi import datasets
from sivi.datasets import _catalogue
from sivi.datasets._published import gal_masks
from sivi.datasets._tables import from_csv, from_text, from_xls

NAMES = ("boston", "concrete", "protein", "power", "winewhite", "winered", "yacht")


def folder() -> Path:
    return Path(os.environ["SIVI_DATA_DIR"])


def test_text():
    inputs, outputs = from_text(b" 1.5   2.0 3\n-4 5e1 6 \n \n")
    np.testing.assert_array_equal(inputs, [[1.5, 2.0], [-4.0, 50.0]])
    np.testing.assert_array_equal(outputs, [3.0, 6.0])


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_csv(end):
    content = end.join(['"fixed acidity";"quality"', "7.4;5", "0.1;6", ""]).encode()
    inputs, outputs = from_csv(content, delimiter=";")
    np.testing.assert_array_equal(inputs, [[7.4], [0.1]])
    np.testing.assert_array_equal(outputs, [5.0, 6.0])
    inputs, outputs = from_csv(b"RMSD,F1,F2\n1,2,3\n4,5,6", target=0)
    np.testing.assert_array_equal(inputs, [[2.0, 3.0], [5.0, 6.0]])
    np.testing.assert_array_equal(outputs, [1.0, 4.0])


def test_rows_of_unequal_length_or_text():
    for read, content in ((from_text, b"1 2\n3\n"), (from_text, b"a b\n"), (from_csv, b"a,b\n1,2\n3\n")):
        with pytest.raises(ValueError, match=r"."):
            read(content)


@pytest.mark.parametrize("content", [b"nothing", bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600)])
def test_not_a_workbook(content):
    with pytest.raises(ValueError, match=r"must be an \.xls workbook, and is not: "):
        from_xls(content)


def test_gal_splits_are_a_tenth_each():
    masks = gal_masks(506)
    assert masks.shape == (20, 506)
    assert (masks.sum(1) == 51).all()
    assert len({mask.tobytes() for mask in masks}) == 20


@pytest.mark.needs_data
class TestFiles:
    @pytest.mark.parametrize("name", NAMES)
    def test_compact_file(self, name):
        data = datasets.load(name, download=False)
        assert list(data.sha256) == [f"uci/{name}.npz"]
        with np.load(folder() / "uci" / f"{name}.npz") as stored:
            np.testing.assert_array_equal(data.inputs, stored["X"])
            np.testing.assert_array_equal(data.outputs, stored["y"])
            assert len(stored["columns"]) == len(data.about.columns) + 1
        assert data.inputs.dtype == data.outputs.dtype == np.float64
        assert np.isfinite(data.inputs).all()

    @pytest.mark.parametrize("name", [name for name in NAMES if name != "winewhite"])
    def test_published_splits_are_those_stored(self, name):
        data = datasets.load(name, download=False)
        with np.load(folder() / "uci" / f"{name}.npz") as stored:
            np.testing.assert_array_equal(data.test_masks, stored["gal_test_mask"])
        assert len(data.published_splits) == (5 if name == "protein" else 20)
        np.testing.assert_array_equal(data.published_splits[1].test[1], data.outputs[data.test_masks[1]])

    def test_winewhite_has_no_published_split(self):
        assert datasets.load("winewhite", download=False).published_splits == ()

    @pytest.mark.parametrize("name", ["boston", "concrete", "winewhite", "winered", "yacht"])
    def test_origins_bytes_load_alike(self, name, monkeypatch, tmp_path):
        """With the checksum of the catalogue, so these are the bytes that are downloaded."""
        compact = datasets.load(name, download=False)
        (file,) = _catalogue.ENTRIES[name].formats[-1].files
        path = tmp_path / file.path
        path.parent.mkdir()
        path.write_bytes(gzip.decompress((folder() / "uci" / "raw" / f"{path.name}.gz").read_bytes()))
        monkeypatch.setenv("SIVI_DATA_DIR", str(tmp_path))
        origin = datasets.load(name, download=False)
        assert origin.sha256 == {file.path: file.sha256}
        assert_same_arrays(origin, compact)

    @pytest.mark.parametrize("name", ["power", "protein"])
    def test_origins_form_loads_alike(self, name, monkeypatch, tmp_path):
        """The origin's bytes are not at hand: the values of the compact file, written in its form."""
        compact = datasets.load(name, download=False)
        (file,) = _catalogue.ENTRIES[name].formats[-1].files
        path = tmp_path / file.path
        path.parent.mkdir()
        table = np.column_stack([compact.inputs, compact.outputs])
        if name == "protein":
            text = [
                "RMSD,F1,F2,F3,F4,F5,F6,F7,F8,F9",
                *(",".join(map(repr, row)) for row in np.roll(table, 1, 1).tolist()),
            ]
        else:
            text = [" ".join(map(repr, row)) for row in table.tolist()]
        path.write_text("\n".join(text) + "\n")
        with_checksum(monkeypatch, name, path)
        monkeypatch.setenv("SIVI_DATA_DIR", str(tmp_path))
        assert_same_arrays(datasets.load(name, download=False), compact)

    def test_stated_numbers(self):
        """Mean, standard deviation, least and largest output, as the data's own page has them."""
        stated = {
            "boston": (22.533, 9.188, 5.0, 50.0),
            "concrete": (35.818, 16.698, 2.332, 82.599),
            "protein": (7.749, 6.118, 0.0, 20.999),
            "power": (454.365, 17.066, 420.26, 495.76),
            "winewhite": (5.878, 0.886, 3.0, 9.0),
            "winered": (5.636, 0.807, 3.0, 8.0),
            "yacht": (10.495, 15.136, 0.01, 62.42),
        }
        for name, numbers in stated.items():
            y = datasets.load(name, download=False).outputs
            np.testing.assert_allclose([y.mean(), y.std(), y.min(), y.max()], numbers, atol=6e-4)


@pytest.mark.needs_data
def test_checksums_are_those_of_the_folder():
    lines = (folder() / "SHA256SUMS").read_text().split("\n")
    sums = {path.removeprefix("./"): value for value, path in (line.split() for line in lines if line)}
    files = [file for entry in _catalogue.ENTRIES.values() for form in entry.formats for file in form.files]
    files.append(_catalogue.waveform._REFERENCE)
    shared = [file for file in files if file.path in sums]
    assert len(shared) == 9 + 4 + 1  # compact files, MNIST's four, the reference
    assert {file.path: file.sha256 for file in shared} == {file.path: sums[file.path] for file in shared}
