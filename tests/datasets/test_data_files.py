"""Where files are looked for, and what is said of those that are missing or damaged."""

import io
import sys
import zipfile

import numpy as np
import pytest

from local_data import TINY, TINY_PATH, tiny
from sivi import datasets
from sivi.datasets import _catalogue
from sivi.datasets._archive import read_member


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setattr(_catalogue, "ENTRIES", {"tiny": tiny()})
    monkeypatch.delenv("SIVI_DATA_DIR", raising=False)
    monkeypatch.setenv("SIVI_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def folder(cache, monkeypatch, tmp_path):
    monkeypatch.setenv("SIVI_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


def put(folder, content=TINY):
    path = folder / TINY_PATH
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


class TestOrder:
    def test_data_folder_before_cache(self, folder, cache):
        assert datasets.find("tiny") is None
        in_cache = put(cache)
        assert datasets.find("tiny") == datasets.Location("cache", (in_cache,))
        in_folder = put(folder)
        assert datasets.find("tiny") == datasets.Location("data folder", (in_folder,))
        assert datasets.fetch("tiny") == datasets.find("tiny")

    def test_a_folder_without_it_leaves_the_cache(self, folder, cache):
        folder.mkdir()
        put(cache)
        np.testing.assert_array_equal(datasets.load("tiny").outputs, [3.0, 6.0, 9.0, 12.0])

    def test_what_is_loaded(self, cache):
        put(cache)
        data = datasets.load("tiny")
        np.testing.assert_array_equal(data.inputs, [[1.0, 2.0], [4.0, 5.0], [7.0, 8.0], [10.0, 11.0]])
        assert data.sha256 == {TINY_PATH: _catalogue.ENTRIES["tiny"].formats[0].files[0].sha256}
        assert (data.name, data.about.shape, data.about.kind) == ("tiny", (4, 2), "regression")
        np.testing.assert_array_equal(data.test[0], [[10.0, 11.0]])

    def test_the_users_own_cache(self, cache, monkeypatch, tmp_path):
        pooch = pytest.importorskip("pooch")
        monkeypatch.delenv("SIVI_CACHE_DIR")
        monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / "home" / name)
        put(tmp_path / "home" / "sivi")
        assert datasets.find("tiny").place == "cache"


class TestDamage:
    @pytest.mark.parametrize("content", [b"", TINY[:-3], TINY + b" ", b"nothing"])
    def test_in_the_data_folder_it_is_an_error(self, folder, cache, content):
        """Even if the cache has it whole: the folder is the user's, and means what it says."""
        put(cache)
        path = put(folder, content)
        rule = r"^'.*/tiny/tiny\.data' must have the SHA-256 \w{64}, and has \w{64} \(\d+ bytes\): it is damaged or "
        for function in (datasets.load, datasets.fetch):
            with pytest.raises(datasets.DatasetError, match=rule):
                function("tiny")
        assert path.read_bytes() == content

    def test_in_the_cache_offline(self, cache):
        path = put(cache, b"nothing")
        with pytest.raises(datasets.DatasetError, match=r"damaged in the cache \('.*'\) and has no public origin; "):
            datasets.load("tiny")
        with pytest.raises(datasets.DatasetError, match="must have the SHA-256"):
            datasets.load("tiny", download=False)
        assert path.read_bytes() == b"nothing"

    def test_not_a_file_that_can_be_read(self, cache):
        (cache / TINY_PATH).mkdir(parents=True)
        with pytest.raises(datasets.DatasetError, match="tiny is not here"):
            datasets.load("tiny", download=False)

    def test_right_checksum_but_not_the_data(self, cache, monkeypatch):
        for content, rule in (
            (b"1 a 3\n", "is not what tiny is made of"),
            (b"1 2 3\n", "must have inputs of the shape"),
        ):
            monkeypatch.setattr(_catalogue, "ENTRIES", {"tiny": tiny(content=content)})
            put(cache, content)
            with pytest.raises(datasets.DatasetError, match=rule):
                datasets.load("tiny")


class TestMissing:
    def test_one_sentence(self, cache):
        with pytest.raises(datasets.DatasetError) as caught:
            datasets.load("tiny", download=False)
        assert str(caught.value) == (
            "tiny is not here: tiny/tiny.data is not in the folder that SIVI_DATA_DIR names (not set), "
            f"not in the cache ({str(cache)!r}) and was not to be downloaded; `sivi data fetch tiny` fetches it where "
            "there is a network, with --out into a folder that SIVI_DATA_DIR can name."
        )
        assert not cache.exists()

    def test_the_folder_is_named(self, folder):
        with pytest.raises(datasets.DatasetError, match=f"SIVI_DATA_DIR names \\('{folder}'\\)"):
            datasets.load("tiny")

    @pytest.mark.parametrize("with_cache", [False, True])
    def test_without_pooch(self, cache, monkeypatch, with_cache):
        for module in ("pooch", "requests"):  # the second comes with the first
            monkeypatch.setitem(sys.modules, module, None)
        if with_cache:
            monkeypatch.setattr(_catalogue, "ENTRIES", {"tiny": tiny(_catalogue.waveform._ADDRESS)})
        else:
            monkeypatch.delenv("SIVI_CACHE_DIR")
        with pytest.raises(datasets.DatasetError, match=r"needs pooch to be downloaded \(pip install 'sivi\[data\]'\)"):
            datasets.load("tiny")

    def test_unknown_name(self):
        for function in (datasets.load, datasets.fetch, datasets.find, datasets.describe):
            with pytest.raises(ValueError, match=r"^name must be one of 'waveform', 'mnist', .*; got 'mnist1d'\.$"):
                function("mnist1d")


def test_every_dataset_is_described():
    for name in datasets.names():
        about = datasets.describe(name)
        assert about.name == name
        assert all((about.title, about.target, about.scaling, about.origin, about.licence))
        assert about.url.startswith("http")
        assert len(about.columns) in (0, about.num_features)
        origin = _catalogue.ENTRIES[name].formats[-1]
        assert all(file.addresses for file in origin.files)
        assert {file.path.split("/")[0] for file in origin.files} == {name}


def test_an_archive_that_is_damaged_within_gets_one_sentence():
    """Whatever the ZIP reader, or the decompression under it, makes of it."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("folder/table.txt", " ".join(map(str, range(3000))))
    good = whole.getvalue()
    assert read_member(good, "table.txt").startswith(b"0 1 2 3")
    rng = np.random.default_rng(0)
    for _ in range(200):
        bad = bytearray(good)
        for place in rng.integers(0, len(bad), 2):
            bad[place] ^= int(rng.integers(1, 256))
        try:
            read_member(bytes(bad), "table.txt")
        except ValueError as error:
            assert str(error).startswith("must ")  # noqa: PT017
