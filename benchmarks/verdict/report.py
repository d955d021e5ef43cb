"""The page of tables, from files of results."""

import json
import textwrap
from pathlib import Path
from typing import Any

from .faults import FAULTS
from .sets import SETS
from .table import lines, markdown

INTRODUCTION = """\
---
orphan: true
---

# Measurements of the verdict

What `sivi.check` says of draws that are known to be wrong, of exact draws, and of real fits. A planted fault is a
change of exact draws; its true effect is computed from large sets of draws with the statistics of the check, and it is
counted only where that exceeds a limit of "doubtful". Effects are in such limits. Intervals are those of Clopper and
Pearson, 95 %.
"""
TITLES = {
    ("planted", "first"): "Planted faults and exact draws: the first set",
    ("planted", "second"): "Planted faults and exact draws: the second set",
    ("fits", None): "Real fits of the battery",
    ("cost", None): "Cost",
    ("refine", None): "Refinement",
    ("infer", None): "sivi.infer on the hard part of the battery",
}


def write_page(paths: list[Path], page: Path) -> None:
    """The page, with a section for every file, in a fixed order."""
    contents = [(json.loads(path.read_text()), path.name) for path in paths]
    order = list(TITLES)
    contents.sort(key=lambda item: order.index((item[0]["mode"], item[0]["set"])))
    parts = [INTRODUCTION]
    for content, name in contents:
        parts += [f"## {TITLES[content['mode'], content['set']]}\n", _about(content, name) + "\n"]
        parts += ["\n".join(lines(content["mode"], content["rows"])) + "\n"]
    parts += ["## Faults and targets\n", *_what()]
    page.write_text("\n".join(parts).rstrip() + "\n")


def _about(content: dict[str, Any], name: str) -> str:
    machine, versions = content["machine"], content["versions"]
    packages = ", ".join(
        f"{part} {versions[part]}" for part in ("python", "jax", "numpy", "sivi") if versions.get(part)
    )
    seeds = f"{'Seeds' if content['mode'] == 'planted' else 'Keys'} {', '.join(map(str, content['seeds']))}."
    text = (
        f"{seeds} {machine['kind']}, {machine['processes_at_once']} processes at once with {machine['cores_each']} of "
        f"{machine['cores']} cores each. Versions: {packages}, commit {versions.get('commit')}. Results in "
        f"`benchmarks/results/{name}`, made by `python benchmarks/verdict`. {content.get('note') or ''}"
    )
    return textwrap.fill(text.strip(), 120, break_on_hyphens=False, break_long_words=False)


def _what() -> list[str]:
    found = [*markdown(["fault", ""], [[name, fault.about] for name, fault in FAULTS.items()]), ""]
    for name, known in SETS.items():
        rows = [[item.name, item.dim, item.about] for item in known.values()]
        found += [*markdown([f"{name} set", "unknowns", ""], rows), ""]
    return found
