"""The posteriors of the battery; a new one is an entry of one of these files, and a line of `split.json`."""

from ..entry import Entry
from . import classes, components, counts, gaussians, hierarchies, latent, modes, regressions, series, shapes

_FILES = (regressions, classes, counts, latent, hierarchies, series, components, gaussians, modes, shapes)
POSTERIORS: dict[str, Entry] = {entry.name: entry for file in _FILES for entry in file.ENTRIES}

__all__ = ["POSTERIORS"]
