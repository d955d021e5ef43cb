"""The code in the documents runs: every Python block of a page, in order, in one namespace."""

import re
from pathlib import Path

import pytest

import sivi

ROOT = Path(__file__).parents[1]
PAGES = [
    "README.md",
    *(
        f"docs/{name}.md"
        for name in ("data", "guide", "index", "method", "metrics", "samplers", "tutorial", "which_method")
    ),
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "objectives").glob("*.md")),
]
#: ```python blocks, and ```{run} blocks, which the build of the pages runs too, in full.
BLOCK = re.compile(r"^```(?:python|\{run\})\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.needs_data) if page == "docs/data.md" else page for page in PAGES],
)
def test_python_blocks_run(page, tmp_path, monkeypatch, as_a_user):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    blocks = BLOCK.findall((ROOT / page).read_text())
    fit = sivi.fit

    def short(*arguments, **settings):
        """The page's fits with a few updates each, in x itself: here only that they run is of interest."""
        settings = {"whiten": None} | settings
        steps = 10 if settings.get("num_steps") is None and "resume" not in settings else settings.get("num_steps")
        return fit(*arguments, **settings | {"num_steps": steps and min(steps, 50), "progress": False})

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sivi, "fit", short)
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), namespace)
    plt.close("all")
    assert blocks or page == "docs/index.md"


def test_every_page_with_code_is_listed():
    pages = [path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts]
    with_code = {str(path.relative_to(ROOT)) for path in pages if BLOCK.search(path.read_text())}
    assert with_code <= set(PAGES)


def test_links_between_documents_lead_somewhere():
    pages = [path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts]
    assert len(pages) > 10
    for path in [*ROOT.glob("*.md"), *pages]:
        for link in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", path.read_text()):
            assert (path.parent / link).exists(), f"{path.name}: {link}"
