"""What is inferred: the `Target` interface, and `BayesianModel` for prior, likelihood and data."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from .._errors import MissingLogProb
from .._layout import Layout
from .._types import Scalar


class Target(eqx.Module):
    """A distribution known through its log density up to a constant, or through its score alone.

    A subclass has a field or property `dim` and writes `log_prob` for one point; callers vectorise.

    Example:
        >>> class Gaussian(Target):
        ...     dim: int = 2
        ...     def log_prob(self, x, batch=None):
        ...         return -0.5 * jnp.sum(x**2)
        >>> Gaussian().score(jnp.ones(2)).tolist()
        [-1.0, -1.0]
    """

    dim: eqx.AbstractVar[int]

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
    def layout(self) -> Layout:
        """The names and shapes of the unknowns."""
        return Layout.vector(self.dim)

    def constrain(self, x: Float[Array, " dim"]) -> dict[str, Array]:
        """The named variables at one point; `{"x": x}` unless the target has names."""
        return self.layout.named(x)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the arrays that x is made of, one after the other: those of the named variables.

        In high dimension the coordinates of a fit are turned along their axes. A variable with a constraint counts as
        the vector of its free numbers.
        """
        return tuple(v.shape if v.constraint is None else (v.size,) for v in self.layout.variables)

    def curvature_blocks(
        self, points: Float[Array, "draws dim"], array: int, axis: int, turn: Float[Array, "rows rows"] | None
    ) -> Float[Array, "rows cols cols"] | None:
        """Blocks of the curvature along one axis, from a target that has a closed form for them; None from all others.

        Let P be the mean over `points` of −∇² log p on all data, for an array of `shapes` seen as a matrix: columns
        along `axis`, rows along all other axes. The blocks are P_(ik)(il), k and l columns, for every row i; with
        `turn`, for rows mixed by it, Σ_jh turn_ji turn_hi P_(jk)(hl). See `sivi.warmup.rotation`, which measures what
        it needs by differences of scores where this is not known, with the noise of minibatches.

        Args:
            points: Where the curvature is looked at.
            array: Index of the array in `shapes`.
            axis: That of the columns.
            turn: An orthogonal matrix, one column for every mixed row; None leaves the rows as they are.
        """
        return None

    def curvature_trace(
        self, points: Float[Array, "draws dim"], array: int, axis: int
    ) -> Float[Array, "cols cols"] | None:
        """The blocks along an axis, added up over all rows; a target overrides this where it can do without them."""
        blocks = self.curvature_blocks(points, array, axis, None)
        return None if blocks is None else jnp.sum(blocks, axis=0)

    @property
    def num_data(self) -> int | None:
        """Rows of data, or None for a target without minibatches."""
        return None

    @property
    def knows_log_prob(self) -> bool:
        """Whether `log_prob` works; False for a target that knows only its score."""
        return True


class TargetOfTarget(Target):
    """A target made of another one, with the same unknowns and data."""

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
    def layout(self) -> Layout:
        return self.target.layout

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        return self.target.shapes


class ExactTarget(Target):
    """A target whose `log_prob` is normalised and that can be sampled exactly: ground truth for tests."""

    @abc.abstractmethod
    def sample(self, key: Array) -> Float[Array, " dim"]:
        """One exact draw."""


class BayesianModel(Target):
    """Prior × likelihood of independent data, with minibatches.

    The subclass writes the log prior and the log likelihood of ONE datum. This class vectorises the latter
    and multiplies it by N/|batch|, so that a minibatch's `log_prob` and `score` are unbiased for the full ones.

    Attributes:
        data: A pytree of arrays that share their leading axis (one entry per datum).

    Example:
        >>> class CoinFlips(BayesianModel):
        ...     data: Array
        ...     dim: int = 1
        ...     def log_prior(self, x):
        ...         return -0.5 * x[0] ** 2
        ...     def log_likelihood(self, x, datum):
        ...         return datum * x[0] - jnp.logaddexp(0.0, x[0])
        >>> model = CoinFlips(jnp.array([1.0, 1.0, 0.0]))
        >>> float(model.log_prob(jnp.zeros(1))) == float(-3 * jnp.log(2.0))
        True
    """

    data: eqx.AbstractVar[PyTree]

    @abc.abstractmethod
    def log_prior(self, x: Float[Array, " dim"]) -> Scalar:
        """log p(x)."""

    @abc.abstractmethod
    def log_likelihood(self, x: Float[Array, " dim"], datum: Any) -> Scalar:
        """log p(datum | x) of one datum: `data` with its leading axis taken away."""

    def log_likelihoods(self, x: Float[Array, " dim"], data: PyTree) -> Float[Array, " n"]:
        """log p(datum | x) of each of many data; a model that has one product of matrices for all overrides this."""
        return jax.vmap(self.log_likelihood, in_axes=(None, 0))(x, data)

    def predict(self, x: Float[Array, " dim"], inputs: Any) -> Any:
        """What the model says of new inputs at one point x; a model that predicts overrides this."""
        raise TypeError(f"{type(self).__name__} has no predict method.")

    def log_prob(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Scalar:
        data, scale = self._rows(batch)
        return self.log_prior(x) + scale * jnp.sum(self.log_likelihoods(x, data))

    @property
    def num_data(self) -> int:
        return int(jax.tree.leaves(self.data)[0].shape[0])

    def _rows(self, batch: Int[Array, " batch"] | None) -> tuple[Any, float]:
        """The data of a batch, None for all, and how many times each of them counts."""
        if batch is None:
            return self.data, 1.0
        return jax.tree.map(lambda array: array[batch], self.data), self.num_data / batch.shape[0]

    def _keeps(self, owner: type, *methods: str) -> bool:
        """Whether these methods are still those of `owner`, a class with closed forms that belong to them."""
        return all(getattr(type(self), name) is getattr(owner, name) for name in methods)

    def __check_init__(self) -> None:
        leaves = jax.tree.leaves(self.data)
        if not leaves or any(np.ndim(leaf) == 0 for leaf in leaves):
            raise ValueError("data must be a pytree of arrays with a leading axis; turn lists into arrays.")
        lengths = sorted({leaf.shape[0] for leaf in leaves})
        if len(lengths) > 1 or lengths[0] == 0:
            raise ValueError(f"data: all arrays must share one leading length of at least 1; got {lengths}.")


def refuse_log_prob(target: Target) -> MissingLogProb:
    """The error for a log density asked of a target that has none."""
    return MissingLogProb(
        f"{type(target).__name__} knows only its score, and log_prob was asked of it; "
        "give the log density instead, or use an objective that needs only the score."
    )
