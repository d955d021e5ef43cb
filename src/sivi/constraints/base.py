"""What a constraint is: a smooth one-to-one map from free numbers, with its log determinant."""

import abc
import dataclasses
import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float

from .._arguments import as_real, check_count, default_float
from .._errors import FitFileError
from .._types import ArrayLike, Scalar


class Constraint(eqx.Module):
    """A set of allowed values, and the map onto it from a vector of free numbers.

    A subclass is one kind of value (a number, a vector, a matrix), of which there are `batch_shape`. It writes the
    maths for arrays whose leading axes are `batch_shape`; this class cuts, checks and sums. Its fields are static:
    numbers, and tuples of them, which the constructor takes by the same names. So a fit file can hold it.

    Attributes:
        batch_shape: How many independent values: the leading axes.

    Example:
        >>> from sivi.constraints import simplex
        >>> constraint = simplex(3)
        >>> constraint.shape, constraint.size
        ((3,), 2)
        >>> constraint.inverse(jnp.full(3, 1 / 3)).tolist()
        [0.0, 0.0]
    """

    batch_shape: eqx.AbstractVar[tuple[int, ...]]

    @property
    @abc.abstractmethod
    def event_shape(self) -> tuple[int, ...]:
        """The shape of one value; () for a number."""

    @property
    def free_shape(self) -> tuple[int, ...]:
        """The shape of the free numbers that one value is made from: its own, unless a subclass says otherwise."""
        return self.event_shape

    @property
    @abc.abstractmethod
    def rule(self) -> str:
        """What a value must be, as the end of a sentence: "positive"."""

    @abc.abstractmethod
    def contains(self, x: Float[np.ndarray, "..."]) -> Bool[np.ndarray, "..."] | np.bool_:
        """Whether each value is allowed: from an array (..., *event_shape), one truth value for each of (...)."""

    @abc.abstractmethod
    def _forward(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """From (*batch_shape, *free_shape) to (*batch_shape, *event_shape)."""

    @abc.abstractmethod
    def _inverse(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """From (*batch_shape, *event_shape) to (*batch_shape, *free_shape)."""

    @abc.abstractmethod
    def _log_det(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """Terms that sum to the log determinant."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the constrained array."""
        return self.batch_shape + self.event_shape

    @property
    def size(self) -> int:
        """How many free numbers it is made from."""
        return math.prod(self.batch_shape + self.free_shape)

    def forward(self, y: Float[Array, " size"]) -> Float[Array, "*shape"]:
        """The constrained array x of the free numbers y."""
        return self._forward(y.reshape(self.batch_shape + self.free_shape))

    def inverse(self, x: ArrayLike) -> Float[Array, " size"]:
        """The free numbers y of the constrained array x, which is checked unless it is being traced."""
        self.check(x)
        return self._inverse(jnp.asarray(x, default_float())).reshape(self.size)

    def log_det(self, y: Float[Array, " size"]) -> Scalar:
        """log |det ∂x/∂y|, over the free coordinates of x where it has more entries than y.

        A subclass says which coordinates those are, or that it is over the area of a surface: ½ log det JᵀJ with
        J = ∂x/∂y.
        """
        return jnp.sum(self._log_det(y.reshape(self.batch_shape + self.free_shape)))

    def check(self, x: ArrayLike, name: str = "x", num_axes: int = 0) -> None:
        """Refuse an array of another shape, or with a value that is not allowed.

        Args:
            x: The array. Of one that JAX is tracing, only the shape is looked at.
            name: What it is called in the message.
            num_axes: How many axes it has before those of `shape`: 1 for a set of points.
        """
        shape = np.shape(as_real(name, x))
        if shape[num_axes:] != self.shape or len(shape) < num_axes:
            leading = f" after the first {num_axes}" if num_axes else ""
            raise ValueError(f"{name} must have shape {self.shape}{leading}; got {shape}.")
        if isinstance(x, Tracer):
            return
        # In the type that is computed in: 1 − 10⁻¹² is not below 1 in float32.
        array = np.asarray(x, default_float())
        allowed = np.asarray(self.contains(array))
        if not allowed.all():
            first = tuple(int(i) for i in np.argwhere(~allowed)[0])
            value = np.array2string(array[first], threshold=20, edgeitems=3).replace("\n", "")
            place = f" at [{','.join(map(str, first))}]" if first else ""
            raise ValueError(f"{name} must be {self.rule}; got {value}{place}.")

    def __str__(self) -> str:
        return self.rule


class NumberConstraint(Constraint):
    """A constraint of single numbers, each made from one free number."""

    @property
    def event_shape(self) -> tuple[int, ...]:
        return ()


def check_shape(shape: object) -> tuple[int, ...]:
    """The argument `shape` as a tuple of positive ints; one int stands for one axis."""
    axes = shape if isinstance(shape, (tuple, list)) else (shape,)
    return tuple(check_count("shape", axis) for axis in axes)


def check_length(n: object) -> int:
    """The argument `n`, the length of a vector or the rows of a matrix, as an int of at least 2."""
    return check_count("n", n, 2)


def to_json(constraint: Constraint) -> dict[str, Any]:
    """The constraint as its class's name and its numbers."""
    fields = {field.name: getattr(constraint, field.name) for field in dataclasses.fields(constraint)}
    return {"constraint": type(constraint).__name__, **fields}


def from_json(description: dict[str, Any]) -> Constraint:
    """The inverse of `to_json`.

    A name stands for a class of this library, or else for a subclass of `Constraint` that the running program has
    defined itself; a file only gives it numbers.
    """
    fields = dict(description)
    name = fields.pop("constraint")
    cls = _known().get(name)
    if cls is None:
        raise FitFileError(f"the file names a constraint that is not defined here: {name!r}.")
    expected = {field.name for field in dataclasses.fields(cls)}
    if set(fields) != expected:
        raise FitFileError(f"the file's constraint {name} has {sorted(fields)}; here it has {sorted(expected)}.")
    try:
        return cls(**fields)
    except (TypeError, ValueError) as error:
        raise FitFileError(f"the file's constraint {name} is not a possible one: {error}") from error


def _known() -> dict[str, type[Constraint]]:
    """Every concrete constraint by class name; of two, the later definition, but never in place of this library's."""
    package = __name__.partition(".")[0]
    by_name: dict[str, type[Constraint]] = {}
    queue: list[type[Constraint]] = list(Constraint.__subclasses__())
    while queue:
        cls = queue.pop(0)
        queue.extend(cls.__subclasses__())
        taken = cls.__name__ in by_name and by_name[cls.__name__].__module__.partition(".")[0] == package
        if not taken and not getattr(cls, "__abstractmethods__", None):
            by_name[cls.__name__] = cls
    return by_name
