"""The interface of targets that know their curvature in closed form."""

import abc

import equinox as eqx
from jaxtyping import Array, Float

from .base import Target


class KnowsCurvature(Target):
    """A target with a closed form for the curvature P, the mean over given points of −∇² log p on all data.

    In high dimension the warm-up rotates the coordinates along the axes of the arrays that x is made of. It takes the
    axes from this closed form. For other targets it measures them by differences of scores, with the noise of
    minibatches; see `sivi.warmup`.

    Each array is seen as a matrix: its columns run along one axis, its rows along all others.

    Attributes:
        shapes: The shapes of the arrays that x is made of, one after the other. Their sizes add up to `dim`.
    """

    shapes: eqx.AbstractVar[tuple[tuple[int, ...], ...]]

    @abc.abstractmethod
    def curvature_blocks(
        self, points: Float[Array, "draws dim"], array: int, axis: int, rotation: Float[Array, "rows rows"] | None
    ) -> Float[Array, "rows cols cols"]:
        """The blocks P_(ik)(il) of the curvature for every row i, with columns k and l.

        With a rotation t of the rows, the blocks are Σ_jh t_ji t_hi P_(jk)(hl) for every rotated row i.

        Args:
            points: Where the curvature is evaluated.
            array: Index of the array in `shapes`.
            axis: The axis of the columns.
            rotation: An orthogonal matrix with one column for every rotated row; None leaves the rows as they are.
        """

    @abc.abstractmethod
    def curvature_trace(self, points: Float[Array, "draws dim"], array: int, axis: int) -> Float[Array, "cols cols"]:
        """The sum over all rows of the blocks along an axis, often without making the blocks."""
