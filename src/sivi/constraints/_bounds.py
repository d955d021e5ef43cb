"""Bounds that are numbers, or arrays with one number per entry, kept as what a static field and a file can hold."""

from typing import Any

import numpy as np
from jax.core import Tracer

from .._arguments import default_float, describe
from .._types import ArrayLike
from ._numerics import next_inside

#: What a user gives as a bound.
BoundLike = ArrayLike | int | np.number
#: A float, or nested tuples of floats where entries differ.
Bound = float | tuple[Any, ...]


def check_bound(name: str, value: object) -> Bound:
    """`value` as finite numbers in the form of `compact`, or an error that names argument, rule and value."""
    array = as_numbers(name, value)
    if not_finite := first(~(np.abs(array) <= float(np.finfo(default_float()).max)), array):
        raise ValueError(f"{name} must be {'finite numbers' if array.ndim else 'a finite number'}; got {not_finite}.")
    return compact(array)


def as_numbers(name: str, value: object, none: float | None = None) -> np.ndarray:
    """`value` as an array of floats, in which `none`, if it is a number, stands where None was."""
    if none is not None:
        value = _without_none(value, none)
    array = None if isinstance(value, (bool, str, bytes, Tracer)) else _as_array(value)
    if array is None or array.dtype.kind not in "iuf" or not array.size:
        raise TypeError(f"{name} must be a number or an array of numbers; got {describe(value)}.")
    return array.astype(float)


def _as_array(value: Any) -> np.ndarray | None:
    try:
        return np.asarray(value)
    except (ValueError, TypeError):  # lists of several lengths, and keys
        return None


def _without_none(value: Any, number: float) -> Any:
    if isinstance(value, (list, tuple)):
        return [_without_none(item, number) for item in value]
    return number if value is None else value


def compact(array: np.ndarray) -> Bound:
    """The one form of an array among all that broadcast alike: without axes along which nothing changes.

    So constraints that allow the same values are equal, and a bound that all entries share is a float.
    """
    for axis in range(array.ndim):
        start = array.take([0], axis)
        array = start if (array == start).all() else array
    while array.ndim and array.shape[0] == 1:
        array = array[0]
    return _nested(array.tolist())


def _nested(values: Any) -> Any:
    return tuple(map(_nested, values)) if isinstance(values, list) else values


def in_type(bound: Bound | np.ndarray, dtype: np.dtype | type) -> float | np.ndarray:
    """A bound for arithmetic in a type: a float, which takes the type of what it meets, or an array of that type."""
    array = np.asarray(bound, float)
    return array.astype(dtype) if array.ndim else float(array)


def common_shape(shape: tuple[int, ...], **bounds: np.ndarray) -> tuple[int, ...]:
    """`shape`, which the bounds must broadcast to; the shape of the bounds themselves if it is ()."""
    try:
        common = np.broadcast_shapes(shape, *(bound.shape for bound in bounds.values()))
    except ValueError:
        common = None
    if common is None or shape not in ((), common):
        given = ", ".join(f"{name} of shape {bound.shape}" for name, bound in bounds.items() if bound.ndim)
        raise ValueError(f"shape must be one that the bounds broadcast to, or be left out; got {shape} and {given}.")
    return common


def check_fits(batch_shape: tuple[int, ...], **bounds: Bound) -> None:
    """Refuse bounds of a constraint that do not broadcast to its shape."""
    common = common_shape(batch_shape, **{name: np.asarray(bound, float) for name, bound in bounds.items()})
    if common != batch_shape:
        raise ValueError(f"batch_shape must be that of the bounds, {common}, or wider; got {batch_shape}.")


def check_order(low: Bound | np.ndarray, high: Bound | np.ndarray) -> None:
    """Refuse bounds of which a lower one is not below the upper one, or that leave no room between them."""
    low, high, dtype = np.asarray(low, float), np.asarray(high, float), default_float()
    if wrong := first(low >= high, low, high):
        raise ValueError(f"low must be below high; got {wrong}.")
    no_room = np.asarray(next_inside(low, np.inf, dtype)) >= next_inside(high, -np.inf, dtype)
    too_wide = np.isfinite(low) & np.isfinite(high) & (high - low > float(np.finfo(dtype).max))
    if wrong := first(no_room | too_wide, low, high):
        raise ValueError(
            f"low and high must leave room for {dtype} numbers between them, and their distance must be one; "
            f"got {wrong}."
        )


def first(refused: np.ndarray | np.bool_, *arrays: np.ndarray) -> str:
    """The first entry that is refused, of each array, as the end of a sentence; "" if there is none."""
    if not np.any(refused):
        return ""
    where, *values = np.broadcast_arrays(refused, *arrays)
    index = tuple(int(i) for i in np.argwhere(where)[0])
    place = f" at [{','.join(map(str, index))}]" if index else ""
    return " and ".join(str(float(value[index])) for value in values) + place


def shown(bound: Bound | np.ndarray) -> str:
    """A bound in a sentence."""
    array = np.asarray(bound, float)
    return np.array2string(array, threshold=20, edgeitems=3).replace("\n", "") if array.ndim else str(float(array))
