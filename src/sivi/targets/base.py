"""What is inferred: the `Target` interface."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._errors import MissingLogProb
from .._layout import Layout
from .._types import KeyLike, Scalar


class Target(eqx.Module):
    """A distribution known through its log density up to a constant, or through its score alone.

    A subclass has a field or property `dim` and writes `log_prob` for one point; callers vectorise.

    Attributes:
        dim: Length of x.
        num_data: Rows of data; None for a target without minibatches.
        knows_log_prob: Whether `log_prob` works; False for a target that knows only its score.

    Example:
        >>> import jax.numpy as jnp
        >>> class Gaussian(Target):
        ...     dim: int = 2
        ...     def log_prob(self, x, batch=None):
        ...         return -0.5 * jnp.sum(x**2)
        >>> Gaussian().score(jnp.ones(2)).tolist()
        [-1.0, -1.0]
    """

    dim: eqx.AbstractVar[int]
    num_data: ClassVar[int | None] = None
    knows_log_prob: ClassVar[bool] = True

    @abc.abstractmethod
    def log_prob(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Scalar:
        """log p(x) up to a constant, at one point.

        Args:
            x: The point.
            batch: Row indices of the data to use; None means all. Targets without data ignore it.
        """

    def score(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Float[Array, " dim"]:
        """S(x) = ∇ log p(x)."""
        return jax.grad(self.log_prob)(x, batch)

    @property
    def numbers_per_row(self) -> int:
        """Numbers in the largest array that one row of data needs at one point: more points than fit go in blocks."""
        return 1

    @property
    def layout(self) -> Layout:
        """The names and shapes of the unknowns."""
        return Layout.vector(self.dim)

    def constrain(self, x: Float[Array, " dim"]) -> dict[str, Array]:
        """The named variables at one point; `{"x": x}` unless the target has names."""
        return self.layout.named(x)

    def derived(self, x: Float[Array, " dim"]) -> dict[str, Array]:
        """Quantities that are computed from one point, by name, beside its variables; none unless a target has some."""
        return {}

    def prepared(self, key: KeyLike) -> "Target":
        """The target that `fit` takes in place of this one: itself, unless settings were left out that data tell."""
        return self

    @property
    def notes(self) -> tuple[str, ...]:
        """What was chosen for the user, in sentences that `print(posterior)` shows; none unless a target chooses."""
        return ()

    @property
    def dims(self) -> Mapping[str, tuple[str, ...]]:
        """Names for the axes of variables, derived quantities and observations, by name; where it has any."""
        return {}

    @property
    def coords(self) -> Mapping[str, Sequence[Any]]:
        """Labels along the axes that `dims` names; where it has any."""
        return {}


class TargetWrapper(Target):
    """A target made from another one, with the same unknowns and data."""

    target: eqx.AbstractVar[Target]

    @property
    def dim(self) -> int:
        return self.target.dim

    @property
    def num_data(self) -> int | None:
        return self.target.num_data

    @property
    def knows_log_prob(self) -> bool:
        return self.target.knows_log_prob

    @property
    def numbers_per_row(self) -> int:
        return self.target.numbers_per_row

    @property
    def layout(self) -> Layout:
        return self.target.layout

    def inner_point(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """The point of the inner target that x stands for: x itself, unless a wrapper has coordinates of its own."""
        return x

    def derived(self, x: Float[Array, " dim"]) -> dict[str, Array]:
        return self.target.derived(self.inner_point(x))

    def prepared(self, key: KeyLike) -> "Target":
        inner = self.target.prepared(key)
        return self if inner is self.target else eqx.tree_at(lambda wrapper: wrapper.target, self, inner)

    @property
    def notes(self) -> tuple[str, ...]:
        return self.target.notes

    @property
    def dims(self) -> Mapping[str, tuple[str, ...]]:
        return self.target.dims

    @property
    def coords(self) -> Mapping[str, Sequence[Any]]:
        return self.target.coords


def innermost(target: Target, points: Float[Array, "n dim"]) -> tuple[Target, Float[Array, "n dim"]]:
    """The target inside all wrappers, and its points for points of the outer one."""
    while isinstance(target, TargetWrapper):
        points = jax.vmap(target.inner_point)(points)
        target = target.target
    return target, points


class ExactTarget(Target):
    """A target that can be sampled exactly: ground truth for tests.

    An interface beside others: `LinearRegression` is both a `BayesianModel` and an `ExactTarget`.
    """

    @abc.abstractmethod
    def sample(self, key: PRNGKeyArray) -> Float[Array, " dim"]:
        """One exact draw."""


def refuse_log_prob(target: Target) -> MissingLogProb:
    """The error for a log density asked of a target that has none."""
    return MissingLogProb(
        f"{type(target).__name__} knows only its score, and log_prob was asked of it; "
        "give the log density instead, or use an objective that needs only the score."
    )
