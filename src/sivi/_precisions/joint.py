"""Weights and log precisions of a network together, as one target."""

from typing import NamedTuple, final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .._types import Scalar
from ..targets import BayesianNeuralNetwork, GammaPrior, Target

#: Very weak, and so wide in orders of magnitude: γ is 1 if a network explains nothing, and in the thousands if there is
#: next to no noise. The rate keeps a network with more weights than rows from an infinite precision.
NOISE_PRIOR = GammaPrior(0.1, 1e-4)
#: Standardised inputs and targets have weights of order one, give or take some orders of magnitude of their precision.
WEIGHT_PRIOR = GammaPrior(0.1, 0.1)


class JointPoint(NamedTuple):
    """One point of the joint density."""

    weights: Float[Array, " weights"]
    log_weight_precision: Float[Array, " layers"]
    log_noise_precision: Float[Array, " one_or_none"]


@final
class JointPrecisions(Target):
    """p(w, log λ, log γ | rows), of which only the precisions that the model lacks are unknowns.

    Attributes:
        model: With precisions left out.
        num_weight_precisions: One for each layer, or one for all; 0 if they were given.
        num_noise_precisions: 1, or 0 if it was given.
    """

    model: BayesianNeuralNetwork
    num_weight_precisions: int = eqx.field(static=True)
    num_noise_precisions: int = eqx.field(static=True)

    @classmethod
    def of(cls, model: BayesianNeuralNetwork, *, by_layer: bool = True) -> "JointPrecisions":
        """With a weight precision for each layer, or one for all, and for all arrays of the user's own network."""
        groups = model.network.num_groups if by_layer and model.network.groups_are_layers else 1
        counts = [groups if "weight_precision" in model.left_out else 0, int("noise_precision" in model.left_out)]
        return cls(model, *counts)

    @property
    def dim(self) -> int:
        return self.model.dim + self.num_weight_precisions + self.num_noise_precisions

    @property
    def num_data(self) -> int:
        return self.model.num_data

    def split(self, z: Float[Array, " dim"]) -> JointPoint:
        """The parts of a point."""
        weights = self.model.dim
        return JointPoint(*jnp.split(z, [weights, weights + self.num_weight_precisions]))

    def weight_precisions(self, logs: Float[Array, " layers"]) -> Float[Array, " groups"] | None:
        """λ of each group of weights; None if it was given."""
        return jnp.broadcast_to(jnp.exp(logs), (self.model.network.num_groups,)) if len(logs) else None

    def at(self, log_weight_precision: Array, log_noise_precision: Array) -> BayesianNeuralNetwork:
        """The model with these precisions."""
        noise = jnp.exp(log_noise_precision[0]) if self.num_noise_precisions else None
        return self.model.completed(self.weight_precisions(log_weight_precision), noise)

    def log_prob(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Scalar:
        point = self.split(x)
        prior = WEIGHT_PRIOR.log_density_of_log(point.log_weight_precision)
        prior += NOISE_PRIOR.log_density_of_log(point.log_noise_precision)
        return prior + self.at(*point[1:]).log_prob(point.weights, batch)
