"""Networks that families and critics are made of: the multilayer perceptron, and (μ(z), σ(z))."""

import math
from collections.abc import Sequence
from typing import TypedDict

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ._arguments import (
    as_key,
    check_choice,
    check_count,
    check_flag,
    check_number,
    check_positive,
    default_float,
    describe,
    output_of,
)
from ._host_random import split, uniforms
from ._random import side_by_side
from ._types import Activation, KeyLike

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
    if isinstance(activation, str) and activation in ACTIVATIONS:
        return ACTIVATIONS[activation]
    if isinstance(activation, type) or not callable(activation):
        raise ValueError(f"activation must be a function or one of {sorted(ACTIVATIONS)}; got {describe(activation)}.")
    if activation not in ACTIVATIONS.values():
        _check_elementwise(activation)
    return activation


def named_activation(activation: str | Activation) -> str | Activation:
    """The name of an activation that has one; any other function as it is."""
    function = as_activation(activation)
    return next((name for name, known in ACTIVATIONS.items() if known is function), function)


def _check_elementwise(activation: Activation) -> None:
    like = jax.ShapeDtypeStruct((2,), default_float())
    out = output_of("activation", activation, "a vector of shape (2,)", like)
    if getattr(out, "shape", None) != like.shape:
        raise ValueError(f"activation must return an array of the shape that it is given, (2,); got {describe(out)}.")


def as_widths(hidden: Sequence[int]) -> tuple[int, ...]:
    """Widths of hidden layers, each at least 1."""
    if not isinstance(hidden, Sequence) or isinstance(hidden, (str, bytes)):
        raise TypeError(f"hidden must be a sequence of widths, such as (64, 64); got {describe(hidden)}.")
    return tuple(check_count("hidden", width) for width in hidden)


class Linear(eqx.Module):
    """y = W x + b, with W and b ~ Uniform(±1/√fan_in) at the start.

    The weight is stored with its shorter side first; `equinox.nn.MLP` stores (out, in). The gradient of a weight over a
    batch is a matrix product in the orientation of storage, and XLA's CPU backend is slower on tall, thin ones.
    """

    weight: Float[Array, "short long"]
    bias: Float[Array, " out"]
    in_first: bool = eqx.field(static=True)

    @staticmethod
    def initial(widths: Sequence[int], keys: Key[Array, " layers"], final_scale: float = 1.0) -> "list[Linear]":
        """Layers between these widths, one key each; the last one times `final_scale`."""
        pairs = list(zip(widths[:-1], widths[1:], strict=True))
        shapes = [shape for a, b in pairs for shape in ((min(a, b), max(a, b)), (b,))]
        bounds = [a**-0.5 for a, _ in pairs for _ in range(2)]
        draws = _uniforms(split(keys).reshape(-1), shapes, bounds)
        draws = [jnp.asarray(final_scale * draw if i >= len(draws) - 2 else draw) for i, draw in enumerate(draws)]
        parts = zip(pairs, draws[::2], draws[1::2], strict=True)
        return [Linear(weight, bias, in_first=a < b) for (a, b), weight, bias in parts]

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " out"]:
        return (x @ self.weight if self.in_first else self.weight @ x) + self.bias


def _uniforms(
    keys: Key[Array, " num"], shapes: Sequence[tuple[int, ...]], bounds: Sequence[float]
) -> Sequence[Float[Array | np.ndarray, "..."]]:
    """Uniform(±bound) of several shapes, one key each."""
    if (on_host := uniforms(keys, shapes, bounds)) is not None:
        return on_host
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
        key: An int or a JAX key, of the initial weights.

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
        key: KeyLike,
    ):
        widths = [in_dim, *as_widths(hidden), out_dim]
        self.layers = tuple(Linear.initial(widths, split(as_key(key), len(widths) - 1), final_scale))
        self.skip = jnp.asarray(skip_scale * np.eye(out_dim, in_dim, dtype=default_float())) if skip else None
        self.activation = as_activation(activation)

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " out"]:
        hidden = x
        for layer in self.layers[:-1]:
            hidden = self.activation(layer(hidden))
        out = self.layers[-1](hidden)
        return out if self.skip is None else out + self.skip @ x


#: Of σ: far below the scale of most posteriors, and far above what float32 can square and divide by.
DEFAULT_FLOOR = 1e-3


