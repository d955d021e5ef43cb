"""Downloads, from a server on this machine."""

import contextlib
import io
import os
import threading
import time
import tracemalloc
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from local_data import TINY, TINY_PATH, serving, tiny
from sivi import datasets
from sivi._storage import atomic
from sivi.datasets import _catalogue, _download
from sivi.datasets._archive import read_member
from sivi.datasets._entry import Address


def zipped(**files):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "/"), content)
    return stream.getvalue()


CONTENTS = {
    "whole": TINY,
    "other": TINY + b"1 2 3\n",
    "zip": zipped(folder__numbers=TINY, readme=b"read"),
    "empty-zip": zipped(readme=b"read"),
    "two-zip": zipped(a__numbers=TINY, b__numbers=TINY),
}


@pytest.fixture(scope="module")
def server():
    with serving(CONTENTS) as (url, asked):
        yield url, asked


@pytest.fixture
def at(server, monkeypatch):
    """Puts the tiny dataset's file at addresses of the server."""
    server[1].clear()

    def put(*paths):
        addresses = [Address(f"{server[0]}/{path}", "numbers" if "zip" in path else None) for path in paths]
        monkeypatch.setattr(_catalogue, "ENTRIES", {"tiny": tiny(*addresses)})
        return server[1]

    return put


@pytest.mark.parametrize("path", ["whole", "zip"])
def test_load_downloads_once(at, data_cache, path, capfd):
    asked = at(path)
    for _ in range(2):
        np.testing.assert_array_equal(datasets.load("tiny").outputs, [3.0, 6.0, 9.0, 12.0])
    assert asked == [path]
    assert (data_cache / TINY_PATH).read_bytes() == TINY
    assert os.listdir(data_cache / "tiny") == ["tiny.data"]
    assert capfd.readouterr() == ("", "")  # no terminal, no bar


def test_without_leave_nothing_is_asked(at, data_cache):
    asked = at("whole")
    with pytest.raises(datasets.DatasetError, match="was not to be downloaded"):
        datasets.load("tiny", download=False)
    assert asked == []


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("none", r"/none answered 404 Not Found\)"),
        ("other", r"/other gave 33 bytes with the SHA-256 \w{64} instead of \w{64}\)"),
        ("whole?cut", r"/whole\?cut (broke off|could not be reached|gave 13 bytes with the SHA-256 .*)\)"),
        ("zip?cut", r"/zip\?cut (broke off|could not be reached|must be a ZIP archive with numbers, and is not: .*)\)"),
        ("empty-zip", r"/empty-zip must have one file numbers, and has 0\)"),
        ("two-zip", r"/two-zip must have one file numbers, and has 2\)"),
    ],
)
def test_what_is_not_the_file_leaves_nothing(at, data_cache, path, reason):
    at(path)
    with pytest.raises(
        datasets.DatasetError, match=rf"^tiny is not here: .* could not be downloaded \(http:.*{reason}; "
    ):
        datasets.load("tiny")
    assert not data_cache.exists()


def test_no_network(at, data_cache, monkeypatch):
    """Addresses beyond this machine lead to a proxy that is not there."""
    address = Address("https://archive.ics.uci.edu/tiny.data")
    monkeypatch.setattr(_catalogue, "ENTRIES", {"tiny": tiny(address)})
    with pytest.raises(datasets.DatasetError, match=r"\(https://archive.ics.uci.edu/tiny.data could not be reached\)"):
        datasets.load("tiny")


def test_the_next_address_is_tried(at, data_cache):
    asked = at("none", "other", "zip", "whole")
    datasets.load("tiny")
    assert asked == ["none", "other", "zip"]


def test_a_damaged_file_of_the_cache_is_replaced(at, data_cache):
    asked = at("whole")
    datasets.load("tiny")
    (data_cache / TINY_PATH).write_bytes(TINY[:-1])
    assert datasets.fetch("tiny") == datasets.Location("cache", (data_cache / TINY_PATH,))
    assert (data_cache / TINY_PATH).read_bytes() == TINY
    assert len(asked) == 2


