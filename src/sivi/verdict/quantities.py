"""What is judged: the unknowns; of a target with symmetries what they predict, since its modes are without number."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._arguments import default_float
from .._programs import compiled
from ..samplers.run import free_names
from ..targets import Target
from ..targets.base import innermost
from ..targets.evaluate import log_probs_at, values_at
from ..targets.symmetric import symmetric_inside
from .frame import Frame, frame_of_predictions

#: Points of which predictions are computed at a time, at most: fewer than that are filled up, for one program.
_BLOCK = 2048


class Quantities(NamedTuple):
    """Real numbers that are judged, by name: the unknowns themselves, or predictions.

    Attributes:
        target: p.
        names: One for each quantity.
        kept: Which of the predictions they are; None for the unknowns.
    """

    target: Target
    names: tuple[str, ...]
    kept: Int[np.ndarray, " quantities"] | None = None

    @property
    def are_predictions(self) -> bool:
        return self.kept is not None

    @property
    def noun(self) -> str:
        """What they are called."""
        return "predictions" if self.are_predictions else "unknowns"

    def at(self, x: Float[np.ndarray, "*shape dim"]) -> Float[np.ndarray, "*shape quantities"]:
        """The quantities at points; refuses predictions that are no finite numbers."""
        if self.kept is None:
            return x
        values = _in_blocks(self.target, x.reshape(-1, x.shape[-1]))[:, self.kept]
        if not np.isfinite(values).all():
            row, column = (int(i[0]) for i in np.nonzero(~np.isfinite(values)))
            raise ValueError(
                f"target: predictions must be finite numbers wherever the density is not zero; {self.names[column]} is "
                f"{values[row, column]} at a draw, or where a chain went from it."
            )
        return values.reshape(*x.shape[:-1], len(self.names))

    def for_size(self, x: Float[np.ndarray, "chains draws dim"]) -> Float[np.ndarray, "chains draws columns"]:
        """What tells how many independent draws there are: the quantities, beside predictions also log p.

        Weights that hardly move may predict much the same, with log densities of their own.
        """
        if self.kept is None:
            return x
        flat = jnp.asarray(x.reshape(-1, x.shape[-1]), default_float())
        log_prob = np.asarray(_log_probs(self.target, flat)).reshape(*x.shape[:-1], 1)
        usable = np.where(np.isfinite(log_prob), log_prob, np.min(log_prob, where=np.isfinite(log_prob), initial=0.0))
        return np.concatenate([self.at(x), usable], axis=-1)

    def frame_of(self, x: Float[np.ndarray, "n dim"], size: float, frame: Frame) -> Frame:
        """Location, scale and axes of the quantities from draws that are worth `size`; of the unknowns, `frame`."""
        return frame if self.kept is None else frame_of_predictions(self.at(x), size)

    def varying(self, x: Float[np.ndarray, "n dim"]) -> "Quantities":
        """Those that are not the same number for all draws, as that of a network without biases at the origin is."""
        if self.kept is None:
            return self
        values = self.at(x)
        size = np.maximum(np.abs(values).max(0, initial=0.0), 1e-30)
        varies = np.flatnonzero(np.ptp(values, axis=0) > 1e-6 * size)
        return self._replace(names=tuple(self.names[i] for i in varies), kept=self.kept[varies])


def quantities_of(target: Target) -> Quantities:
    """The predictions of a target with symmetries, inside wrappers or not; the unknowns of any other."""
    inner = symmetric_inside(target)
    if inner is None:
        return Quantities(target, tuple(free_names(target.layout)))
    names = inner.prediction_names
    return Quantities(target, names, np.arange(len(names)))


def _in_blocks(target: Target, points: Float[np.ndarray, "n dim"]) -> Float[np.ndarray, "n quantities"]:
    if not len(points):
        inner = symmetric_inside(target)
        return np.zeros((0, 0 if inner is None else len(inner.prediction_names)), points.dtype)
    pieces = []
    for begin in range(0, len(points), _BLOCK):
        block = np.resize(points[begin : begin + _BLOCK], (_BLOCK, points.shape[1]))
        pieces.append(np.asarray(_predicted(target, jnp.asarray(block, default_float())))[: len(points) - begin])
    return np.concatenate(pieces)


@compiled
def _predicted(target: Target, points: Float[Array, "n dim"]) -> Float[Array, "n quantities"]:
    inner = symmetric_inside(target)
    assert inner is not None
    _, points = innermost(target, points)
    numbers = len(inner.prediction_names) * inner.numbers_per_row
    return values_at(inner.predictions, points, numbers)


_log_probs = compiled(log_probs_at)
