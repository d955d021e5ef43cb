"""`interval`, which finds the constraint of its bounds; and numbers of which some have two, some one, and some none."""

import itertools
from functools import partial
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ._bounds import Bound, BoundLike, as_numbers, check_bound, check_fits, check_order, common_shape, compact, shown
from ._half_line import HalfLine
from ._interval import Interval
from ._real import Real
from .base import NumberConstraint, check_shape


def _check_one_sided(name: str, none: float, value: object) -> Bound | None:
    """`value` as static numbers, with None for an entry that has no bound on this side."""
    array = as_numbers(name, value, none)
    check_bound(name, np.where(array == none, 0.0, array))
    return _infinite_as_none(compact(array))


def _infinite_as_none(bound: Any) -> Any:
    if isinstance(bound, tuple):
        return tuple(map(_infinite_as_none, bound))
    return bound if np.isfinite(bound) else None


class MixedBounds(NumberConstraint):
    """Every entry has the map of its own bounds: that of `Interval`, that of `HalfLine`, or x = y.

    Args:
        low: Lower bounds, which are not themselves allowed; None in place of one that there is not. They broadcast to
            `batch_shape`.
        high: Upper bounds, likewise.
        batch_shape: Shape of the array.
    """

    low: Bound | None = eqx.field(static=True, converter=partial(_check_one_sided, "low", -np.inf))
    high: Bound | None = eqx.field(static=True, converter=partial(_check_one_sided, "high", np.inf))
    batch_shape: tuple[int, ...] = eqx.field(static=True, converter=check_shape, default=())

    def __check_init__(self) -> None:
        low, high = self._numbers()
        check_fits(self.batch_shape, low=compact(low), high=compact(high))
        check_order(low, high)

    def _numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """The bounds, infinite where there is none."""
        return as_numbers("low", self.low, -np.inf), as_numbers("high", self.high, np.inf)

    def _parts(self) -> list[tuple[Int[np.ndarray, " entries"], NumberConstraint]]:
        """Entries that are bounded on the same sides, by their places in the flat array, and their constraint."""
        low, high = (np.broadcast_to(bound, self.batch_shape).ravel() for bound in self._numbers())
        parts = []
        for has_low, has_high in itertools.product([True, False], repeat=2):
            at = np.flatnonzero((np.isfinite(low) == has_low) & (np.isfinite(high) == has_high))
            if at.size:
                parts.append((at, _bounded_alike(low[at], high[at], (at.size,))))
        return parts

    @property
    def rule(self) -> str:
        low, high = self._numbers()
        return f"between {shown(low)} and {shown(high)}, both excluded"

    def contains(self, x: Float[np.ndarray, "..."]) -> Bool[np.ndarray, "..."] | np.bool_:
        flat = x.reshape(*x.shape[: x.ndim - len(self.batch_shape)], -1)
        allowed = np.empty(flat.shape, bool)
        for at, part in self._parts():
            allowed[..., at] = part.contains(flat[..., at])
        return allowed.reshape(x.shape)

    def _by_part(self, method: str, values: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        parts, flat = self._parts(), values.ravel()
        order = np.argsort(np.concatenate([at for at, _ in parts]))
        return jnp.concatenate([getattr(part, method)(flat[at]) for at, part in parts])[order].reshape(values.shape)

    def _forward(self, y: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return self._by_part("_forward", y)

    def _inverse(self, x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return self._by_part("_inverse", x)

    def _log_det(self, y: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return self._by_part("_log_det", y)


def _bounded_alike(low: np.ndarray, high: np.ndarray, shape: tuple[int, ...]) -> NumberConstraint:
    """The constraint of entries that are all bounded on the same sides."""
    has_low, has_high = np.isfinite(low).all(), np.isfinite(high).all()
    if has_low and has_high:
        return Interval(low, high, shape)
    if has_low:
        return HalfLine(low, 1, shape)
    return HalfLine(high, -1, shape) if has_high else Real(shape)


def interval(
    low: BoundLike | None, high: BoundLike | None, shape: tuple[int, ...] | list[int] | int = ()
) -> NumberConstraint:
    """Numbers between two bounds, or on one side of one.

    Args:
        low: Lower bound, which is not itself allowed; None or −inf for none. Or an array, with one bound per entry.
        high: Upper bound, likewise; None or inf for none.
        shape: Shape of the array; that of the bounds when left out.

    Example:
        >>> interval(-1.0, 3.0).forward(jnp.zeros(1)).item()
        1.0
        >>> interval(0.0, [1.0, 4.0, None]).forward(jnp.zeros(3)).tolist()
        [0.5, 2.0, 1.0]
    """
    lows, highs = as_numbers("low", low, -np.inf), as_numbers("high", high, np.inf)
    _check_one_sided("low", -np.inf, lows)
    _check_one_sided("high", np.inf, highs)
    common = common_shape(check_shape(shape), low=lows, high=highs)
    has_low, has_high = np.isfinite(lows), np.isfinite(highs)
    if not (has_low.any() or has_high.any()):
        raise ValueError("low or high must be a finite number, or use sivi.real(shape) for numbers without bounds.")
    check_order(lows, highs)
    alike = has_low.all() == has_low.any() and has_high.all() == has_high.any()
    return _bounded_alike(lows, highs, common) if alike else MixedBounds(lows, highs, common)
