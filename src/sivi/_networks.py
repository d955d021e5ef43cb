"""The multilayer perceptron that families and critics are made of."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PRNGKeyArray

from ._arguments import as_key, check_count, default_float, describe
from ._random import side_by_side
from ._types import Activation

#: Activations that are known by name, and so can be stored in a fit file.
ACTIVATIONS: dict[str, Activation] = {
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
    "gelu": jax.nn.gelu,
    "elu": jax.nn.elu,
    "softplus": jax.nn.softplus,
    "tanh": jnp.tanh,
}


def as_activation(activation: str | Activation) -> Activation:
    """The function of an activation given by name or as a function."""
    if callable(activation):
        return activation
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation must be a function or one of {sorted(ACTIVATIONS)}; got {describe(activation)}.")
    return ACTIVATIONS[activation]


class Linear(eqx.Module):
    """y = W x + b, with W and b ~ Uniform(±1/√fan_in) at the start.

    The weight is stored with its shorter side first. Its gradient over a batch is a product of that
    orientation, and XLA's CPU backend is much slower on the tall, thin one.
    """

    weight: Float[Array, "short long"]
    bias: Float[Array, " out"]
    in_first: bool = eqx.field(static=True)

    @staticmethod
    def initial(widths: Sequence[int], keys: Key[Array, " layers"]) -> "list[Linear]":
        """Layers between these widths, one key each."""
        pairs = list(zip(widths[:-1], widths[1:], strict=True))
        shapes = [shape for a, b in pairs for shape in ((min(a, b), max(a, b)), (b,))]
        bounds = [a**-0.5 for a, _ in pairs for _ in range(2)]
        draws = _uniforms(jax.vmap(jax.random.split)(keys).reshape(-1), shapes, bounds)
        parts = zip(pairs, draws[::2], draws[1::2], strict=True)
        return [Linear(weight, bias, in_first=a < b) for (a, b), weight, bias in parts]

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " out"]:
        return (x @ self.weight if self.in_first else self.weight @ x) + self.bias


def _uniforms(
    keys: Key[Array, " num"], shapes: Sequence[tuple[int, ...]], bounds: Sequence[float]
) -> list[Float[Array, "..."]]:
    """Uniform(±bound) of several shapes, one key each."""
    limits = jnp.asarray(bounds, default_float())
    return side_by_side(list(keys), shapes, jax.random.uniform, -limits, limits)


class MLP(eqx.Module):
    """A multilayer perceptron, with an optional linear skip: y = net(x) + A x.

    Args:
        in_dim: Length of the input.
        out_dim: Length of the output.
        hidden: Widths of the hidden layers.
        activation: Applied after every hidden layer; a function or a name such as `"relu"`.
        skip: Add A x, where A starts as `skip_scale` times the (possibly rectangular) identity.
        skip_scale: See `skip`.
        final_scale: Factor on the last layer's initial weights.
        key: Random key of the initial weights.

    Example:
        >>> net = MLP(3, 2, hidden=(50, 50), activation="relu", key=jax.random.key(0))
        >>> net(jnp.zeros(3)).shape
        (2,)
    """

    layers: tuple[Linear, ...]
    skip: Float[Array, "out in"] | None
    activation: Activation = eqx.field(static=True)

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        hidden: Sequence[int],
        activation: str | Activation,
        skip: bool = False,
        skip_scale: float = 1.0,
        final_scale: float = 1.0,
        key: PRNGKeyArray,
    ):
        widths = [in_dim, *(check_count("hidden", width) for width in hidden), out_dim]
        *first, last = Linear.initial(widths, jax.random.split(as_key(key), len(widths) - 1))
        self.layers = (*first, jax.tree.map(lambda weights: final_scale * weights, last))
        self.skip = skip_scale * jnp.eye(out_dim, in_dim, dtype=default_float()) if skip else None
        self.activation = as_activation(activation)

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " out"]:
        hidden = x
        for layer in self.layers[:-1]:
            hidden = self.activation(layer(hidden))
        out = self.layers[-1](hidden)
        return out if self.skip is None else out + self.skip @ x
