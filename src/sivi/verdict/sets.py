"""The points that are compared, draws and chains, and the effects of statistics on them."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from . import statistics as stats
from .effects import Effects, estimate


class Judged(NamedTuple):
    """One block of statistics with its effects, and the mean of every statistic over the draws."""

    block: stats.Block
    effects: Effects
    drawn: Float[np.ndarray, " statistics"]


class Sets(NamedTuple):
    """The points that are compared.

    Attributes:
        drawn: Draws of q.
        starts: Of the chains.
        late: Late snapshots of the chains.
        size: How many independent draws the first are worth.
        points: The unknowns of the draws and of the starts, which tell whether two are the same; z by default.
    """

    drawn: stats.Points
    starts: stats.Points
    late: Sequence[stats.Points]
    size: float
    points: tuple[Float[np.ndarray, "n unknowns"], Float[np.ndarray, "chains unknowns"]] | None = None

    def along(self, directions: stats.Directions, rows: slice) -> "Sets":
        """The same along directions, of some of the chains."""

        def of(points: stats.Points, rows: slice) -> stats.Points:
            return stats.Points(directions.along(points.z[rows]), points.log_prob[rows])

        everything, late = slice(None), [of(points, rows) for points in self.late]
        return self._replace(drawn=of(self.drawn, everything), starts=of(self.starts, rows), late=late)

    def without(self, num: int) -> "Sets":
        """The same, with draws that do not know the starts of the first chains; as it is if they never did.

        What was chosen by those chains fits their starts too, and a mean over draws that contain them is biased. Draws
        near them in a Markov chain are as bad: of draws that are not independent, the other chains' starts are left.
        """
        drawn_points, start_points = (self.drawn.z, self.starts.z) if self.points is None else self.points
        known = {row.tobytes() for row in start_points[:num]}
        fresh = np.array([row.tobytes() not in known for row in drawn_points])
        if fresh.all():
            return self
        if self.size >= len(fresh) and fresh.sum() >= len(self.starts.z) - num:
            return self._replace(drawn=stats.Points(*(part[fresh] for part in self.drawn)), size=float(fresh.sum()))
        drawn = stats.Points(*(part[num:] for part in self.starts))
        return self._replace(drawn=drawn, size=min(self.size, float(len(drawn.z))))

    def judged(self, blocks: Iterable[stats.Block]) -> list[Judged]:
        """Effects of all statistics."""
        return [self._judged(block) for block in blocks]

    def _judged(self, block: stats.Block) -> Judged:
        total = block.values(self.late[0])
        for points in self.late[1:]:
            total = total + block.values(points)
        values = block.values(self.drawn).mean(0, dtype=float) if block.mean is None else block.mean(self.drawn)
        return Judged(block, estimate(block.values(self.starts), total / len(self.late), values, self.size), values)
