"""The density of fitted families, in the coordinates of the target."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ._programs import compiled
from ._repeats import across_repeats, repeat_keys
from .coordinates import CoordinateMap
from .families import Family
from .targets.evaluate import block_of


@compiled
def log_density(
    families: Family,
    affines: CoordinateMap,
    key: PRNGKeyArray,
    points: Float[Array, "n dim"],
    num_aux: int,
    repeats: int,
) -> tuple[Array, Array]:
    """Estimates of log q at many points, for the equal mixture of all repeats, and their standard errors."""

    def member(family: Family, affine: CoordinateMap, key: PRNGKeyArray) -> tuple[Array, Array]:
        def one(x: Float[Array, " dim"]) -> tuple[Array, Array]:
            u = affine.inverse(x)
            value, error = family.log_prob(key, u, num_aux)
            return value - affine.log_det_at(u), error

        return jax.lax.map(one, points, batch_size=min(256, block_of(affine.numbers_per_point)))

    values, errors = across_repeats(member, repeats, families, affines, repeat_keys(key, repeats))
    # The logarithm of the mean over repeats; their errors are independent, and weigh as the repeats do.
    shares = jax.nn.softmax(values, axis=0)
    value = jax.nn.logsumexp(values, axis=0) - jnp.log(repeats)
    return value, jnp.sqrt(jnp.sum((shares * errors) ** 2, axis=0))
