"""The pages about models of other libraries, and the README's example: every block, in order, with short fits."""

import re

import jax
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


def test_example_of_the_readme_runs(monkeypatch, as_a_user):
    monkeypatch.setattr(sivi, "fit", short_fit(sivi.fit))
    # It is marked `py`, since the packages it needs are not there when the other blocks are run.
    (block,) = re.findall(r"^```py\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(block.strip().splitlines()) <= 12
    namespace: dict[str, object] = {"sivi": sivi, "jnp": jax.numpy}
    exec(compile(block, "README.md", "exec"), namespace)
    assert set(namespace["draws"]) == {"slope", "sigma"}
