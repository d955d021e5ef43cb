"""Precisions of a Bayesian neural network that were left out, found from its rows: one file for each method."""

from collections.abc import Callable

from jaxtyping import PRNGKeyArray

from .._arguments import as_key, check_choice
from .._types import KeyLike
from ..targets import BayesianNeuralNetwork
from .by_hmc import precisions_by_hmc
from .by_svgd import precisions_by_svgd

#: A method returns the model with the precisions that it lacks, by `model.completed`; it looks at its rows alone.
METHODS: dict[str, Callable[[BayesianNeuralNetwork, PRNGKeyArray], BayesianNeuralNetwork]] = {
    "hmc": precisions_by_hmc,
    "svgd": precisions_by_svgd,
}


def with_precisions(model: BayesianNeuralNetwork, key: KeyLike, method: str = "hmc") -> BayesianNeuralNetwork:
    """The model with the precisions that were left out; see `BayesianNeuralNetwork.with_precisions`."""
    check_choice("method", METHODS, method)
    key = as_key(key)
    return METHODS[method](model, key) if model.left_out else model


__all__ = ["METHODS", "with_precisions"]
