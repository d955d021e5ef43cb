"""Arguments of `BayesianNeuralNetwork`: checked, and made what its fields hold."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._arguments import (
    check_choice,
    check_count,
    check_positive,
    default_float,
    describe,
)
from .._networks import as_widths, named_activation
from .._scale import Scale
from .._types import Activation
from .gamma_prior import GammaPrior
from .judged_inputs import judged_inputs
from .labels import check_labels
from .likelihoods import Classes, NormalNoise, OutputLikelihood, StudentTNoise
from .networks import LayeredNetwork, ModuleNetwork, NamedNetwork
from .rows import as_inputs

#: Functions at the inputs where a network is judged, at most: for many classes there are fewer inputs.
_MOST_FUNCTIONS, _FEWEST_INPUTS = 64, 8
#: The defaults of `BayesianNeuralNetwork`.
_HIDDEN, _ACTIVATION = (50,), "relu"
LIKELIHOODS = ("normal", "student-t", "softmax")


def scale_of(name: str, values: Float[np.ndarray, "n *columns"] | None) -> Scale:
    """The units in which values are standardised; None stands for labels, which stay as they are."""
    if values is None:
        return Scale(np.zeros(()), np.ones(()))
    with np.errstate(over="ignore", invalid="ignore"):
        scale = Scale.of(values, centre_constant=True)
    if values.ndim == 1 and (values == values[0]).all():
        raise ValueError(f"{name} must not all be equal; got {values[0]:g} in all {len(values)} rows.")
    sizes = np.abs(scale.mean), scale.sd
    limits = np.finfo(default_float())
    if not all((size < limits.max).all() for size in sizes) or not (scale.sd > limits.tiny).all():
        raise ValueError(
            f"{name} must have means and standard deviations that are {default_float()} numbers; got standard "
            f"deviations from {scale.sd.min():g} to {scale.sd.max():g}."
        )
    return scale


def num_classes_of(likelihood: str, targets: np.ndarray, num_classes: int | None) -> int | None:
    """The number of classes of labels, or an error if one is none of them; None for a regression."""
    check_choice("likelihood", LIKELIHOODS, likelihood)
    if likelihood != "softmax":
        if num_classes is not None:
            raise ValueError(f"num_classes must be left out with likelihood={likelihood!r}; got {num_classes!r}.")
        return None
    if num_classes is not None:
        num_classes = check_count("num_classes", num_classes, 2)
    check_labels("targets", targets, num_classes)
    if num_classes is None and not targets.any():
        raise ValueError("num_classes must be given where targets has one class only; all labels are 0.")
    if num_classes is None and targets.max() >= len(targets):
        raise ValueError(
            f"num_classes must be given where a label is not below the number of rows, {len(targets)}; got the label "
            f"{int(targets.max())}."
        )
    return int(targets.max()) + 1 if num_classes is None else num_classes


def as_likelihood(likelihood: str, degrees_of_freedom: float, classes: int | None) -> OutputLikelihood:
    """The likelihood of this name."""
    df = check_positive("degrees_of_freedom", degrees_of_freedom)
    if classes is not None:
        return Classes(classes)
    return NormalNoise() if likelihood == "normal" else StudentTNoise(df)


def as_network(
    network: Any, num_inputs: int, num_outputs: int, hidden: Sequence[int], activation: str | Activation
) -> NamedNetwork:
    """The user's module, or layers of these widths."""
    if network is not None:
        if tuple(np.atleast_1d(hidden)) != _HIDDEN or activation != _ACTIVATION:
            raise ValueError("hidden and activation must be left out where network is given: it has its own layers.")
        return ModuleNetwork.of(network, num_inputs, num_outputs)
    return LayeredNetwork((num_inputs, *as_widths(hidden), num_outputs), named_activation(activation))


def as_weight_precision(value: object, network: NamedNetwork) -> Float[Array, " groups"] | None:
    """λ of each group of weights; None if it was left out."""
    if value is None:
        return None
    num_groups = network.num_groups
    if isinstance(value, (tuple, list)) or np.ndim(value) == 1:  # pyright: ignore[reportArgumentType]
        of_what = "layer" if isinstance(network, LayeredNetwork) else "array of network"
        if len(value) != num_groups:  # pyright: ignore[reportArgumentType]
            raise ValueError(
                f"weight_precision must be one number or {num_groups}, one for each {of_what}; got {len(value)}."  # pyright: ignore[reportArgumentType]
            )
        numbers = [check_positive("weight_precision", number) for number in value]  # pyright: ignore[reportGeneralTypeIssues]
    else:
        numbers = [check_positive("weight_precision", value)] * num_groups
    return jnp.asarray(numbers, default_float())


def as_noise_precision(value: object, likelihood: OutputLikelihood) -> Float[Array, ""] | GammaPrior | None:
    """γ as a number, or its prior; None if it was left out, or if there is no noise."""
    if value is None:
        return None
    if not likelihood.has_noise:
        raise ValueError(f"noise_precision must be left out with likelihood='softmax'; got {describe(value)}.")
    if isinstance(value, GammaPrior):
        return value
    return jnp.asarray(check_positive("noise_precision", value), default_float())


def as_judged(
    judged_at: object, standardised: Float[np.ndarray, "n features"], scale: Scale, likelihood: OutputLikelihood
) -> Float[np.ndarray, "judged features"]:
    """Standardised inputs at which functions are compared: those given, or some chosen from the rows."""
    if judged_at is not None:
        return scale.apply(as_inputs("judged_at", judged_at, standardised.shape[1]))
    functions = likelihood.num_outputs if likelihood.has_noise else likelihood.num_outputs - 1
    return judged_inputs(standardised, max(_FEWEST_INPUTS, _MOST_FUNCTIONS // functions))
