"""Sphinx settings. Built with warnings as errors: `make docs`."""

import re
import sys
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "sivi"
author = "The sivi developers"
release = version = installed_version("sivi")

extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "myst_parser", "run_blocks", "mathml"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"sivi {release}"
html_math_renderer = "mathml"  # docs/_ext/mathml.py: no script, no network
html_static_path = ["_static"]
html_css_files = ["formulas.css"]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

suppress_warnings = ["ref.python"]  # fields of several classes share a name; nothing here refers to them by it
autodoc_typehints = "none"  # the docstrings say what the arguments are
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_attr_annotations = False


def _as_rst(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings write code in single backticks, and q(x|z) and (*shape, n) as they are, which would be misread."""
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            pieces = re.split("`([^`]+)`", line)  # every second piece is code
            lines[i] = "".join(f"``{p}``" if j % 2 else _escaped(p) for j, p in enumerate(pieces))


def _escaped(text: str) -> str:
    return re.sub(r"(?<=[(\s])\*(?=\w+[,)])", r"\\*", text.replace("|", r"\|"))


def _skip_fields_of_tuples(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """The fields of a named tuple are in its docstring; Python describes them as "Alias for field number 0"."""
    return True if type(member).__name__ == "_tuplegetter" else None


def setup(app: Any) -> None:
    """Connect the docstring filter, to run before napoleon's."""
    app.connect("autodoc-process-docstring", _as_rst, priority=400)
    app.connect("autodoc-skip-member", _skip_fields_of_tuples)
