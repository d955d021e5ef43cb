"""The constraint of a NumPyro site: the map that NumPyro itself uses, as one of this library where it has the same.

A map without parameters that only NumPyro has, such as stick-breaking for a simplex, is held by the name of its
support, so that a fit file can hold it as well.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .._arguments import describe
from ..constraints import Constraint, correlation_cholesky, interval, lower, ordered, positive, upper
from ..constraints.base import check_shape


class NumPyroSupport(Constraint):
    """A constraint of `numpyro.distributions.constraints`, with the map that `biject_to` has for it.

    The log determinant is NumPyro's. For a simplex it goes with Lebesgue measure on the first n − 1 entries, and for a
    symmetric matrix on its lower triangle.

    Args:
        support: Its name there.
        arguments: What it is called with; empty for one that is an object, such as `simplex`.
        value_shape: Shape of one value.
        batch_shape: Leading axes: how many values.
    """

    support: str = eqx.field(static=True)
    arguments: tuple[int, ...] = eqx.field(static=True, converter=check_shape)
    value_shape: tuple[int, ...] = eqx.field(static=True, converter=check_shape)
    batch_shape: tuple[int, ...] = eqx.field(static=True, converter=check_shape, default=())

    def _theirs(self) -> Any:
        constraints = distributions().constraints
        found = getattr(constraints, self.support, None) if isinstance(self.support, str) else None
        made = found(*self.arguments) if self.arguments and isinstance(found, type) else found
        if not isinstance(made, constraints.Constraint):
            raise ValueError(f"support must be a name in numpyro.distributions.constraints; got {self.support!r}.")
        return made

    def _map(self) -> Any:
        return distributions().biject_to(self._theirs())

    @property
    def event_shape(self) -> tuple[int, ...]:
        return self.value_shape

    @property
    def free_shape(self) -> tuple[int, ...]:
        return tuple(self._map().inverse_shape(self.event_shape))

    @property
    def rule(self) -> str:
        return f"in the support {self.support} of NumPyro"

    def contains(self, x: Float[np.ndarray, "..."]) -> Bool[np.ndarray, "..."] | np.bool_:
        shape = x.shape[: x.ndim - len(self.event_shape)]
        return np.asarray(self._theirs()(jnp.asarray(x)), bool).reshape(shape)

    def _forward(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        return self._map()(y)

    def _inverse(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        return self._map().inv(x)

    def _log_det(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        change = self._map()
        return change.log_abs_det_jacobian(y, change(y))


def bounds_of(support: Any) -> dict[str, Any]:
    """The bounds of a support, which may be arrays that JAX is tracing; none if it has no parameters."""
    base = _base(support)
    names = [name for name in ("lower_bound", "upper_bound") if hasattr(base, name)]
    return {name: jnp.asarray(getattr(base, name)) for name in names}


def steps_of(support: Any) -> tuple[str, ...]:
    """The names of the maps, one after the other, that NumPyro's map onto a support consists of; none for x = y.

    Raises:
        NotImplementedError: NumPyro has no map.
    """
    return tuple(type(step).__name__.removesuffix("Transform") for step in _steps(distributions().biject_to(support)))


def constraint_of(
    support: Any, steps: tuple[str, ...], bounds: Mapping[str, np.ndarray], shape: tuple[int, ...]
) -> Constraint | None:
    """The constraint of an array; None if it may have any values.

    Args:
        support: Of the site's distribution.
        steps: As of `steps_of`.
        bounds: As of `bounds_of`, as numbers.
        shape: Of the array.

    Raises:
        TypeError: Its map has no name that a file could hold.
    """
    base = _base(support)
    batch, ends = shape[: len(shape) - base.event_dim], shape[len(shape) - base.event_dim :]
    if not steps:
        return None
    made = {
        ("Exp",): partial(positive, shape),
        ("Exp", "Affine"): partial(_half_line, bounds, shape),
        ("Sigmoid",): partial(interval, 0.0, 1.0, shape),
        ("Sigmoid", "Affine"): partial(interval, *bounds.values(), shape),
        ("Ordered",): partial(ordered, *ends, batch),
        ("CorrCholesky",): partial(correlation_cholesky, *ends[:1], batch),
    }.get(steps)
    # An ordered vector of one number, or a 1 × 1 matrix, is NumPyro's alone.
    if made is None or (base.event_dim and ends[-1] < 2):
        return NumPyroSupport(*_name_of(base), ends, batch)
    return made()


def _half_line(bounds: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> Constraint:
    ((name, bound),) = bounds.items()
    return (upper if name == "upper_bound" else lower)(bound, shape)


def _base(support: Any) -> Any:
    """A support without the axes that are only counted as part of an event."""
    while hasattr(support, "base_constraint"):
        support = support.base_constraint
    return support


def _steps(change: Any) -> list[Any]:
    """The maps that a map consists of, one after the other, without the identity."""
    transforms = distributions().transforms
    if isinstance(change, transforms.ComposeTransform):
        return [step for part in change.parts for step in _steps(part)]
    if isinstance(change, transforms.IndependentTransform):
        return _steps(change.base_transform)
    return [] if isinstance(change, transforms.IdentityTransform) else [change]


def _name_of(base: Any) -> tuple[str, tuple[int, ...]]:
    constraints = distributions().constraints
    if isinstance(base, constraints.zero_sum):
        return "zero_sum", (base.event_dim,)
    for name, known in vars(constraints).items():
        if known is base and not name.startswith("_"):
            return name, ()
    raise TypeError(f"its support, {describe(base)}, has no name in numpyro.distributions.constraints")


def distributions() -> Any:
    """`numpyro.distributions`, or one sentence if it is not installed."""
    try:
        import numpyro.distributions  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError("models of NumPyro need numpyro: pip install 'sivi[numpyro]'") from error
    return numpyro.distributions
