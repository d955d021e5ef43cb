"""The noise precision under which draws predict rows that they have not seen best."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._programs import compiled
from ..targets import BayesianNeuralNetwork

#: Candidates: so many, evenly spaced in log γ from this factor below that of the draws to this factor above.
_CANDIDATES, _BELOW, _ABOVE = 120, 100.0, 10.0
#: The prior standard deviation of log γ around that of the draws. It counts like 2 / 0.5² = 8 rows.
_SPREAD = 0.5
#: Draws of the mixture, at most.
_MOST_DRAWS = 100


@compiled
def refitted_noise_precision(
    model: BayesianNeuralNetwork, weights: Float[Array, "draws dim"], noise_precision: Float[Array, ""]
) -> Float[Array, ""]:
    """argmax over γ of Σ_n log (1/S) Σ_s p(y_n | w_s, γ), with log γ ~ N(log γ₀, ½²), on the rows of a model.

    Args:
        model: With the rows left aside, and without noise precision.
        weights: Draws from other rows.
        noise_precision: γ₀, the one of the draws.
    """
    some = weights[:: -(-len(weights) // _MOST_DRAWS)]
    outputs = jax.vmap(lambda w: model.outputs(model.point(w), model.data["x"]))(some)
    shifts = jnp.linspace(-jnp.log(_BELOW), jnp.log(_ABOVE), _CANDIDATES)

    def score(shift: Array) -> Array:
        precision = noise_precision * jnp.exp(shift)
        terms = jax.vmap(lambda one: model.likelihood.log_densities(one, model.data["y"], precision))(outputs)
        mixture = jax.nn.logsumexp(terms, axis=0) - jnp.log(len(some))
        return jnp.sum(mixture) - 0.5 * (shift / _SPREAD) ** 2

    return noise_precision * jnp.exp(shifts[jnp.argmax(jax.lax.map(score, shifts))])