class LogVariance(eqx.Module):
    """log σ² from an unconstrained number, kept above a floor.

    `"smooth"` is floor + softplus(raw − floor), that is σ² = exp(floor) + exp(raw), which always has a gradient.
    `"clamp"` is max(raw, floor), what the paper ran: below the floor the gradient is zero, and a coordinate that
    crosses it stays there.
    """

    floor: float = eqx.field(static=True)
    kind: str = eqx.field(static=True)

    def __check_init__(self) -> None:
        check_choice("floor", ("smooth", "clamp"), self.kind)

    def sigma(self, raw: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """σ. As the root of a sum, not as exp of half the logarithm: XLA would evaluate that at every use of σ."""
        if self.kind == "clamp":
            return jnp.exp(0.5 * jnp.maximum(raw, self.floor))
        return jnp.sqrt(math.exp(self.floor) + jnp.exp(raw))

    def inverse(self, log_variance: float) -> float:
        if self.kind == "clamp":
            return log_variance
        excess = log_variance - self.floor
        return self.floor + excess + math.log(-math.expm1(-excess))


class LocationScaleSettings(TypedDict, total=False):
    """Settings of `LocationScale`, which says what they mean, by name."""

    hidden: Sequence[int]
    activation: str | Activation
    skip: bool
    skip_scale: float
    final_scale: float
    scale: str
    sigma_init: float
    sigma_floor: float
    floor: str


def _most_sigma() -> float:
    """Above this, σ² is not finite."""
    return float(np.sqrt(np.finfo(default_float()).max))


class LocationScale(eqx.Module):
    """The networks (μ_φ(z), σ_φ(z)), with σ a trainable vector or a network of z.

    Args:
        latent_dim: Length of z.
        dim: Length of x.
        hidden: Widths of the hidden layers.
        activation: A function or a name such as `"silu"`.
        skip: Add a linear map A z to μ, A started at `skip_scale` times the identity.
        skip_scale: See `skip`.
        final_scale: Factor on the initial weights of the last layer of μ.
        scale: `"global"`, one trainable vector σ; or `"network"`, σ_φ(z).
        sigma_init: σ at the start.
        sigma_floor: σ never falls below this.
        floor: `"smooth"`, or `"clamp"`: the hard clamp the paper's experiments used, without gradient below.
        key: An int or a JAX key, of the initial weights.
    """

    mean: MLP
    raw_scale: Float[Array, " dim"] | MLP
    raw_init: float = eqx.field(static=True)
    log_variance: LogVariance

    def __init__(
        self,
        latent_dim: int,
        dim: int,
        *,
        hidden: Sequence[int] = (64, 64),
        activation: str | Activation = "silu",
        skip: bool = True,
        skip_scale: float = 1.0,
        final_scale: float = 1.0,
        scale: str = "global",
        sigma_init: float = 1.0,
        sigma_floor: float = DEFAULT_FLOOR,
        floor: str = "smooth",
        key: KeyLike,
    ):
        latent_dim, dim = check_count("latent_dim", latent_dim), check_count("dim", dim)
        check_flag("skip", skip)
        skip_scale, final_scale = check_number("skip_scale", skip_scale), check_number("final_scale", final_scale)
        sigma_init, sigma_floor = check_positive("sigma_init", sigma_init), check_positive("sigma_floor", sigma_floor)
        if not sigma_floor < sigma_init < _most_sigma():
            raise ValueError(
                f"sigma_floor and sigma_init must satisfy 0 < sigma_floor < sigma_init < {_most_sigma():.1e}; "
                f"got {sigma_floor} and {sigma_init}."
            )
        check_choice("scale", ("global", "network"), scale)
        mean_key, scale_key = split(as_key(key))
        self.mean = MLP(
            latent_dim,
            dim,
            hidden=hidden,
            activation=activation,
            skip=skip,
            skip_scale=skip_scale,
            final_scale=final_scale,
            key=mean_key,
        )
        self.log_variance = LogVariance(2 * math.log(sigma_floor), floor)
        raw_init = self.log_variance.inverse(2 * math.log(sigma_init))
        if scale == "global":
            self.raw_init = 0.0
            self.raw_scale = jnp.asarray(np.full((dim,), raw_init, default_float()))
        else:
            self.raw_init = raw_init
            self.raw_scale = MLP(latent_dim, dim, hidden=hidden, activation=activation, final_scale=0.01, key=scale_key)

    @property
    def varying_scale(self) -> bool:
        """Whether σ is a network of z."""
        return isinstance(self.raw_scale, MLP)

    def __call__(self, z: Float[Array, " latent"]) -> tuple[Float[Array, " dim"], Float[Array, " dim"]]:
        raw = self.raw_init + self.raw_scale(z) if isinstance(self.raw_scale, MLP) else self.raw_scale
        return self.mean(z), self.log_variance.sigma(raw)
