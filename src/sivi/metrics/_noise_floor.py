"""What a distance says of two sets of draws from the same distribution."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from .._arguments import as_key, check_count, check_function, check_number, describe, output_of
from .._programs import compiled
from .._renamed import NUM_DRAWS, old_arguments
from .._types import KeyLike
from ..targets import ExactTarget, Target


@old_arguments("sivi.metrics.noise_floor", NUM_DRAWS)
def noise_floor(
    distance: Callable[..., Any],
    sample: Target | Callable[[Array], Array],
    *,
    num_samples: int | tuple[int, int],
    repeats: int = 20,
    key: KeyLike = 0,
    **settings: Any,
) -> Float[np.ndarray, " repeats"]:
    """A two-sample distance between two exact sets of draws, repeated: its noise.

    A fit whose distance lies within the scatter of these values cannot be distinguished from the target with this many
    draws. Use the same number of draws and settings as in the comparison.

    Args:
        distance: Takes two sets of draws, (n, dim) and (m, dim), and returns a number: `knn_kl`, `mmd`, your own.
        sample: A target with exact draws, or a JAX function from a key to ONE exact draw (dim,).
        num_samples: Size of both sets, or a pair of sizes (n, m).
        repeats: How many independent pairs of sets.
        key: An int or a JAX key.
        settings: Keyword arguments for the distance. One that is called `key` has to be bound beforehand, with
            `functools.partial`.

    Returns:
        One value per repeat: take their mean, standard deviation or quantiles. The relative noise of that standard
        deviation is about 1/√(2 repeats).

    Example:
        >>> from sivi.metrics import knn_kl
        >>> from sivi.targets import Banana
        >>> floor = noise_floor(knn_kl, Banana(), num_samples=1000, repeats=10, k=3)
        >>> floor.shape, bool(abs(floor.mean()) < 0.1), bool(0.02 < floor.std() < 0.2)
        ((10,), True, True)
    """
    sizes = num_samples if isinstance(num_samples, tuple) else (num_samples, num_samples)
    if len(sizes) != 2:
        raise ValueError(f"num_samples must be a number or a pair of them; got {describe(num_samples)}.")
    first, second = (check_count("num_samples", size) for size in sizes)
    keys = jax.random.split(as_key(key), check_count("repeats", repeats))
    check_function("distance", distance, "a function of two sets of draws")
    one = _sampler(sample)

    def value(key: Array) -> float:
        draws = np.asarray(_draw(one, key, first + second))
        if draws.ndim != 2:
            raise ValueError(f"sample must return one draw of shape (dim,); got shape {draws.shape[1:]}.")
        return check_number("what distance returns", distance(draws[:first], draws[first:], **settings))

    return np.array([value(key) for key in keys])


@compiled
def _draw(sample: Callable[[Array], Array], key: Array, num_samples: int) -> Array:
    return jax.vmap(sample)(jax.random.split(key, num_samples))


def _sampler(sample: Target | Callable[[Array], Array]) -> Callable[[Array], Array]:
    if isinstance(sample, ExactTarget):
        return sample.sample
    if isinstance(sample, Target) or not callable(sample):
        raise TypeError(
            "sample must be a target that can be sampled exactly, or a function from a key to one draw; "
            f"got {describe(sample)}."
        )
    out = output_of("sample", sample, "a key", jax.eval_shape(lambda: jax.random.key(0)))
    shape = getattr(out, "shape", None)
    if shape is None or len(shape) != 1:
        got = describe(out) if shape is None else f"shape {shape}"
        raise ValueError(f"sample must return one draw of shape (dim,); got {got}.")
    return sample
