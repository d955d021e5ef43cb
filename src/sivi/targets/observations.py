"""The interface of targets whose observations are known: what predictive checks and LOO need."""

import abc

from jaxtyping import Array, Float, PRNGKeyArray

from .base import Target


class HasObservations(Target):
    """A target with observed data, each of which has a log likelihood and can be drawn anew.

    All three are by the name of the observed variable, and of the shape of the observations.
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
            TypeError: This target cannot draw them.
        """
