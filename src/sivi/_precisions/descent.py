"""Optima of a network's weights under given precisions, found roughly."""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from ..targets import BayesianNeuralNetwork


def descended(
    model: BayesianNeuralNetwork,
    start: Float[Array, " dim"],
    key: PRNGKeyArray,
    *,
    num_steps: int,
    rate: float,
    batch_size: int | None = None,
) -> Float[Array, " dim"]:
    """Where Adam is after some steps from a start, with a rate that falls to zero.

    Args:
        model: With both precisions.
        start: Weights.
        key: Of the minibatches.
        num_steps: How many.
        rate: The learning rate of the first step.
        batch_size: Rows of a step; None for all.
    """
    optimizer = optax.adam(optax.cosine_decay_schedule(rate, num_steps))

    def step(carry: tuple[Array, optax.OptState], index: Array) -> tuple[tuple[Array, optax.OptState], None]:
        weights, state = carry
        rows = None
        if batch_size is not None:
            rows = jax.random.randint(jax.random.fold_in(key, index), (batch_size,), 0, model.num_data)
        updates, state = optimizer.update(-model.score(weights, rows) / model.num_data, state)
        return (weights + updates, state), None  # pyright: ignore[reportOperatorIssue]

    (weights, _), _ = jax.lax.scan(step, (start, optimizer.init(start)), jnp.arange(num_steps))
    return weights
