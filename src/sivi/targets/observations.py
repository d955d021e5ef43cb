"""The interface of targets whose observations are known: what predictive checks and LOO need."""

import abc

import jax
from jaxtyping import Array, Float, PRNGKeyArray

from .._programs import compiled
from .base import Target
from .evaluate import rows_of, values_at


class HasObservations(Target):
    """A target with observed data, each of which has a log likelihood and can be drawn anew.

    All are by the name of the observed variable, and of the shape of the observations.
    """

    @property
    @abc.abstractmethod
    def observed(self) -> dict[str, Array]:
        """The observations."""

    @abc.abstractmethod
    def pointwise_log_likelihood(self, x: Float[Array, " dim"]) -> dict[str, Array]:
        """The log likelihood of every observation at one point, on all data; its sum is the log likelihood."""

    @abc.abstractmethod
    def replicate(self, key: PRNGKeyArray, x: Float[Array, " dim"]) -> dict[str, Array]:
        """New observations, drawn from the likelihood at one point with the covariates of the data.

        Raises:
            MissingFromModel: This target cannot draw them.
        """

    def replicates(self, key: PRNGKeyArray, points: Float[Array, "n dim"]) -> dict[str, Array]:
        """One replicate at each of many points, with a leading axis.

        A hook: a target whose observations are drawn outside JAX overrides it, and refuses `replicate`.
        """
        return _replicates(self, key, points)


@compiled
def _replicates(target: HasObservations, key: PRNGKeyArray, points: Float[Array, "n dim"]) -> dict[str, Array]:
    keys = jax.random.split(key, points.shape[0])
    return values_at(lambda pair: target.replicate(*pair), (keys, points), rows_of(target))
