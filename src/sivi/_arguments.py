"""Conversions and checks of arguments: the messages name the argument, the rule and the value."""

import operator
from collections.abc import Callable
from typing import Any, SupportsIndex, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from ._types import KeyLike

_T = TypeVar("_T")

#: The largest count: programs hold them as 32-bit integers.
MAX_COUNT = 2**31 - 1
#: The ints that JAX makes keys of.
MIN_KEY, MAX_KEY = -(2**63), 2**63 - 1


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
        if not MIN_KEY <= key <= MAX_KEY:
            raise ValueError(f"{name} must be an int from -2**63 to 2**63 - 1; got {_integer(int(key))}.")
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
    text = _integer(value) if type(value) is int else repr(value)
    return text if len(text) <= 80 else f"a {type(value).__name__}"


def _integer(number: int) -> str:
    """An integer as text; of many digits, which Python would refuse to write or nobody would read, its size."""
    return str(number) if number.bit_length() <= 128 else f"an integer of {number.bit_length():,} bits"


def check_positive(name: str, value: object) -> float:
    """`value` as a positive, finite float, or an error that names the argument, the rule and the value."""
    if isinstance(value, (str, bytes, bool)) or np.ndim(value) != 0:  # pyright: ignore[reportArgumentType]
        raise TypeError(f"{name} must be a positive number; got {describe(value)}.")
    try:
        number = float(value)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a positive number; got {describe(value)}.") from None
    except OverflowError:
        raise ValueError(f"{name} must be a positive, finite number; got {describe(value)}.") from None
    if not 0.0 < number < float("inf"):
        raise ValueError(f"{name} must be a positive, finite number; got {number}.")
    return number


def check_not_negative(name: str, value: object) -> float:
    """`value` as a finite float that is zero or positive, or an error as of `check_positive`."""
    return 0.0 if isinstance(value, (int, float)) and value == 0 else check_positive(name, value)


def check_count(name: str, value: object, minimum: int = 1) -> int:
    """`value` as an int, or an error that names the argument, the rule and the value."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise TypeError(f"{name} must be an integer of at least {minimum}; got {describe(value)}.")
    number = operator.index(value)
    if number < minimum:
        raise ValueError(f"{name} must be at least {minimum}; got {_integer(number)}.")
    if number > MAX_COUNT:
        raise ValueError(f"{name} must be at most {MAX_COUNT} (2**31 - 1); got {_integer(number)}.")
    return number


def check_optional(check: Callable[[str, object], _T], name: str, value: object) -> _T | None:
    """None, or `value` as another check of this module returns it."""
    return None if value is None else check(name, value)


def check_kind(name: str, kind: type[_T], what: str, value: object) -> _T:
    """`value`, if it is of a class of this library."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be {what}; got {describe(value)}.")
    return value
