"""The free variables of a PyMC model as named, constrained unknowns of this library."""

# pyright: reportMissingImports=false
# The linters have an environment without PyMC.

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array

from .. import constraints
from .._arguments import default_float
from .._layout import Layout
from ..constraints import Constraint
from ..constraints._simplex import Simplex


class Unknown(NamedTuple):
    """One free variable.

    Attributes:
        name: What draws call it.
        value_name: What PyMC calls the real numbers that its log density takes, such as `sigma_log__`.
        shape: Of these numbers.
        constraint: The map of this library that is PyMC's transform; None without a transform.
    """

    name: str
    value_name: str
    shape: tuple[int, ...]
    constraint: Constraint | None

    def as_value(self, piece: Array) -> Array:
        """PyMC's numbers, from the free numbers of the constraint."""
        if isinstance(self.constraint, Simplex):
            # PyMC's are all centred log ratios but the last; those of this library are isometric coordinates of them.
            return self.constraint.log_ratios(piece.reshape(self.shape))[..., :-1]
        return piece.reshape(self.shape)

    @property
    def log_det(self) -> float:
        """log |det| of `as_value`, which is linear."""
        if not isinstance(self.constraint, Simplex):
            return 0.0
        return -0.5 * np.log(self.constraint.n) * np.prod(self.constraint.batch_shape, initial=1.0)

    @property
    def without_constraint(self) -> "Unknown":
        """PyMC's numbers themselves, by PyMC's name."""
        return Unknown(self.value_name, self.value_name, self.shape, None)


def unknowns_of(model: Any) -> list[Unknown]:
    """The free variables of a model, in its order; a transform that has no counterpart here is left to PyMC."""
    shapes = {value.name: value.type.shape for value in model.value_vars}
    if any(None in shape for shape in shapes.values()):  # lengths that data decide: slower, since PyMC compiles for it
        shapes = {name: np.shape(value) for name, value in model.initial_point(random_seed=0).items()}
    found = []
    for rv in model.free_RVs:
        transform, value_name = model.rvs_to_transforms[rv], model.rvs_to_values[rv].name
        shape = shapes[value_name]
        if transform is None:
            found.append(Unknown(rv.name, value_name, shape, None))
            continue
        constraint = _constraint(transform, rv, shape)
        unknown = Unknown(rv.name, value_name, shape, constraint)
        found.append(unknown.without_constraint if constraint is None else unknown)
    return found


def layout_of(unknowns: list[Unknown]) -> Layout:
    """Their layout, a dict by name."""
    return Layout.like(
        {u.name: np.zeros(u.shape, default_float()) if u.constraint is None else u.constraint for u in unknowns}
    )


def _constraint(transform: Any, rv: Any, shape: tuple[int, ...]) -> Constraint | None:
    """The constraint whose map should be this transform; None if there is none, or if it depends on other unknowns."""
    from pymc.distributions import transforms
    from pymc.logprob.transforms import IntervalTransform

    *batch, length = shape or (0,)
    try:
        if isinstance(transform, type(transforms.log)):
            return constraints.positive(shape)
        if isinstance(transform, type(transforms.logodds)):
            return constraints.interval(0.0, 1.0, shape)
        if isinstance(transform, IntervalTransform):
            low, high = (_number(bound) for bound in transform.args_fn(*rv.owner.inputs))
            return constraints.interval(low, high, shape)
        if isinstance(transform, type(transforms.simplex)):
            return constraints.simplex(length + 1, tuple(batch))
        if isinstance(transform, type(transforms.ordered)):
            return (constraints.positive_ordered if transform.positive else constraints.ordered)(length, tuple(batch))
        if isinstance(transform, transforms.CholeskyCovPacked):
            return _packed_cholesky(length, shape)
    except (_DependsOnUnknowns, ValueError, TypeError):  # a vector of length one has no order, say
        return None
    return None


def _packed_cholesky(length: int, shape: tuple[int, ...]) -> Constraint:
    """The lower triangle of a matrix row by row, with a positive diagonal."""
    rows = int(np.sqrt(2 * length))
    low = np.full(length, -np.inf)
    low[np.arange(1, rows + 1).cumsum() - 1] = 0.0
    return constraints.interval(low, np.inf, shape)


class _DependsOnUnknowns(Exception):
    """A bound is not known before the unknowns are."""


def _number(bound: Any) -> Any:
    """A bound as numbers."""
    from pytensor.graph.traversal import ancestors
    from pytensor.tensor.random.type import RandomType

    if bound is None or not hasattr(bound, "owner"):
        return bound
    if any(isinstance(node.type, RandomType) for node in ancestors([bound])):
        raise _DependsOnUnknowns
    return now(bound)


def now(variable: Any) -> np.ndarray:
    """The value of a graph of constants and data, as it is now."""
    from pytensor.compile.sharedvalue import SharedVariable
    from pytensor.graph.basic import Constant

    if isinstance(variable, Constant):
        return np.asarray(variable.data)
    return np.asarray(variable.get_value() if isinstance(variable, SharedVariable) else variable.eval())
