"""All random numbers of a warm-up with a full covariance.

`fit` makes them by NumPy and gives them to the compiled program. A program that made them itself would compile for
half a second longer: XLA takes long over random numbers and QR factorisations.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .. import _host_random
from .._random import MAX_QR_DIM, BalancedNoise, orthogonal, side_by_side
from .attempts import MAX_TRIES
from .dense import num_pairs
from .mixture_moments import NUM_ELBO_PAIRS


class WarmupNumbers(eqx.Module):
    """Normal numbers, most of them balanced, see `sivi._random.BalancedNoise`: the first draw of every pair ±u.

    Attributes:
        starts: For several tries of every start.
        steps: For every step.
        weights: For the weights of the starts.
    """

    starts: Float[Array, "starts tries dim"]
    steps: Float[Array, "steps pairs dim"]
    weights: Float[Array, "elbo_pairs dim"]

    @staticmethod
    def from_keys(
        starts_key: PRNGKeyArray,
        steps_key: PRNGKeyArray,
        weights_key: PRNGKeyArray,
        num_starts: int,
        num_steps: int,
        dim: int,
    ) -> "WarmupNumbers":
        """By JAX, inside a program or outside."""
        noise_key, step_key = jax.random.split(steps_key)
        noise = BalancedNoise(noise_key, num_pairs(dim), dim)
        weights = BalancedNoise(weights_key, NUM_ELBO_PAIRS, dim, frames=noise.frames)
        step_keys = jax.vmap(lambda t: jax.random.fold_in(step_key, t))(jnp.arange(num_steps))
        points, steps, last = side_by_side(
            [starts_key, step_keys, jax.random.fold_in(weights_key, 1)],
            [(num_starts, MAX_TRIES, dim), noise.shape, weights.shape],
            jax.random.normal,
        )
        return WarmupNumbers(points, noise.half_from_normals(steps), weights.half_from_normals(last))

    @staticmethod
    def on_host(key: PRNGKeyArray, num_starts: int, num_steps: int, dim: int) -> "WarmupNumbers":
        """By NumPy: nothing is compiled."""
        frames = None
        if dim > MAX_QR_DIM:
            frames = orthogonal(_host_random.normals(_host_random.fold_in(key, 1), (2, dim, dim))[0], np)
        noise = BalancedNoise(key, num_pairs(dim), dim, frames=frames)
        weights = BalancedNoise(key, NUM_ELBO_PAIRS, dim, frames=frames)
        shapes = (num_starts, MAX_TRIES, dim), (num_steps, *noise.shape), weights.shape
        points, steps, last = _host_random.normals(key, *shapes)
        halves = noise.half_from_normals(steps, np), weights.half_from_normals(last, np)
        return WarmupNumbers(*map(jnp.asarray, (points, *halves)))
