"""What the methods share: rows left aside, starts near optima, and from draws of all unknowns to the finished model."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._programs import compiled
from ..targets import BayesianNeuralNetwork
from .descent import descended
from .joint import JointPoint, JointPrecisions
from .refitted import refitted_noise_precision

#: RowsAside for the noise precision are one in so many; of fewer rows than that, none.
ROWS_PER_DEV_ROW = 10
#: Of those, at most.
MOST_DEV_ROWS = 2000

#: The noise precision under which starts are found: that of networks which explain nine tenths.
_STARTING_NOISE = 10.0
_STARTING_STEPS, _STARTING_RATE = 200, 0.02


class RowsAside(NamedTuple):
    """Rows to learn from, and those left aside for the noise precision."""

    fit: Int[np.ndarray, " fit"]
    dev: Int[np.ndarray, " dev"]

    @classmethod
    def of(cls, key: PRNGKeyArray, model: BayesianNeuralNetwork) -> "RowsAside":
        """A tenth of the rows at random is left aside, if the noise precision is asked for."""
        order = np.asarray(jax.random.permutation(key, model.num_data))
        num_dev = model.num_data // ROWS_PER_DEV_ROW if "noise_precision" in model.left_out else 0
        return cls(order[num_dev:], order[:num_dev][:MOST_DEV_ROWS])


@compiled
def starts(key: PRNGKeyArray, joint: JointPrecisions, num: int) -> Float[Array, "num dim"]:
    """Near optima of their own, under fixed precisions: an optimum over the precisions too would be a spike."""
    log_weight, log_noise = jnp.zeros(joint.num_weight_precisions), jnp.zeros(joint.num_noise_precisions)
    log_noise += jnp.log(_STARTING_NOISE)
    model = joint.at(log_weight, log_noise)

    def start(key: PRNGKeyArray) -> Array:
        weights = descended(model, model.random_start(key), key, num_steps=_STARTING_STEPS, rate=_STARTING_RATE)
        return jnp.concatenate([weights, log_weight, log_noise])

    return jax.vmap(start)(jax.random.split(key, num))


class Middle(NamedTuple):
    """Medians of draws: λ of each group of weights, None if it was given; γ, likewise."""

    weight_precision: Float[Array, " groups"] | None
    noise_precision: Float[Array, ""] | None

    @classmethod
    def of(cls, joint: JointPrecisions, points: JointPoint) -> "Middle":
        middle = JointPoint(*(jnp.median(part, axis=0) for part in points))
        noise = jnp.exp(middle.log_noise_precision[0]) if joint.num_noise_precisions else None
        return cls(joint.weight_precisions(middle.log_weight_precision), noise)


def finished(
    model: BayesianNeuralNetwork, rows: RowsAside, middle: Middle, weights: Float[Array, "draws dim"], how: str
) -> BayesianNeuralNetwork:
    """The model with the medians, the noise precision fitted to the rows that were left aside, if there are some."""
    noise = middle.noise_precision
    if noise is not None and len(rows.dev):
        noise = refitted_noise_precision(model.with_rows(rows.dev), weights, noise)
    return model.completed(middle.weight_precision, noise, how)
