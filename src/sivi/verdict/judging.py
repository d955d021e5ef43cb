"""Chains from the same draws, judged in the quantities that count: unknowns, or predictions."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from .draws import Draws
from .drift import Drift
from .findings import Finding
from .frame import Frame
from .judge import Judged, judge, of_unknowns
from .quantities import Quantities


class Judging(NamedTuple):
    """What every judgement of chains from these draws needs.

    Attributes:
        judged: The quantities.
        frame: Their location, scale and axes.
        reference: Them, of the draws.
        points: The draws, in x.
        log_prob: log p of the draws.
        size: How many independent ones they are worth.
        rng: For random directions and pairs.
    """

    judged: Quantities
    frame: Frame
    reference: Float[np.ndarray, "n quantities"]
    points: Float[np.ndarray, "n dim"]
    log_prob: Float[np.ndarray, " n"]
    size: float
    rng: np.random.Generator

    @staticmethod
    def of(
        judged: Quantities, draws: Draws, frame: Frame, log_prob: Float[np.ndarray, " n"], rng: np.random.Generator
    ) -> "Judging":
        """For draws of which log p is known, with `frame` as the coordinates of their unknowns."""
        of_quantities = judged.frame_of(draws.frame, draws.frame_size, frame)
        points = draws.reference
        return Judging(judged, of_quantities, judged.at(points), points, log_prob, draws.size, rng)

    @property
    def rank(self) -> int:
        """The number of directions in which the draws spread."""
        return len(self.judged.names) if self.frame.rank is None else self.frame.rank

    def __call__(self, drift: Drift) -> tuple[list[Finding], list[Judged]]:
        """All findings; and where there are none, what is known of single quantities."""
        found = self.findings(drift, np.ones(len(self.points), bool), self.size)
        return found, [] if found else of_unknowns(self._quantities(drift), self.frame, self.reference, self.size)

    def findings(self, drift: Drift, rows: Bool[np.ndarray, " n"], size: float) -> list[Finding]:
        """All findings of chains that start from some of the draws, which are worth `size`."""
        predicted_by = (self.points[rows], drift.starts) if self.judged.are_predictions else None
        moved, names = self._quantities(drift), self.judged.names
        return judge(moved, self.frame, self.reference[rows], self.log_prob[rows], size, names, self.rng, predicted_by)

    def _quantities(self, drift: Drift) -> Drift:
        return drift._replace(starts=self.judged.at(drift.starts), late=self.judged.at(drift.late))
