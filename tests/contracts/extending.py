"""Does what docs/extending.md shows, for one pytest process: `pytest -p contracts.extending tests/contracts`.

A block says in its first line where it goes. A new file of the library becomes a module; lines of an `__init__.py` and
rows of `plugins.py` are run there.
"""

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "extending.md"
BLOCK = re.compile(r"^```python\n# (src|tests)/(\S+)\.py\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, str]]:
    """The module that every block belongs to, and its code, in the order of the page."""
    found = [(place.replace("/", "."), code) for _, place, code in BLOCK.findall(PAGE.read_text())]
    assert len(found) == PAGE.read_text().count("```python"), "every block says where it goes"
    return found


@pytest.hookimpl(trylast=True)
def pytest_sessionstart() -> None:
    """Before tests are collected, and after the run-time type checks have been set up."""
    for name, code in blocks():
        package = name.removesuffix(".__init__")
        if package != name or (ROOT / "tests" / f"{name.replace('.', '/')}.py").exists():
            namespace = vars(importlib.import_module(package))
        else:
            assert not (ROOT / "src" / f"{name.replace('.', '/')}.py").exists(), f"{name} is a file already"
            module = sys.modules[name] = ModuleType(name)
            module.__package__, module.__file__ = name.rpartition(".")[0], str(PAGE)
            namespace = vars(module)
        exec(compile(code, str(PAGE), "exec"), namespace)
