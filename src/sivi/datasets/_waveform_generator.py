"""Waveforms from their definition: as many as one likes, in the form of the waveform data."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._arguments import as_key, check_count, default_float
from .._types import KeyLike

#: Where the three triangular base waves, of height 6 and half-width 6, have their peaks.
PEAKS = (11, 15, 7)
#: The two base waves of each class.
PAIRS = ((0, 1), (0, 2), (1, 2))
NUM_POINTS = 21


def base_waves() -> np.ndarray:
    """(3, 21): the waves at the points 1, …, 21."""
    points = np.arange(1, NUM_POINTS + 1)
    return np.stack([np.maximum(6.0 - np.abs(points - peak), 0.0) for peak in PEAKS])


def moments() -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (21,) of a feature over the three classes, which are equally frequent."""
    waves = base_waves()
    a, b = waves[[first for first, _ in PAIRS]], waves[[second for _, second in PAIRS]]
    # u is uniform: E[u] = 1/2, E[u²] = 1/3 and E[u(1 − u)] = 1/6; the noise adds 1.
    mean = ((a + b) / 2.0).mean(0)
    square = ((a**2 + a * b + b**2) / 3.0).mean(0) + 1.0
    return mean, np.sqrt(square - mean**2)


def waveform_generator(key: KeyLike, num_data: int) -> tuple[Float[Array, "num_data 22"], Int[Array, " num_data"]]:
    """Draw waveforms: x = u h_a + (1 − u) h_b + ε with u ~ Uniform(0, 1) and ε ~ N(0, I).

    The three classes are the pairs (h₁, h₂), (h₁, h₃) and (h₂, h₃) of triangular base waves, equally frequent. As in
    the waveform data, features are standardised (here by their exact moments), the first column is 1, and the label is
    0 for the second class and 1 for the others.

    Args:
        key: An int or a JAX key.
        num_data: How many.

    Returns:
        Inputs (num_data, 22) and labels (num_data,).

    Example:
        >>> inputs, labels = waveform_generator(0, 10)
        >>> inputs.shape, labels.shape
        ((10, 22), (10,))

    Reference:
        Breiman, Friedman, Olshen and Stone, Classification and regression trees (1984), section 2.6.
    """
    num_data, dtype = check_count("num_data", num_data), default_float()
    class_key, weight_key, noise_key = jax.random.split(as_key(key), 3)
    kind = jax.random.randint(class_key, (num_data,), 0, len(PAIRS))
    first, second = jnp.asarray(base_waves()[np.array(PAIRS).T], dtype)
    weight = jax.random.uniform(weight_key, (num_data, 1), dtype)
    noise = jax.random.normal(noise_key, (num_data, NUM_POINTS), dtype)
    waves = weight * first[kind] + (1.0 - weight) * second[kind] + noise
    mean, sd = (jnp.asarray(values, dtype) for values in moments())
    inputs = jnp.concatenate([jnp.ones((num_data, 1), dtype), (waves - mean) / sd], axis=1)
    return inputs, (kind != 1).astype(jnp.int32)