def test_into_a_folder(at, data_cache, monkeypatch, tmp_path):
    asked = at("whole")
    folder = tmp_path / "new" / "folder"
    for _ in range(2):
        assert datasets.fetch("tiny", folder) == datasets.Location("folder", (folder / TINY_PATH,))
    assert len(asked) == 1
    (folder / TINY_PATH).write_bytes(b"")
    datasets.fetch("tiny", folder)
    assert len(asked) == 2
    assert not data_cache.exists()
    monkeypatch.setenv("SIVI_DATA_DIR", str(folder))
    assert datasets.find("tiny").place == "data folder"
    datasets.load("tiny", download=False)


def test_into_a_folder_that_fails(at, tmp_path):
    at("none")
    rule = r"^tiny was not fetched: tiny/tiny.data could not be downloaded \(http.*404 Not Found\)\.$"
    with pytest.raises(datasets.DatasetError, match=rule):
        datasets.fetch("tiny", tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


def test_a_folder_that_cannot_be_written(at, data_cache):
    at("whole")
    data_cache.write_text("a file")
    with pytest.raises(datasets.DatasetError, match=r"^'.*/cache/tiny' must be a folder that can be written to; "):
        datasets.load("tiny")


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_no_part(at, data_cache, monkeypatch, error):
    at("whole")

    def fails(descriptor):
        raise error

    monkeypatch.setattr(atomic.os, "fsync", fails)
    with pytest.raises((datasets.DatasetError, KeyboardInterrupt)):
        datasets.load("tiny")
    assert os.listdir(data_cache / "tiny") == []


def test_bar_on_a_terminal_only_and_on_standard_error(at, data_cache, capfd, monkeypatch):
    at("whole")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    datasets.fetch("tiny")
    out, err = capfd.readouterr()
    assert out == ""
    assert "tiny.data" in err
    (data_cache / TINY_PATH).unlink()
    datasets.fetch("tiny", progress=False)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("path", ["whole", "zip"])
def test_more_bytes_than_any_file_has(at, data_cache, monkeypatch, path):
    at(path)
    monkeypatch.setattr(_download, "MOST_BYTES", len(TINY) - 1)
    with pytest.raises(datasets.DatasetError, match="the most that is taken"):
        datasets.load("tiny")
    assert not data_cache.exists()


def test_a_small_archive_of_a_large_file():
    bomb = zipped(numbers=bytes(50_000_000))
    assert len(bomb) < 100_000
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="holds more than 1,000,000 bytes of numbers"):
            read_member(bomb, "numbers", 1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


class Trickle(BaseHTTPRequestHandler):
    """Sends a byte every few milliseconds, for ever, and says nothing of the length."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        with contextlib.suppress(OSError):
            while True:
                self.wfile.write(b"x")
                self.wfile.flush()
                time.sleep(0.005)

    def log_message(self, *_):
        """Nothing is printed."""


def test_a_server_that_sends_byte_by_byte(data_cache, monkeypatch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Trickle)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = Address(f"http://127.0.0.1:{server.server_port}/slow")
    monkeypatch.setattr(_catalogue, "ENTRIES", {"tiny": tiny(address)})
    monkeypatch.setattr(_download, "_FIRST_SECONDS", 0.2)
    begin = time.monotonic()
    try:
        with pytest.raises(datasets.DatasetError, match=r"sent \d+ bytes in 0 seconds, which is too slow"):
            datasets.load("tiny")
        assert time.monotonic() - begin < 5.0
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("~no-such-user/data", "SIVI_DATA_DIR must name a folder; got '~no-such-user/data', of a user without a home"),
        ("/" + 5000 * "a", "must be a folder that can be read; File name too long"),
    ],
)
def test_a_data_folder_that_cannot_be_looked_into(monkeypatch, at, data_cache, folder, message):
    at("whole")
    monkeypatch.setenv("SIVI_DATA_DIR", folder)
    for call in (datasets.find, datasets.load):
        with pytest.raises(datasets.DatasetError, match=message):
            call("tiny")


def test_a_locked_data_folder(monkeypatch, at, data_cache, tmp_path):
    def locked(path, **_):
        raise PermissionError(13, "Permission denied", str(path))

    at("whole")
    monkeypatch.setenv("SIVI_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(Path, "is_file", locked)
    with pytest.raises(datasets.DatasetError, match="must be a folder that can be read; Permission denied"):
        datasets.find("tiny")


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("name", [None, ["waveform"], 5, "Waveform"])
def test_a_name_that_is_none(name):
    with pytest.raises(ValueError, match="name must be one of 'waveform'"):
        datasets.describe(name)
