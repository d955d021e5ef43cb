"""Precisions by a short joint run of Hamiltonian Monte Carlo, the noise precision then fitted to rows left aside."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._arguments import default_float
from .._programs import compiled
from ..samplers import hmc
from ..targets import BayesianNeuralNetwork
from .joint import JointPrecisions
from .refitted import refitted_noise_precision

#: Rows that the chains see, at most: enough for a few precisions, of which one sees all weights of a layer.
MOST_ROWS = 2000
#: One row in so many is left aside for the noise precision; of fewer rows than that, none.
ROWS_PER_DEV_ROW = 10
_CHAINS, _WARMUP, _SAMPLES, _LEAPFROG = 4, 150, 100, 40
_DESCENT_STEPS, _DESCENT_RATE, _DESCENT_NOISE = 200, 0.02, 10.0
_HOW = "a short joint HMC run"


class _Rows(NamedTuple):
    """Rows for the chains, and those left aside."""

    fit: Int[np.ndarray, " fit"]
    dev: Int[np.ndarray, " dev"]


def precisions_by_hmc(model: BayesianNeuralNetwork, key: PRNGKeyArray) -> BayesianNeuralNetwork:
    """The model with the precisions that it lacks, by weights and log precisions drawn together."""
    rows_key, start_key, chain_key = jax.random.split(key, 3)
    rows = _rows(rows_key, model.num_data, leave_aside="noise_precision" in model.left_out)
    joint = JointPrecisions.of(model.with_rows(rows.fit))
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
    draws = jnp.asarray(run.flat(), default_float())
    points = jax.vmap(joint.split)(draws)
    weight_precision = jnp.exp(jnp.median(points.log_weight_precision, axis=0))
    noise_precision = None
    if joint.num_noise_precisions:
        noise_precision = jnp.exp(jnp.median(points.log_noise_precision))
        if len(rows.dev):
            noise_precision = refitted_noise_precision(model.with_rows(rows.dev), points.weights, noise_precision)
    groups = jnp.broadcast_to(weight_precision, (model.network.num_groups,)) if joint.num_weight_precisions else None
    return model.completed(groups, noise_precision, _HOW)


def _rows(key: PRNGKeyArray, num_data: int, *, leave_aside: bool) -> _Rows:
    order = np.asarray(jax.random.permutation(key, num_data))
    num_dev = num_data // ROWS_PER_DEV_ROW if leave_aside else 0
    return _Rows(order[num_dev:][:MOST_ROWS], order[:num_dev][:MOST_ROWS])


@compiled
def _starts(key: PRNGKeyArray, joint: JointPrecisions) -> Float[Array, "chains dim"]:
    """Near optima of their own, under a moderate noise precision: an optimum over the precisions would be a spike."""
    model, num_layers, num_noise = joint.model, joint.num_weight_precisions, joint.num_noise_precisions
    at_start = joint.at(jnp.zeros(num_layers), jnp.full(num_noise, jnp.log(_DESCENT_NOISE)))
    optimizer = optax.adam(_DESCENT_RATE)

    def descended(key: PRNGKeyArray) -> Array:
        start = model.random_start(key)

        def step(carry: tuple[Array, optax.OptState], _: None) -> tuple[tuple[Array, optax.OptState], None]:
            weights, state = carry
            updates, state = optimizer.update(-at_start.score(weights) / model.num_data, state)
            return (weights + updates, state), None  # pyright: ignore[reportOperatorIssue]

        (weights, _), _ = jax.lax.scan(step, (start, optimizer.init(start)), None, _DESCENT_STEPS)
        return jnp.concatenate([weights, jnp.zeros(num_layers), jnp.full(num_noise, jnp.log(_DESCENT_NOISE))])

    return jax.vmap(descended)(jax.random.split(key, _CHAINS))
