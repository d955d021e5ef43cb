"""A network in the coordinates of its last layer, with a cheaper score than the map has: `KnownLastLayer`."""

from typing import final

import jax
from jaxtyping import Array, Float, Int

from .._types import Scalar
from .base import TargetWrapper
from .bayesian_model import BayesianModel
from .last_layer import LastLayerMap
from .whitened import Whitened


@final
class KnownLastLayer(TargetWrapper):
    """`Whitened(network, coordinates)`, of which some scores are known without the derivative of the map.

    In these coordinates the last layer is N(0, I), so its score is −v. That of the other unknowns is the expectation of
    their score over the last layer, a closed form; see `LastLayerMap.expected_log_likelihood`.

    Attributes:
        target: The network in the coordinates of its `LastLayerMap`.
    """

    target: Whitened

    @classmethod
    def of(cls, network: BayesianModel, coordinates: LastLayerMap | None) -> "KnownLastLayer | None":
        """The network in these coordinates, if there are any."""
        return None if coordinates is None else cls(Whitened(network, coordinates))

    def log_prob(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Scalar:
        return self.target.log_prob(x, batch)

    def score(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Float[Array, " dim"]:
        network, last_layer = self.target.target, self.target.affine
        assert isinstance(network, BayesianModel)
        assert isinstance(last_layer, LastLayerMap)
        if batch is not None:  # the distribution of the last layer is that of all rows
            return self.target.score(x, batch)
        last = last_layer.given(x)

        def expected(x: Float[Array, " dim"]) -> Scalar:  # the last layer is that of the point, and held
            prior = network.log_prior(network.point(x)) + network.log_jacobian(x)
            return prior + last_layer.expected_log_likelihood(x, last)

        where = last_layer.places
        return jax.grad(expected)(x).at[where].set(-x[where])
