"""Rows for fitting and rows for testing, and units in which the former have mean 0 and standard deviation 1.

Rows are permuted with `numpy.random.RandomState`, whose streams are frozen: a seed names the same rows for ever. The
splits of Gal and Ghahramani are its permutations after seed 1.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Shaped

from .._arguments import check_finite, check_numbers
from .._scale import Scale

#: Inputs (num_data, features) and outputs (num_data,).
Pair: TypeAlias = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Split:
    """Rows for fitting and for testing, in the order of the dataset.

    Attributes:
        train: Inputs and outputs for fitting, in the structure of a model's `data`.
        test: Likewise, held out.
        input_scale: The units of the inputs, if `standardised` has changed them.
        output_scale: The units of the outputs, likewise.
    """

    train: Pair
    test: Pair
    input_scale: Scale | None = None
    output_scale: Scale | None = None

    @classmethod
    def of(
        cls,
        inputs: Float[np.ndarray, "num_data features"],
        outputs: Shaped[np.ndarray, " num_data"],
        test: Bool[np.ndarray, " num_data"],
    ) -> "Split":
        """Rows where `test` is true for testing, the others for fitting."""
        return cls(*((_take(inputs, rows), _take(outputs, rows)) for rows in (~test, test)))

    def standardised(self, *, outputs: bool = True) -> "Split":
        """In units in which the rows for fitting have mean 0 and standard deviation 1; those for testing follow.

        A column that is constant over the rows for fitting, such as an intercept, is left as it is. A prediction for
        the standardised outputs is one for the outputs themselves after `output_scale.undo`; an error is to be
        multiplied by `output_scale.sd`, and from a log density per row log `output_scale.sd` is to be taken away.

        Args:
            outputs: Whether to standardise the outputs too; False for labels.

        Example:
            >>> rows = np.arange(12.0).reshape(6, 2)
            >>> split = Split.of(rows, rows[:, 0], np.arange(6) >= 4).standardised()
            >>> split.train[0].mean(0), split.output_scale.undo(split.test[1])
            (array([0., 0.]), array([ 8., 10.]))
        """
        if self.input_scale is not None:
            raise ValueError("split is standardised already.")
        if outputs and not np.issubdtype(self.train[1].dtype, np.floating):
            raise ValueError("outputs must be False for a split with labels; got True.")
        scale = Scale.of(self.train[0])
        output_scale = Scale.of(self.train[1]) if outputs else None
        parts = (
            (scale.apply(x), y if output_scale is None else output_scale.apply(y)) for x, y in (self.train, self.test)
        )
        return Split(*parts, input_scale=scale, output_scale=output_scale)


def with_intercept(inputs: Float[np.ndarray, "num_data features"]) -> Float[np.ndarray, "num_data features_and_one"]:
    """Put a column of ones before the inputs.

    Example:
        >>> with_intercept(np.zeros((2, 3))).tolist()
        [[1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]]
    """
    array = check_numbers("inputs", inputs)
    if array.ndim != 2:
        raise ValueError(f"inputs must have shape (num_data, features); got {array.shape}.")
    check_finite("inputs", array)
    return np.concatenate([np.ones((len(array), 1), array.dtype), array], axis=1)


def _take(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Rows of an array; a view, and no copy, if they lie together."""
    where = np.flatnonzero(rows)
    if len(where) and where[-1] - where[0] + 1 == len(where):
        return values[where[0] : where[-1] + 1]
    return values[where]
