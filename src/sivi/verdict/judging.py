"""Chains from the same draws, judged in the quantities that count: unknowns, or predictions."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from .._fitting.remarks import listed
from . import limits
from .draws import Draws
from .drift import Drift
from .findings import Finding
from .frame import Frame
from .judge import judge, knows_axes, of_unknowns
from .quantities import Quantities
from .result import HEAVY_TAILS
from .sets import Judged


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

    def notes(self, drift: Drift) -> Iterator[str]:
        """What cannot be judged, or not in full."""
        names, noun = self.judged.names, self.judged.noun
        late = self.judged.at(drift.late)
        heavy = heavy_tails(np.concatenate([self.reference, late.reshape(-1, len(names))]))
        if heavy.any():
            yield HEAVY_TAILS.format(names=listed(name for name, i in zip(names, heavy, strict=True) if i))
        if not knows_axes(self.size, self.rank):
            yield f"directions: {self.size:,.0f} draws are few for {self.rank} {noun}"
        elif drift.memory >= limits.MAX_MEMORY_FOR_DIRECTIONS and len(names) > 1:
            yield f"directions: the chains remember where they started (memory {drift.memory:.2f})"
        if len(names) > limits.MAX_DIM_ALL_PAIRS:
            num_pairs = len(names) * (len(names) - 1) // 2
            yield (
                f"most pairs of {noun}: of {num_pairs:,}, up to {limits.MAX_PAIRS:,} are looked at, half of them those "
                "that are most correlated in the draws, half at random"
            )

    def _quantities(self, drift: Drift) -> Drift:
        return drift._replace(starts=self.judged.at(drift.starts), late=self.judged.at(drift.late))


def heavy_tails(points: Float[np.ndarray, "n dim"]) -> Bool[np.ndarray, " dim"]:
    """Unknowns whose variance is that of a few draws: quantiles are judged there, a standard deviation cannot be."""
    squares = (points - points.mean(0, dtype=float)) ** 2
    num = max(1, round(limits.RARE * len(points)))
    largest = np.partition(squares, len(points) - num, axis=0)[-num:]
    return largest.sum(0) > limits.MOST_OF_RARE * squares.sum(0)
