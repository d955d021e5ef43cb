"""Likelihoods and predictions of held-out data under many draws, summed in blocks of draws and of data.

A block's sums are made where its terms are; only they come back, and are added up in float64. So memory, on the device
too, depends on neither the number of draws nor that of the data, other than for one number each.
"""

from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from .._arguments import default_float
from .._programs import compiled
from ..targets import BayesianModel
from ._held_out import HeldOut

_DRAWS = 1000  # at once, at most
_NUMBERS = 2**23  # at once, at most: of the draws, of the data, and of what is computed from both
_PER_OUTPUT = 3  # times as many as are predicted for it
_PER_TERM = 8  # numbers that the likelihood of one datum at one draw is taken to need on the way


class PredictiveSums(NamedTuple):
    """Sums over draws x_s and over data y_n.

    Attributes:
        log_means: log (1/S) Σ_s p(y_n | x_s), of every datum.
        log_products: Σ_n log p(y_n | x_s), of every draw.
        predictions: (1/S) Σ_s predict(x_s, inputs_n), of every datum, if asked for.
    """

    log_means: Float[np.ndarray, " num_data"]
    log_products: Float[np.ndarray, " draws"]
    predictions: Float[np.ndarray, "num_data *outputs"] | None


class _Block(NamedTuple):
    """Which draws or data are looked at together; a last block that is short is filled up with repeats."""

    indices: np.ndarray
    is_filling: np.ndarray
    part: slice

    @property
    def count(self) -> int:
        return self.part.stop - self.part.start


def predictive_sums(model: BayesianModel, held_out: HeldOut, outputs: tuple[int, ...] | None = None) -> PredictiveSums:
    """All sums in one pass.

    Args:
        model: The model.
        held_out: Draws and data.
        outputs: What `model.predict` returns for one datum has this shape; None leaves predictions out, and otherwise
            the model has predictions for rows of its data (`predict_rows`).
    """
    draws, num_draws, data, num_data = held_out
    dim = model.dim
    log_means, log_products = np.full(num_data, -np.inf), np.zeros(num_draws)
    predictions = None if outputs is None else np.zeros((num_data, *outputs))
    width = _predicted_size(model, held_out) if outputs is None else int(np.prod(outputs))
    draws_at_once, rows_at_once = block_sizes(num_draws, num_data, dim, _row_size(data), width)
    for some_draws in _blocks(num_draws, draws_at_once):
        points = _some(draws, some_draws.indices)
        for rows in _blocks(num_data, rows_at_once):
            block = _rows(data, rows.indices, model.data)
            per_row, per_draw, predicted = _sums(
                model, points, block, some_draws.is_filling, rows.is_filling, outputs is not None
            )
            products = np.asarray(per_draw, float)[: some_draws.count]
            undefined = np.isnan(products).sum()
            if undefined:
                raise ValueError(
                    f"model must have a log likelihood at every draw; at {undefined} or more draws it is not a number."
                )
            log_products[some_draws.part] += products
            log_means[rows.part] = np.logaddexp(log_means[rows.part], np.asarray(per_row, float)[: rows.count])
            if predictions is not None:
                predictions[rows.part] += np.asarray(predicted, float)[: rows.count]
    mean_predictions = None if predictions is None else predictions / num_draws
    return PredictiveSums(log_means - np.log(num_draws), log_products, mean_predictions)


def block_sizes(num_draws: int, num_data: int, dim: int, row_size: int, width: int) -> tuple[int, int]:
    """How many draws, and how many data, are looked at together; `width` numbers are predicted for each."""
    draws_at_once = max(1, min(num_draws, _DRAWS, _NUMBERS // dim))
    per_term = _PER_TERM + _PER_OUTPUT * width
    rows_at_once = max(1, min(num_data, _NUMBERS // max(1, row_size), _NUMBERS // (draws_at_once * per_term)))
    return draws_at_once, rows_at_once


def _blocks(total: int, size: int) -> Iterator[_Block]:
    """Blocks of one size, so that they are compiled once."""
    for start in range(0, total, size):
        indices = np.arange(start, start + size)
        yield _Block(np.minimum(indices, total - 1), indices >= total, slice(start, min(start + size, total)))


def _predicted_size(model: BayesianModel, held_out: HeldOut) -> int:
    """How many numbers the model predicts for one datum, which its likelihood may need on the way; 0 if unknown."""
    if type(model).predict is BayesianModel.predict:
        return 0
    like = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((1, *leaf.shape[1:]), default_float()), held_out.data)
    try:
        out = jax.eval_shape(model.predict_rows, held_out.one_point(), like)
    except Exception:  # a predict that wants other inputs; then nothing is known, and nothing is lost
        return 0
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(out))


def _some(draws: PyTree, indices: np.ndarray) -> PyTree:
    """Some of the draws, on the device."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf[indices], default_float()), draws)


def _row_size(data: PyTree) -> int:
    return sum(int(np.prod(leaf.shape[1:])) for leaf in jax.tree.leaves(data))


def _rows(data: PyTree, indices: np.ndarray, like: PyTree) -> PyTree:
    """Rows of the data on the device, in the model's types; data in the host's memory stay there otherwise."""
    return jax.tree.map(lambda leaf, of_model: jnp.asarray(leaf[indices], of_model.dtype), data, like)


@compiled
def _sums(
    model: BayesianModel,
    points: PyTree,
    data: PyTree,
    is_filling_draw: Bool[Array, " draws"],
    is_filling_row: Bool[Array, " rows"],
    predict: bool,
) -> tuple[Float[Array, " rows"], Float[Array, " draws"], Float[Array, "rows *outputs"] | None]:
    # A score is compared in its third digit or later, which an accelerator's fast products do not have.
    with jax.default_matmul_precision("highest"):
        terms = jax.vmap(model.log_likelihoods, (0, None))(points, data)
        predicted = jax.vmap(model.predict_rows, (0, None))(points, data) if predict else None
        predictions = None if predicted is None else jnp.tensordot(~is_filling_draw, predicted, 1)
    log_sums = jax.nn.logsumexp(jnp.where(is_filling_draw[:, None], -jnp.inf, terms), axis=0)
    products = jnp.sum(jnp.where(is_filling_row, 0.0, terms), axis=1)
    return log_sums, products, predictions
