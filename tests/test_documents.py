"""The code in the documents runs: every Python block of a page, in order, in one namespace."""

import os
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import sivi
from conftest import short_fit

ROOT = Path(__file__).parents[1]
#: Samples of plug-ins, run as parts of the library: see tests/contracts/extending.py.
SAMPLES = ROOT / "docs" / "extending.md"
#: ```python blocks, and ```{run} blocks, which the build of the pages runs too, in full.
BLOCK = re.compile(r"^```(?:python|\{run\})\n(.*?)^```", re.MULTILINE | re.DOTALL)
#: Any block of code.
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
DOCS = sorted(path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts)
PAGES = [path for path in (ROOT / "README.md", *DOCS) if path != SAMPLES]
#: Pages about models of other libraries, run by tests/bridges/test_pages.py.
BRIDGES = {"docs/guide/numpyro.md", "docs/guide/pymc.md"}
WITH_CODE = sorted({str(path.relative_to(ROOT)) for path in PAGES if BLOCK.search(path.read_text())} - BRIDGES)
NEEDING_DATA = {"docs/data.md"}
#: Pages whose fits are not among the slow tests.
QUICK_PAGES = {f"docs/{name}.md" for name in ("index", "data", "high_dimensions", "objectives/index")}
SLOW_SAMPLES = ("ConditionalELBO", "Logistic", "mala", "sum_to_zero")


def marked(page):
    """Pages with many fits run with the slow tests; `make docs` runs the tutorial in full."""
    marks = [pytest.mark.needs_data] if page in NEEDING_DATA else []
    marks += [] if page in QUICK_PAGES else [pytest.mark.slow]
    return pytest.param(page, marks=marks)


@pytest.mark.parametrize("page", [marked(page) for page in WITH_CODE])
def test_python_blocks_run(page, tmp_path, monkeypatch, as_a_user):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    blocks = BLOCK.findall((ROOT / page).read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sivi, "fit", short_fit(sivi.fit, default_objective=page == "docs/tutorial.md"))
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), namespace)
    plt.close("all")
    assert namespace


def test_pages_with_code_are_found():
    assert {"README.md", "docs/tutorial.md", *NEEDING_DATA} <= set(WITH_CODE)


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in ("Funnel", *SLOW_SAMPLES)])
def test_samples_of_plug_ins_pass_the_contracts(name):
    """The page's sample as one file, one re-export and one row, in a process of its own, in float32."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "contracts.extending"]
    chosen = f"{name} and not x64 and not Regression"
    path = os.pathsep.join([str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [*command, "tests/contracts", "-k", chosen],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]  # 5 if the sample has no row


def prose(path):
    """A page without its blocks of code, in which `#` begins a comment."""
    return FENCED.sub("", path.read_text())


@cache
def anchors(path):
    """The anchors of a page's headings, as GitHub and MyST make them; docs/conf.py has the depth of MyST's, 3."""
    seen, found = Counter(), set()
    for title in re.findall(r"^#{1,3} +(.+?)(?: +#+)?$", prose(path), re.MULTILINE):
        text = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", title)  # what is shown of a link
        slug = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def test_anchors_are_those_of_the_headings(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# What `fit` does\n\n## A [link](x.md): Yes?\n\n```python\n# a comment\n```\n\n"
        "### `noise_floor`\n\n### Well-known (SIVI-SM)\n\n## Twice\n\n## Twice\n\n#### Too deep\n"
    )
    assert anchors(page) == {"what-fit-does", "a-link-yes", "noise_floor", "well-known-sivi-sm", "twice", "twice-1"}


def test_links_between_documents_lead_somewhere():
    """To a file and, in a page, to a heading; `[text](#heading)` is a link within the page."""
    assert len(DOCS) > 10
    broken, num_anchors = [], 0
    for path in [*ROOT.glob("*.md"), *DOCS]:
        for link, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", prose(path)):
            page = path.parent / link if link else path
            leads = page.exists() and (not anchor or (page.suffix == ".md" and anchor in anchors(page.resolve())))
            broken += [] if leads else [f"{path.relative_to(ROOT)}: {link}{'#' * bool(anchor)}{anchor}"]
            num_anchors += bool(anchor)
    assert not broken, "\n".join(broken)
    assert num_anchors > 50
