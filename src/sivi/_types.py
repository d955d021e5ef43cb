"""Types and conversions shared by every layer."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PRNGKeyArray

KeyLike: TypeAlias = int | np.integer | PRNGKeyArray | Array
Activation: TypeAlias = Callable[[Array], Array]
Scalar: TypeAlias = Float[Array, ""]
#: Anything that NumPy turns into an array of numbers.
ArrayLike: TypeAlias = Array | np.ndarray | Sequence[Any] | float
Metrics: TypeAlias = dict[str, Array]
#: One typed key for every repeat.
RepeatKeys: TypeAlias = Key[Array, " repeats"]


def as_key(key: KeyLike, name: str = "key") -> PRNGKeyArray:
    """A typed JAX key from an int, a typed key or a raw (legacy) key.

    Args:
        key: An int seed, a typed key (`jax.random.key`) or a raw one
            (`jax.random.PRNGKey`).
        name: The argument's name, for the error message.

    Returns:
        A typed scalar key.

    Example:
        >>> as_key(0) == as_key(jax.random.key(0))
        Array(True, dtype=bool)
    """
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        return jax.random.key(int(key))
    if isinstance(key, (jax.Array, np.ndarray)):
        if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) and key.shape == ():
            return key
        if key.dtype == np.uint32 and key.ndim == 1:
            return jax.random.wrap_key_data(jnp.asarray(key))
    raise TypeError(f"{name} must be an int or one JAX random key; got {describe(key)}.")


def default_float() -> np.dtype[Any]:
    """The float type JAX computes in now: float32, or float64 under x64."""
    return np.dtype(jnp.result_type(float))


def describe(value: object) -> str:
    """A short text of a value for error messages: arrays by dtype and shape."""
    if isinstance(value, (jax.Array, np.ndarray, jax.ShapeDtypeStruct)):
        return f"an array of dtype {value.dtype} and shape {tuple(value.shape)}"
    text = repr(value)
    return text if len(text) <= 80 else f"a {type(value).__name__}"
