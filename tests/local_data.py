"""Datasets and a web server of this machine, for tests of what is otherwise far away."""

import hashlib
import http.server
import threading
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from sivi.datasets import Description, _catalogue
from sivi.datasets._entry import Address, CatalogueEntry, DataFile, FileFormat
from sivi.datasets._published import last_rows
from sivi.datasets._tables import from_text

TINY = b"1 2 3\n4 5 6\n7 8 9\n10 11 12\n"
#: The path of the tiny dataset's file in a folder of data.
TINY_PATH = "tiny/tiny.data"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def tiny(*addresses: Address, content: bytes = TINY) -> CatalogueEntry:
    """A dataset of four rows, two inputs and one output."""
    about = Description("tiny", "Numbers", 4, 2, "sum", (), ("a", "b"), "none", "nobody", "nowhere", "free")
    return CatalogueEntry(
        about, (FileFormat((DataFile(TINY_PATH, sha256(content), addresses),), from_text),), partial(last_rows, 4, 1)
    )


def with_checksum(monkeypatch, name: str, *files: Path) -> None:
    """Let the origin's files of a dataset have the checksums of these."""
    entry = _catalogue.ENTRIES[name]
    file_format = entry.formats[-1]
    known = tuple(
        replace(file, sha256=sha256(path.read_bytes())) for file, path in zip(file_format.files, files, strict=True)
    )
    changed = replace(entry, formats=(*entry.formats[:-1], replace(file_format, files=known)))
    monkeypatch.setitem(_catalogue.ENTRIES, name, changed)


def assert_same_arrays(a, b) -> None:
    for one, other in ((a.inputs, b.inputs), (a.outputs, b.outputs), (a.test_masks, b.test_masks)):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    assert a.about == b.about


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with the server's contents; a path that ends in `?cut` breaks off half way."""

    def do_GET(self) -> None:
        path, _, how = self.path.lstrip("/").partition("?")
        self.server.asked.append(path)
        content = self.server.contents.get(path)
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if how == "cut" else content)

    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def serving(contents: Mapping[str, bytes]):
    """The address of a server of these contents, and the list of what it is asked for."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.contents, server.asked = contents, []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", server.asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
