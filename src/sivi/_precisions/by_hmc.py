"""Precisions by a short joint run of Hamiltonian Monte Carlo, the noise precision then fitted to rows left aside."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._arguments import default_float
from .._programs import compiled
from ..samplers import hmc
from ..targets import BayesianNeuralNetwork
from .descent import descended
from .joint import JointPrecisions
from .shared import Middle, RowsAside, finished, starts

#: RowsAside that the chains see, at most: enough for a few precisions, each of which is that of many weights.
MOST_ROWS = 2000

_CHAINS, _WARMUP, _SAMPLES, _LEAPFROG = 4, 300, 200, 40
#: From draws that have seen some of many rows to optima on all of them.
_MORE_STEPS, _MORE_RATE, _MORE_ROWS = 3000, 0.005, 200


def precisions_by_hmc(model: BayesianNeuralNetwork, key: PRNGKeyArray) -> BayesianNeuralNetwork:
    """The model with the precisions that it lacks, by weights and log precisions drawn together."""
    rows_key, start_key, chain_key, more_key = jax.random.split(key, 4)
    rows = RowsAside.of(rows_key, model)
    joint = JointPrecisions.of(model.with_rows(rows.fit[:MOST_ROWS]))
    run = hmc(
        joint,
        key=chain_key,
        num_chains=_CHAINS,
        num_warmup=_WARMUP,
        num_samples=_SAMPLES,
        num_leapfrog=_LEAPFROG,
        init=starts(start_key, joint, _CHAINS),
        progress=False,
    )
    points = jax.vmap(joint.split)(jnp.asarray(run.flat(), default_float()))
    middle, weights = Middle.of(joint, points), points.weights
    if joint.num_noise_precisions and len(rows.fit) > MOST_ROWS:
        all_rows = model.with_rows(rows.fit).completed(*middle)
        weights = _on_all_rows(more_key, all_rows, weights[_SAMPLES - 1 :: _SAMPLES])
    return finished(model, rows, middle, weights, "a short joint HMC run")


@compiled
def _on_all_rows(
    key: PRNGKeyArray, model: BayesianNeuralNetwork, weights: Float[Array, "chains dim"]
) -> Float[Array, "chains dim"]:
    """Networks that have seen all rows, by minibatches: draws that have seen few predict worse than a fit will."""

    def more(key: PRNGKeyArray, start: Array) -> Array:
        return descended(model, start, key, num_steps=_MORE_STEPS, rate=_MORE_RATE, batch_size=_MORE_ROWS)

    return jax.vmap(more)(jax.random.split(key, len(weights)), weights)
