"""Conversions and checks of arguments: the messages name the argument, the rule and the value."""

import contextlib
import math
import operator
import os
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from ._types import KeyLike

_T = TypeVar("_T")
_Method = TypeVar("_Method", bound=Callable[..., Any])

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
            with contextlib.suppress(TypeError, ValueError):  # of another length than that of a key
                return jax.random.wrap_key_data(jnp.asarray(key))
    raise TypeError(f"{name} must be an int or one JAX random key; got {describe(key)}.")


def needs_key(method: _Method) -> _Method:
    """A decorator for methods (self, num_samples, key, …) that return draws: without a key the error says why."""

    @wraps(method)
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        if len(args) < 2 and "key" not in kwargs:
            raise TypeError(
                f"{method.__name__} needs a key, an int or a JAX key: equal keys give equal draws, others new ones."
            )
        return method(self, *args, **kwargs)

    return checked  # pyright: ignore[reportReturnType]  (`wraps` keeps the signature, which its type does not say)


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
    number = _as_float(value)
    if number is None:
        raise TypeError(f"{name} must be a positive number; got {describe(value)}.")
    if not (0.0 < number < math.inf and 0.0 < _in_type(number) < math.inf):
        raise ValueError(f"{name} must be a positive, finite number{_of_type(number)}; got {_got(value, number)}.")
    return number


def check_not_negative(name: str, value: object) -> float:
    """`value` as a finite float that is zero or positive, or an error as of `check_positive`."""
    return 0.0 if isinstance(value, (int, float)) and value == 0 else check_positive(name, value)


def check_count(name: str, value: object, minimum: int = 1) -> int:
    """`value` as an int, or an error that names the argument, the rule and the value."""
    try:
        number = None if isinstance(value, bool) or _is_bool_array(value) else operator.index(value)  # pyright: ignore[reportArgumentType]
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"{name} must be an integer of at least {minimum}; got {describe(value)}.")
    if number < minimum:
        raise ValueError(f"{name} must be at least {minimum}; got {_integer(number)}.")
    if number > MAX_COUNT:
        raise ValueError(f"{name} must be at most {MAX_COUNT} (2**31 - 1); got {_integer(number)}.")
    return number


def check_number(name: str, value: object) -> float:
    """`value` as a finite float, or an error that names the argument, the rule and the value."""
    number = _as_float(value)
    if number is None:
        raise TypeError(f"{name} must be a number; got {describe(value)}.")
    if not math.isfinite(_in_type(number)):
        raise ValueError(f"{name} must be a finite number{_of_type(number)}; got {_got(value, number)}.")
    return number


def check_share(name: str, value: object, what: str = "a number in [0, 1)") -> float:
    """`value` as a float in [0, 1), or an error that names the argument, the rule `what` and the value."""
    number = _as_float(value)
    if number is None:
        raise TypeError(f"{name} must be {what}; got {describe(value)}.")
    if not 0.0 <= _in_type(number) < 1.0:
        raise ValueError(f"{name} must be {what}; got {_got(value, number)}.")
    return number


def check_flag(name: str, value: object) -> bool:
    """True or False, and not what Python takes for one of them."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False; got {describe(value)}.")
    return bool(value)


def check_choice(name: str, choices: Iterable[str], value: object) -> str:
    """One of some names."""
    choices = list(choices)
    if not isinstance(value, str) or value not in choices:
        names = " or ".join(map(repr, choices)) if len(choices) <= 2 else f"one of {', '.join(map(repr, choices))}"
        raise ValueError(f"{name} must be {names}; got {describe(value)}.")
    return value


def has_numbers(array: jax.Array | np.ndarray) -> bool:
    """Whether an array is one of real numbers or truth values; arrays of random keys have a type of their own."""
    return getattr(array.dtype, "kind", "O") in "biuf"


def check_numbers(name: str, value: object, what: str = "an array of numbers") -> np.ndarray:
    """`value` as an array of real numbers in a type of their own; `what` says in an error what it must be.

    An array that JAX is tracing has no values, and is refused.
    """
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):  # lists of several lengths, and what is being traced
        array = None
    if array is None or not (_is_real(array.dtype) or array.dtype == bool):
        raise TypeError(f"{name} must be {what}; got {describe(value if array is None or not array.ndim else array)}.")
    return array


def as_real(name: str, value: object, what: str = "an array of numbers") -> Array | np.ndarray:
    """`value` as an array of real numbers; a JAX array, of which only the type is looked at, as it is."""
    if not isinstance(value, jax.Array):
        return check_numbers(name, value, what)
    if not _is_real(value.dtype):
        raise TypeError(f"{name} must be {what}; got {describe(value)}.")
    return value


def check_path(name: str, value: object) -> Path:
    """The name of a file."""
    if not isinstance(value, (str, os.PathLike)) or isinstance(os.fspath(value), bytes):
        raise TypeError(f"{name} must be the name of a file, a str or a path; got {describe(value)}.")
    return Path(value)


def output_of(name: str, function: Callable[..., Any], takes: str, *example: Any) -> Any:
    """What a user's function returns, by shapes and types alone; an error of its own names the argument."""
    try:
        return jax.eval_shape(function, *example)
    except Exception as error:
        error.add_note(f"(raised by the function given as {name}, called with {takes})")
        raise


def check_finite(name: str, array: np.ndarray) -> np.ndarray:
    """Refuse an array with numbers that are not finite."""
    if not (finite := np.isfinite(array)).all():
        raise ValueError(f"{name} must be finite; {int((~finite).sum())} of {finite.size} numbers are not.")
    return array


def check_function(name: str, value: object, what: str = "a function") -> Callable[..., Any]:
    """`value`, if it can be called and is no class."""
    if isinstance(value, type) or not callable(value):
        raise TypeError(f"{name} must be {what}; got {describe(value)}.")
    return value


def _as_float(value: object) -> float | None:
    """A real number as a float; None of anything else, and of numbers that JAX is tracing."""
    dtype = getattr(value, "dtype", None)
    if isinstance(value, (str, bytes, bool)) or _is_bool_array(value):
        return None
    if dtype is not None and (np.ndim(value) or not _is_real(dtype)):  # pyright: ignore[reportArgumentType]
        return None
    try:
        return float(value)  # pyright: ignore[reportArgumentType]
    except OverflowError:  # an int beyond all floats
        return math.inf
    except (TypeError, ValueError):
        return None


def _is_real(dtype: Any) -> bool:
    return bool(jnp.issubdtype(dtype, np.integer) or jnp.issubdtype(dtype, np.floating))


def _in_type(number: float) -> float:
    """A number in the type that JAX computes in, in which it may be zero or infinite."""
    with np.errstate(over="ignore", under="ignore"):
        return float(default_float().type(number))


def _of_type(number: float) -> str:
    """Which type a number does not fit in, if it is that."""
    fits = not math.isfinite(number) or number == 0.0 or 0.0 < abs(_in_type(number)) < math.inf
    return "" if fits else f" in {default_float()}"


def _got(value: object, number: float) -> float | str:
    """The number in an error; of an int beyond all floats, its size."""
    return describe(value) if isinstance(value, int) and math.isinf(number) else number


def _is_bool_array(value: object) -> bool:
    return getattr(value, "dtype", None) == np.bool_


def check_optional(check: Callable[[str, object], _T], name: str, value: object) -> _T | None:
    """None, or `value` as another check of this module returns it."""
    return None if value is None else check(name, value)


def check_kind(name: str, kind: type[_T], what: str, value: object) -> _T:
    """`value`, if it is of a class of this library."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be {what}; got {describe(value)}.")
    return value
