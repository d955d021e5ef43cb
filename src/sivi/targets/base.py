"""What is inferred: the `Target` interface, and `BayesianModel` for prior, likelihood and data."""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from .._errors import MissingLogProb
from .._layout import Layout
from .._types import Scalar


class Target(eqx.Module):
    """A distribution known through its log density up to a constant, or through its score alone.

    A subclass has a field or property `dim` and writes `log_prob` for one point; callers vectorise.

    Attributes:
        dim: Length of x.
        num_data: Rows of data; None for a target without minibatches.
        knows_log_prob: Whether `log_prob` works; False for a target that knows only its score.

    Example:
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
    def layout(self) -> Layout:
        """The names and shapes of the unknowns."""
        return Layout.vector(self.dim)

    def constrain(self, x: Float[Array, " dim"]) -> dict[str, Array]:
        """The named variables at one point; `{"x": x}` unless the target has names."""
        return self.layout.named(x)


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
    def layout(self) -> Layout:
        return self.target.layout


class ExactTarget(Target):
    """A target that can be sampled exactly: ground truth for tests.

    An interface beside others: `LinearRegression` is both a `BayesianModel` and an `ExactTarget`.
    """

    @abc.abstractmethod
    def sample(self, key: PRNGKeyArray) -> Float[Array, " dim"]:
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
        """The data of a batch (None: all data), and the weight N/|batch| of each datum."""
        if batch is None:
            return self.data, 1.0
        return jax.tree.map(lambda array: array[batch], self.data), self.num_data / batch.shape[0]

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
