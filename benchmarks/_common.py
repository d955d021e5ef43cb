"""Where and how the benchmarks write their numbers."""

import json
from pathlib import Path

from sivi.experiments.runner import environment

__all__ = ["RESULTS", "environment", "write"]

RESULTS = Path(__file__).parent / "results"


def write(path: Path, content: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")
