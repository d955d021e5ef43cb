"""Networks whose weights are unknowns: a name and a shape for each array, and the outputs at many inputs.

Inputs and outputs have a column for each row of data. Then the weights of one layer and of many particles are one
matrix, and a product with all inputs is twice as fast on a CPU as with the rows of data first.
"""

import abc
import math
from typing import Any, ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from .._arguments import check_finite, default_float, describe, output_of
from .._networks import ACTIVATIONS
from .._types import Activation

#: Arrays of a network, by name.
Weights = dict[str, Array]


class NamedNetwork(eqx.Module):
    """A network as a function of its named arrays.

    Attributes:
        groups_are_layers: Whether arrays that share a prior precision are those of a layer.
    """

    groups_are_layers: ClassVar[bool] = False

    @property
    @abc.abstractmethod
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each array by name."""

    @property
    @abc.abstractmethod
    def groups(self) -> dict[str, int]:
        """Which arrays share a prior precision: a number from 0 on, by name."""

    @abc.abstractmethod
    def outputs(self, weights: Weights, inputs: Float[Array, "features n"]) -> Float[Array, "outputs n"]:
        """The outputs at many inputs."""

    @abc.abstractmethod
    def random_weights(self, key: PRNGKeyArray) -> Weights:
        """Weights for an optimiser to start from."""

    @property
    def width(self) -> int:
        """Units of the widest layer, as far as the shapes tell."""
        return max((max(shape) for shape in self.shapes.values() if shape), default=1)

    @property
    def num_groups(self) -> int:
        """How many prior precisions there can be."""
        return 1 + max(self.groups.values())


@final
class LayeredNetwork(NamedNetwork):
    """h_l = activation(W_lᵀ h_{l−1} + b_l), and the last layer without the activation.

    Attributes:
        widths: Of the inputs, the hidden layers and the outputs.
        activation: Of the hidden layers; by its name where it has one, since JAX's functions cannot be pickled.
    """

    widths: tuple[int, ...] = eqx.field(static=True)
    activation: str | Activation = eqx.field(static=True)
    groups_are_layers: ClassVar[bool] = True

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        pairs = list(enumerate(zip(self.widths[:-1], self.widths[1:], strict=True), 1))
        return {f"weight_{i}": pair for i, pair in pairs} | {f"bias_{i}": pair[1:] for i, pair in pairs}

    @property
    def groups(self) -> dict[str, int]:
        return {name: int(name.rpartition("_")[2]) - 1 for name in self.shapes}

    @property
    def last_names(self) -> tuple[str, str]:
        """The arrays of the last layer: its weights and its bias."""
        last = len(self.widths) - 1
        return f"weight_{last}", f"bias_{last}"

    def hidden(self, weights: Weights, inputs: Float[Array, "features n"]) -> Float[Array, "units n"]:
        """The units before the last layer."""
        activation = ACTIVATIONS[self.activation] if isinstance(self.activation, str) else self.activation
        units = inputs
        for i in range(1, len(self.widths) - 1):
            units = activation(weights[f"weight_{i}"].T @ units + weights[f"bias_{i}"][:, None])
        return units

    def outputs(self, weights: Weights, inputs: Float[Array, "features n"]) -> Float[Array, "outputs n"]:
        weight, bias = (weights[name] for name in self.last_names)
        return weight.T @ self.hidden(weights, inputs) + bias[:, None]

    def random_weights(self, key: PRNGKeyArray) -> Weights:
        """N(0, 1/fan_in), biases too: with zeros, the kinks of all hidden units would start in one place."""
        return {
            name: values * self.widths[self.groups[name]] ** -0.5 for name, values in _normal(key, self.shapes).items()
        }


@final
class ModuleNetwork(NamedNetwork):
    """The user's Equinox module, as a function of its arrays of floating-point numbers.

    Attributes:
        initial: These arrays as given, by their paths in the module.
        constants: The module's other arrays.
        structure: The rest of it, without arrays.
        trained: Where the arrays stand in the module.
        positions: The names in the order of the module's own arrays.
    """

    initial: Weights
    constants: PyTree
    structure: PyTree = eqx.field(static=True)
    trained: Any = eqx.field(static=True)
    positions: tuple[str, ...] = eqx.field(static=True)

    @classmethod
    def of(cls, module: Any, num_inputs: int, num_outputs: int) -> "ModuleNetwork":
        """The network of a module that maps an input vector to the outputs, or an error if it does not."""
        if not (isinstance(module, eqx.Module) and callable(module)):
            raise TypeError(f"network must be an Equinox module that can be called; got {describe(module)}.")
        module = jax.tree.map(lambda leaf: jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf, module)
        trained, rest = eqx.partition(module, eqx.is_inexact_array)
        constants, structure = eqx.partition(rest, eqx.is_array)
        paths = jax.tree_util.tree_leaves_with_path(trained)
        names = tuple(jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in paths)
        if not names or "noise_precision" in names or len(set(names)) < len(names):
            raise ValueError(
                "network must have arrays of floating-point numbers with names of their own, none of them "
                f"'noise_precision'; got {', '.join(names) or 'no such array'}."
            )
        initial = {name: leaf.astype(default_float()) for name, (_, leaf) in zip(names, paths, strict=True)}
        for name, leaf in initial.items():
            check_finite(f"network: {name}", np.asarray(leaf))
        made = cls(initial, constants, structure, jax.tree.structure(trained), names)
        vector = jax.ShapeDtypeStruct((num_inputs,), default_float())
        out = output_of("network", made.module(initial), f"an input vector of shape ({num_inputs},)", vector)
        allowed = {(num_outputs,), ()} if num_outputs == 1 else {(num_outputs,)}
        if getattr(out, "shape", None) not in allowed:
            expected = (
                "one number" if num_outputs == 1 else f"a vector of shape ({num_outputs},) with a logit for each class,"
            )
            raise ValueError(
                f"network must return {expected} for an input vector of shape ({num_inputs},); got {describe(out)}."
            )
        return made

    def module(self, weights: Weights) -> Any:
        """The module with these arrays."""
        trained = jax.tree.unflatten(self.trained, [weights[name] for name in self.positions])
        return eqx.combine(trained, self.constants, self.structure)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: self.initial[name].shape for name in self.positions}

    @property
    def groups(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.positions)}

    def outputs(self, weights: Weights, inputs: Float[Array, "features n"]) -> Float[Array, "outputs n"]:
        outputs = jax.vmap(self.module(weights), in_axes=1, out_axes=-1)(inputs)
        return outputs.reshape(-1, inputs.shape[1])

    def random_weights(self, key: PRNGKeyArray) -> Weights:
        """Matrices are N(0, 1/fan_in), with a row for each output as Equinox has them; all else starts as given."""
        normal = _normal(key, self.shapes)
        return {
            name: normal[name] * math.prod(shape[1:]) ** -0.5 if len(shape) > 1 else self.initial[name]
            for name, shape in self.shapes.items()
        }


def _normal(key: PRNGKeyArray, shapes: dict[str, tuple[int, ...]]) -> Weights:
    """N(0, 1) in arrays of these shapes, drawn in one place, since XLA takes long over each."""
    sizes = [math.prod(shape) for shape in shapes.values()]
    pieces = jnp.split(jax.random.normal(key, (sum(sizes),), default_float()), np.cumsum(sizes)[:-1])
    return {name: piece.reshape(shape) for piece, (name, shape) in zip(pieces, shapes.items(), strict=True)}
