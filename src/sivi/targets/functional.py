"""Targets made from a user's JAX function: a log density, or a score alone.

A function is traced once when it is given (`sivi._traced`), so that arrays in its closure become arguments of the
compiled program: as constants they would be slow to compile, and copied. JAX clamps an index that is out of bounds,
so with a `dim` that is too small a log density would silently be another one. A function of a vector therefore runs
once under the index checks of `checkify` before the fit.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.experimental import checkify
from jaxtyping import Array, Float, Int, PyTree

from .._arguments import check_count, check_function, default_float, describe
from .._layout import Layout
from .._traced import Traced, traced
from .._types import Scalar
from .base import Target, refuse_log_prob


class LogDensity(Target):
    """Any JAX function x → log p(x), up to a constant.

    Args:
        function: Takes one point (a vector, or the structure of `like`) and returns a scalar.
        dim: Length of the vector of unknowns; or
        like: an example pytree of floats, whose structure the function takes and samples come back in. A leaf can be a
            constraint, such as `sivi.positive((3,))`: the function then gets an array that satisfies it, and returns
            the log density of that array. The log determinant of the map from the free vector is added here. The layout
            of another target or fit can be given as well.

    Example:
        >>> import jax.numpy as jnp
        >>> target = LogDensity(lambda p: -jnp.exp(p["a"]) - jnp.sum(p["b"] ** 2), like={"a": 0.0, "b": jnp.zeros(2)})
        >>> target.dim
        3
        >>> from sivi.constraints import positive
        >>> exponential = LogDensity(lambda p: -p["rate"], like={"rate": positive()})
        >>> float(exponential.log_prob(jnp.zeros(1))), exponential.constrain(jnp.zeros(1))["rate"].tolist()
        (-1.0, 1.0)
    """

    function: Callable[..., Array]
    structure: Layout
    dim: int = eqx.field(static=True)

    def __init__(self, function: Callable[..., Array], dim: int | None = None, *, like: PyTree | None = None):
        self.function = check_function("function", function)
        self.structure = layout_of(dim, like)
        self.dim = self.structure.dim

    @property
    def layout(self) -> Layout:
        return self.structure

    def log_prob(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Scalar:
        value = self.function(self.structure.unravel(x))
        if not self.structure.is_constrained:
            return value
        # In the type that the function returns, so that half precision is refused as it is without constraints.
        return value + self.structure.log_det(x).astype(jnp.result_type(value))


class ScoreFunction(Target):
    """A target known only through its score S(x) = ∇ log p(x), which is all that the default objective needs.

    Args:
        function: Takes one point (a vector of length `dim`) and returns its score, of the same shape.
        dim: Length of the vector of unknowns.

    Example:
        >>> import jax.numpy as jnp
        >>> ScoreFunction(lambda x: -x, dim=2).score(jnp.ones(2)).tolist()
        [-1.0, -1.0]
    """

    function: Callable[[Array], Array]
    dim: int = eqx.field(static=True)
    knows_log_prob = False

    def __init__(self, function: Callable[[Array], Array], dim: int):
        self.function = check_function("function", function)
        self.dim = check_count("dim", dim)

    def log_prob(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Scalar:
        raise refuse_log_prob(self)

    def score(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Float[Array, " dim"]:
        return self.function(x)


def layout_of(dim: int | None, like: PyTree | None) -> Layout:
    """The layout from exactly one of `dim` and `like`."""
    if (dim is None) == (like is None):
        given = "neither" if dim is None else "both"
        raise ValueError(
            "one of dim (the number of unknowns) and like (an example of them) must be given with a log density; "
            f"got {given}."
        )
    return Layout.vector(check_count("dim", dim)) if like is None else Layout.like(like)


def as_target(target: object, dim: int | None = None, like: PyTree | None = None) -> Target:
    """`target` itself, or a user's log density as one.

    The function is traced as it is now. Arrays that it closes over become arguments of what is compiled rather than
    constants in it, and the same function has the same programs when it is given again.
    """
    if isinstance(target, Target):
        if like is not None:
            raise ValueError("like goes with a log density given as a function; a Target has its own structure.")
        if dim is not None and check_count("dim", dim) != target.dim:
            raise ValueError(f"dim must agree with the target's, {target.dim}; got {dim}.")
        return _with_traced_function(target)
    if isinstance(target, type) or not callable(target):
        raise TypeError(f"target must be a sivi Target or a function x -> log p(x); got {describe(target)}.")
    wrapped = LogDensity(target, dim, like=like)
    try:
        hoisted = traced(target, point_like(wrapped.layout))
    except Exception as error:
        error.add_note(f"(raised by the log density given as target, called with {_shapes(wrapped.layout)})")
        raise
    if wrapped.layout.is_vector:
        _check_indexing(hoisted, wrapped.dim)
    return _with_function(wrapped, hoisted)


def _with_traced_function(target: Target) -> Target:
    """A target whose function, if it is made of one, is traced; what cannot be is left for the checks to refuse."""
    if not isinstance(target, (LogDensity, ScoreFunction)) or isinstance(target.function, Traced):
        return target
    try:
        return _with_function(target, traced(target.function, point_like(target.layout)))
    except Exception:
        return target


def point_like(layout: Layout) -> PyTree:
    """A point in the user's structure, by shapes and types alone: nothing is compiled."""
    return jax.eval_shape(layout.unravel, jax.ShapeDtypeStruct((layout.dim,), default_float()))


def _with_function(target: LogDensity | ScoreFunction, function: Traced) -> Target:
    old = target.function
    return eqx.tree_at(lambda t: t.function, target, function, is_leaf=lambda leaf: leaf is old)


def _check_indexing(function: Callable[[Array], Array], dim: int) -> None:
    """Refuse a function that reads past the end of x: JAX would quietly give it the last coordinate instead."""
    try:
        checked = checkify.checkify(function, errors=checkify.index_checks)
        message = checked(jnp.zeros(dim, default_float()))[0].get()
    except Exception:  # a function that checkify cannot follow is not checked
        return
    if message is not None and f"array of shape ({dim},)" in message:
        raise ValueError(
            f"dim must be at least the number of unknowns that the log density reads; got {dim}: {message}"
        )


def _shapes(layout: Layout) -> str:
    if layout.is_vector:
        return f"a vector of shape ({layout.dim},)"
    return ", ".join(f"{v.name}: {v.shape}" for v in layout.variables)
