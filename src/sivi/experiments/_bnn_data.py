"""Rows of the seven regressions, split as for the table, and linear regression, the yardstick of every split."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from .. import datasets

#: Twenty splits by number, and the one whose seed is 42.
SPLITS = (*range(20), 42)
_OWN_SEEDS = (42,)
_FIRST_SEED = 100

#: Rows left aside to choose settings: one in ten of those for fitting, at most so many.
_DEV_SHARE, _MOST_DEV = 0.1, 500


class Rows(NamedTuple):
    """Inputs and targets, in the units of the dataset."""

    x: Float[np.ndarray, "n features"]
    y: Float[np.ndarray, " n"]

    def __getitem__(self, rows: slice) -> "Rows":  # pyright: ignore[reportIncompatibleMethodOverride]
        return Rows(self.x[rows], self.y[rows])


class Parts(NamedTuple):
    """One split.

    Attributes:
        train: All rows for fitting.
        fit: Those without `dev`.
        dev: The last of `train`, for choosing settings.
        test: Held out.
    """

    train: Rows
    fit: Rows
    dev: Rows
    test: Rows


def test_rows(split: int, num_data: int) -> Int[np.ndarray, " test"]:
    """Which rows are held out, in the order in which the rule has them."""
    return _order(split, num_data)[: _num_test(num_data)]


def parts_of(name: str, split: int, most_rows: int | None = None) -> Parts:
    """A dataset's rows, split; the order of those for fitting is random, so that any stretch of them is a sample.

    Args:
        name: Of the dataset.
        split: Its number.
        most_rows: Rows for fitting and for testing, at most; None for all.
    """
    data = datasets.load(name)
    order, count = _order(split, len(data.inputs)), _num_test(len(data.inputs))
    rows = Rows(np.asarray(data.inputs, float)[order], np.asarray(data.outputs, float)[order])
    train, test = rows[slice(count, None)][slice(most_rows)], rows[slice(count)][slice(most_rows)]
    num_dev = min(round(_DEV_SHARE * len(train.y)), _MOST_DEV)
    return Parts(train, train[slice(-num_dev)], train[slice(len(train.y) - num_dev, None)], test)


def linear_scores(parts: Parts) -> dict[str, float]:
    """Test scores of least squares with an intercept; its noise is that of the rows for fitting."""
    coefficients, *_ = np.linalg.lstsq(_with_ones(parts.train.x), parts.train.y, rcond=None)
    variance = float(np.mean((parts.train.y - _with_ones(parts.train.x) @ coefficients) ** 2))
    errors = float(np.mean((parts.test.y - _with_ones(parts.test.x) @ coefficients) ** 2))
    nll = 0.5 * (math.log(2.0 * math.pi * variance) + errors / variance)
    return {"rmse": math.sqrt(errors), "nll": nll, "noise_sd": math.sqrt(variance)}


def _order(split: int, num_data: int) -> Int[np.ndarray, " num_data"]:
    seed = split if split in _OWN_SEEDS else _FIRST_SEED + split
    return np.random.RandomState(seed).permutation(num_data)


def _num_test(num_data: int) -> int:
    return -(-num_data // 10)


def _with_ones(x: Float[np.ndarray, "n features"]) -> Float[np.ndarray, "n features_and_one"]:
    return np.column_stack([np.ones(len(x)), x])
