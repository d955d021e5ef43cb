"""Prior, likelihood and data: `BayesianModel`."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from .._types import Scalar
from .observations import HasObservations


class BayesianModel(HasObservations):
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

    @property
    def observed(self) -> dict[str, Array]:
        """The last array of the data, under its key if the data are a dict, and otherwise as `y`."""
        path, leaf = jax.tree_util.tree_leaves_with_path(self.data)[-1]
        name = jax.tree_util.keystr(path, simple=True, separator=".") if isinstance(self.data, dict) else "y"
        return {name: leaf}

    def pointwise_log_likelihood(self, x: Float[Array, " dim"]) -> dict[str, Array]:
        """log p(datum | x) of all data."""
        (name,) = self.observed
        return {name: self.log_likelihoods(x, self.data)}

    def replicate(self, key: PRNGKeyArray, x: Float[Array, " dim"]) -> dict[str, Array]:
        """New observations in place of the data's; a model that can draw them overrides this."""
        raise TypeError(f"{type(self).__name__} cannot draw new data.")

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
