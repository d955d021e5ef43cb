"""The pages about models of other libraries: every Python block, in order, with short fits."""

import pytest

import sivi
from conftest import short_fit
from test_documents import BLOCK, BRIDGES, ROOT


@pytest.mark.parametrize("page", sorted(page for page in BRIDGES if (ROOT / page).exists()))
def test_python_blocks_run(page, tmp_path, monkeypatch, as_a_user):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sivi, "fit", short_fit(sivi.fit))
    blocks = BLOCK.findall((ROOT / page).read_text())
    assert blocks
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), namespace)
