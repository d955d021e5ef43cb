"""Precisions by Stein variational gradient descent of weights and log precisions together, in minibatches."""

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from .._arguments import default_float
from ..optimizers import AdaGrad
from ..samplers import svgd
from ..targets import BayesianNeuralNetwork
from .joint import JointPrecisions
from .shared import Middle, RowsAside, finished, starts

_PARTICLES, _STEPS, _ROWS, _RATE = 20, 2000, 100, 1e-3


def precisions_by_svgd(model: BayesianNeuralNetwork, key: PRNGKeyArray) -> BayesianNeuralNetwork:
    """The model with the precisions that it lacks, by a few particles, each of which has precisions of its own.

    All layers share one λ. A few particles in many dimensions are near optima, and the joint density has a spike where
    the weights are zero and λ is as large as its prior allows, to which longer runs go. So steps are as short and few
    as the method's authors have them, and log λ is at most 2 away from its start at 0, whatever the data say.
    """
    rows_key, start_key, run_key = jax.random.split(key, 3)
    rows = RowsAside.of(rows_key, model)
    joint = JointPrecisions.of(model.with_rows(rows.fit), by_layer=False)
    run = svgd(
        joint,
        key=run_key,
        num_particles=_PARTICLES,
        num_steps=_STEPS,
        optimizer=AdaGrad(_RATE),
        batch_size=min(_ROWS, len(rows.fit)),
        init=starts(start_key, joint, _PARTICLES),
        progress=False,
    )
    points = jax.vmap(joint.split)(jnp.asarray(run.flat(), default_float()))
    return finished(model, rows, Middle.of(joint, points), points.weights, "a short joint SVGD run")
