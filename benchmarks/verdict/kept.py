"""Fits on disk: without what going on with them would need, so that several hundred are small."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import sivi
from sivi.posterior import Unattached
from sivi.targets.fingerprint import fingerprint_of

Row = dict[str, Any]
_NAMES = ("posterior", "method", "length", "defect", "key")


def path_of(folder: str, job: Row) -> Path:
    return Path(folder) / ("_".join(str(job[name]) for name in _NAMES if job.get(name) is not None) + ".sivi")


def keep(path: Path, posterior: sivi.Posterior, facts: Row) -> None:
    """The fit, and beside it what is known of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    bare = Unattached((), fingerprint_of(posterior.target), None)
    replace(posterior, history={}, unattached=bare).save(path)
    path.with_suffix(".json").write_text(json.dumps(facts))


def kept(path: Path) -> tuple[sivi.Posterior, Row]:
    """A fit without its target, and what is known of it."""
    return sivi.load(path), json.loads(path.with_suffix(".json").read_text())
