"""How far a run is: a bar on a terminal or in a notebook, lines of the logger `sivi` elsewhere, or nothing."""

from .bar import ProgressBar as ProgressBar
