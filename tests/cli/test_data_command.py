import pytest

from local_data import TINY, TINY_PATH, serving, tiny
from sivi import datasets
from sivi.cli import main
from sivi.datasets import _catalogue
from sivi.datasets._entry import Address


@pytest.fixture
def served(data_cache, monkeypatch):
    """A tiny dataset that can be downloaded, and one that cannot."""
    with serving({"tiny": TINY}) as (url, _):
        entries = {"lost": tiny(Address(f"{url}/lost")), "tiny": tiny(Address(f"{url}/tiny"))}
        monkeypatch.setattr(_catalogue, "ENTRIES", entries)
        yield


def data(*arguments):
    return main(["data", *map(str, arguments)])


def test_list(data_cache, capsys, monkeypatch, tmp_path):
    assert data("list") == 0
    header, _, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["name", "rows", "features", "kind", "found", "in", "licence", "what"]
    assert [row.split()[0] for row in rows] == list(datasets.names())
    assert all("not here" in row for row in rows)
    assert rows[1].split()[:5] == ["mnist", "70,000", "784", "10", "classes"]
    for folder in (data_cache, tmp_path / "data"):
        (folder / "boston").mkdir(parents=True)
    (data_cache / "boston" / "housing.data").touch()
    data("list")
    assert "cache" in capsys.readouterr().out.splitlines()[5]
    (tmp_path / "data" / "boston" / "housing.data").touch()
    monkeypatch.setenv("SIVI_DATA_DIR", str(tmp_path / "data"))
    data("list")
    assert "data folder" in capsys.readouterr().out.splitlines()[5]


def test_fetch(served, data_cache, capsys):
    assert data("fetch", "tiny") == 0
    assert capsys.readouterr().out == f"tiny: {data_cache / TINY_PATH}\n"
    assert (data_cache / TINY_PATH).read_bytes() == TINY


def test_fetch_into_a_folder(served, data_cache, tmp_path, capsys):
    assert data("fetch", "tiny", "--out", tmp_path / "data") == 0
    assert capsys.readouterr().out == f"tiny: {tmp_path / 'data' / TINY_PATH}\n"
    assert not data_cache.exists()


def test_fetch_all_goes_on_after_a_failure(served, tmp_path, capsys):
    assert data("fetch", "all", "--out", tmp_path / "data") == 1
    out, err = capsys.readouterr()
    assert out == f"tiny: {tmp_path / 'data' / TINY_PATH}\n"
    assert err.startswith("sivi: lost was not fetched: ")
    assert err.count("\n") == 1


def test_failures_are_one_sentence(served, capsys):
    assert data("fetch", "lost") == 2
    error = capsys.readouterr().err
    assert error.startswith("sivi: lost is not here: ")
    assert error.count("\n") == 1
    assert data("fetch", "nothing") == 2
    assert capsys.readouterr().err == "sivi: NAME must be one of lost, tiny or all; got 'nothing'.\n"
