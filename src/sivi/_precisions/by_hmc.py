"""Precisions by a short joint run of Hamiltonian Monte Carlo, the noise precision then fitted to rows left aside."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._arguments import default_float
from .._programs import compiled
from ..samplers import hmc
from ..targets import BayesianNeuralNetwork
from .descent import descended
from .joint import JointPoint, JointPrecisions
from .refitted import refitted_noise_precision

#: Rows that the chains see, at most: enough for a few precisions, each of which is that of many weights.
MOST_ROWS = 2000
#: One row in so many is left aside for the noise precision; of fewer rows than that, none.
ROWS_PER_DEV_ROW = 10

_CHAINS, _WARMUP, _SAMPLES, _LEAPFROG = 4, 300, 200, 40
#: The noise precision under which the chains' starts are found: that of networks which explain nine tenths.
_STARTING_NOISE = 10.0
_STARTING_STEPS, _STARTING_RATE = 200, 0.02
#: From draws that have seen some of many rows to optima on all of them.
_MORE_STEPS, _MORE_RATE, _MORE_ROWS = 3000, 0.005, 200
_HOW = "a short joint HMC run"


class _Rows(NamedTuple):
    """Rows to learn from, and those left aside."""

    fit: Int[np.ndarray, " fit"]
    dev: Int[np.ndarray, " dev"]


def precisions_by_hmc(model: BayesianNeuralNetwork, key: PRNGKeyArray) -> BayesianNeuralNetwork:
    """The model with the precisions that it lacks, by weights and log precisions drawn together."""
    rows_key, start_key, chain_key, more_key = jax.random.split(key, 4)
    rows = _rows(rows_key, model.num_data, leave_aside="noise_precision" in model.left_out)
    joint = JointPrecisions.of(model.with_rows(rows.fit[:MOST_ROWS]))
    run = hmc(
        joint,
        key=chain_key,
        num_chains=_CHAINS,
        num_warmup=_WARMUP,
        num_samples=_SAMPLES,
        num_leapfrog=_LEAPFROG,
        init=_starts(start_key, joint),
        progress=False,
    )
    points = jax.vmap(joint.split)(jnp.asarray(run.flat(), default_float()))
    middle = JointPoint(*(jnp.median(part, axis=0) for part in points))
    weight_precision = joint.weight_precisions(middle.log_weight_precision)
    if not joint.num_noise_precisions:
        return model.completed(weight_precision, None, _HOW)
    noise_precision = jnp.exp(middle.log_noise_precision[0])
    weights = points.weights
    if len(rows.fit) > MOST_ROWS:
        all_rows = model.with_rows(rows.fit).completed(weight_precision, noise_precision)
        weights = _on_all_rows(more_key, all_rows, weights[_SAMPLES - 1 :: _SAMPLES])
    if len(rows.dev):
        noise_precision = refitted_noise_precision(model.with_rows(rows.dev), weights, noise_precision)
    return model.completed(weight_precision, noise_precision, _HOW)


def _rows(key: PRNGKeyArray, num_data: int, *, leave_aside: bool) -> _Rows:
    order = np.asarray(jax.random.permutation(key, num_data))
    num_dev = num_data // ROWS_PER_DEV_ROW if leave_aside else 0
    return _Rows(order[num_dev:], order[:num_dev][:MOST_ROWS])


@compiled
def _starts(key: PRNGKeyArray, joint: JointPrecisions) -> Float[Array, "chains dim"]:
    """Near optima of their own, under fixed precisions: an optimum over the precisions too would be a spike."""
    log_weight, log_noise = jnp.zeros(joint.num_weight_precisions), jnp.zeros(joint.num_noise_precisions)
    log_noise += jnp.log(_STARTING_NOISE)
    model = joint.at(log_weight, log_noise)

    def start(key: PRNGKeyArray) -> Array:
        weights = descended(model, model.random_start(key), key, num_steps=_STARTING_STEPS, rate=_STARTING_RATE)
        return jnp.concatenate([weights, log_weight, log_noise])

    return jax.vmap(start)(jax.random.split(key, _CHAINS))


@compiled
def _on_all_rows(
    key: PRNGKeyArray, model: BayesianNeuralNetwork, weights: Float[Array, "chains dim"]
) -> Float[Array, "chains dim"]:
    """Networks that have seen all rows, by minibatches: draws that have seen few predict worse than a fit will."""

    def more(key: PRNGKeyArray, start: Array) -> Array:
        return descended(model, start, key, num_steps=_MORE_STEPS, rate=_MORE_RATE, batch_size=_MORE_ROWS)

    return jax.vmap(more)(jax.random.split(key, len(weights)), weights)
