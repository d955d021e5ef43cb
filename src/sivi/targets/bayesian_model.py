"""Prior, likelihood and data: `BayesianModel`."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from .._errors import MissingFromModel
from .._types import Scalar
from .observations import HasObservations


class BayesianModel(HasObservations):
    """Prior × likelihood of independent data, with minibatches.

    The subclass writes the log prior and the log likelihood of ONE datum. This class vectorises the latter
    and multiplies it by N/|batch|, so that a minibatch's `log_prob` and `score` are unbiased for the full ones.

    Here the unknowns are one vector of real numbers. `StructuredModel` has named and constrained ones, and `sivi.model`
    makes one of two functions.

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
    def log_prior(self, x: PyTree) -> Scalar:
        """log p(x)."""

    @abc.abstractmethod
    def log_likelihood(self, x: PyTree, datum: Any) -> Scalar:
        """log p(datum | x) of one datum: `data` with its leading axis taken away."""

    def log_likelihoods(self, x: PyTree, data: PyTree) -> Float[Array, " n"]:
        """log p(datum | x) of each of many data; a model that has one product of matrices for all overrides this."""
        return jax.vmap(self.log_likelihood, in_axes=(None, 0))(x, data)

    def predict(self, x: PyTree, inputs: Any) -> Any:
        """What the model says of new inputs at one point x; a model that predicts overrides this."""
        raise MissingFromModel(f"{type(self).__name__} has no predict method.")

    def predict_rows(self, x: PyTree, data: PyTree) -> Any:
        """What `predict` says of rows in the structure of `data`: here of the first of a pair, the inputs.

        A model whose data are no pair, or have other units than `predict` takes, overrides this.
        """
        if isinstance(data, (tuple, list)) and len(data) == 2:
            return self.predict(x, data[0])
        raise MissingFromModel(f"{type(self).__name__} has no predict_rows method, and its data are no pair.")

    def rows_of_inputs(self, inputs: Any) -> Any:
        """New inputs, not traced by JAX, as rows for `predict_rows`; None for a model whose `predict` takes all inputs.

        A model that checks inputs, or changes their units in more precision than it computes in, overrides this.
        """
        return None

    def sample_datum(self, key: PRNGKeyArray, x: PyTree, datum: Any) -> Array:
        """A new observation in place of that of one datum, whose covariates it has; a model that can draws it here."""
        raise MissingFromModel(f"{type(self).__name__} cannot draw new data, since it has no sample_datum.")

    def check_data(self, data: PyTree) -> None:
        """Refuse held-out data for which the likelihood is not made; a model that can tell overrides this.

        Args:
            data: In the structure of `self.data`, with rows of the same shapes.
        """

    def point(self, x: Float[Array, " dim"]) -> PyTree:
        """What the functions of the model take for the free vector x: itself, or the structure of the unknowns."""
        return x

    def log_jacobian(self, x: Float[Array, " dim"]) -> Scalar | float:
        """log |det ∂point/∂x|, which turns the density of the point into that of the free vector."""
        return 0.0

    @property
    def observed_name(self) -> str | None:
        """The key of the observations in data that are a dict; None if it is not known.

        It is `y` where there is one, or the only key. A model with another key overrides this.
        """
        return outcome_of(self.data)

    @property
    def observed(self) -> dict[str, Array]:
        """The observations among the data: under `observed_name`, or, as `y`, the last array; empty if not known."""
        name = self.observed_name
        if name is not None:
            return {name: self.data[name]}
        return {} if isinstance(self.data, dict) else {"y": jax.tree.leaves(self.data)[-1]}

    def pointwise_log_likelihood(self, x: Float[Array, " dim"]) -> dict[str, Array]:
        """log p(datum | x) of all data."""
        return {self.observed_name or "y": self.log_likelihoods(self.point(x), self.data)}

    def replicate(self, key: PRNGKeyArray, x: Float[Array, " dim"]) -> dict[str, Array]:
        """New observations in place of the data's, by `sample_datum`."""
        keys, point = jax.random.split(key, self.num_data), self.point(x)
        draws = jax.vmap(lambda key, datum: self.sample_datum(key, point, datum))(keys, self.data)
        return {self.observed_name or "y": draws}

    def log_prob(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Scalar:
        data, scale = self._rows(batch)
        point = self.point(x)
        return self.log_prior(point) + self.log_jacobian(x) + scale * jnp.sum(self.log_likelihoods(point, data))

    @property
    def num_data(self) -> int:
        return int(jax.tree.leaves(self.data)[0].shape[0])

    def _rows(self, batch: Int[Array, " batch"] | None) -> tuple[Any, float]:
        """The data of a batch (None: all data), and the weight N/|batch| of each datum."""
        if batch is None:
            return self.data, 1.0
        return jax.tree.map(lambda array: array[batch], self.data), self.num_data / batch.shape[0]

    def __check_init__(self) -> None:
        check_rows_of(self.data)


def outcome_of(data: PyTree) -> str | None:
    """The key of the observations in a dict of data: `y`, or the only one; None otherwise."""
    if not isinstance(data, dict):
        return None
    return "y" if "y" in data else next(iter(data)) if len(data) == 1 else None


def check_rows_of(data: PyTree) -> None:
    """Refuse data that are no arrays with one leading length."""
    leaves = jax.tree.leaves(data)
    if not leaves or any(np.ndim(leaf) == 0 for leaf in leaves):
        raise ValueError("data must be a pytree of arrays with a leading axis; turn lists into arrays.")
    lengths = sorted({leaf.shape[0] for leaf in leaves})
    if len(lengths) > 1 or lengths[0] == 0:
        raise ValueError(f"data: all arrays must share one leading length of at least 1; got {lengths}.")
