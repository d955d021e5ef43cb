"""RMSE and negative log likelihood of many networks, each on a split of its own.

`sivi.metrics.regression_scores` takes one model; here one program takes a member after the other.
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._compiler import options_of_one_run
from .._programs import compiled
from ._bnn_target import FilledNetwork


def scores_of(
    targets: FilledNetwork,
    draws: Float[Array, "members draws dim"],
    x: Float[np.ndarray, "members n features"],
    y: Float[np.ndarray, "members n"],
    noise_precision: Float[np.ndarray, " members"],
) -> dict[str, Float[np.ndarray, " members"]]:
    """`rmse` and `nll` of every member, in the units of the targets.

        rmse   √((1/N) Σ_n (m_n − y_n)²),    m_n = (1/S) Σ_s f(x_n; w_s)
        nll    −(1/N) Σ_n log (1/S) Σ_s N(y_n; f(x_n; w_s), 1/γ)

    Args:
        targets: With a leading axis of members.
        draws: Of the weights.
        x: Held-out inputs, in the units of the dataset.
        y: Held-out targets.
        noise_precision: γ of the likelihood that is scored, in the units of the dataset.
    """
    mean, log_densities = _predicted(targets, draws, jnp.asarray(x, float), jnp.asarray(y, float), noise_precision)
    errors = np.asarray(mean, np.float64) - y
    return {
        "rmse": np.sqrt(np.mean(errors**2, axis=1)),
        "nll": -np.mean(np.asarray(log_densities, np.float64), axis=1),
    }


@functools.partial(compiled, options=options_of_one_run)
def _predicted(
    targets: FilledNetwork,
    draws: Float[Array, "members draws dim"],
    x: Float[Array, "members n features"],
    y: Float[Array, "members n"],
    noise_precision: Float[Array | np.ndarray, " members"],
) -> tuple[Float[Array, "members n"], Float[Array, "members n"]]:
    """Mean predictions and log densities of the rows."""
    arrays, static = eqx.partition(targets, eqx.is_array)

    def one(member: tuple[FilledNetwork, Array, Array, Array, Array]) -> tuple[Array, Array]:
        target, weights, x, y, precision = member
        model = eqx.combine(target, static).model
        with jax.default_matmul_precision("highest"):  # scores are compared in their third digit
            predictions = jax.vmap(lambda w: model.predict(model.point(w), x))(weights)
        precision = jnp.asarray(precision, predictions.dtype)
        terms = 0.5 * jnp.log(precision / (2.0 * jnp.pi)) - 0.5 * precision * (predictions - y) ** 2
        return jnp.mean(predictions, axis=0), jax.nn.logsumexp(terms, axis=0) - jnp.log(len(weights))

    return jax.lax.map(one, (arrays, draws, x, y, jnp.asarray(noise_precision, float)))
