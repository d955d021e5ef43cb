"""A critic built around a family with a linear last layer: its size does not grow with `dim`.

Let x|z ~ N(Mᵀh(z) + b, Σ) with a global, diagonal Σ: h(z) is the last hidden layer, with z itself beside it where
the network has a linear skip, and M (k × dim) stacks the weights that both are multiplied by. Then, exactly,

    −∇log q(x) = Σ⁻¹ (x − b − Mᵀ E[h|x]),

and E[h|x] depends on x only through y = M Σ⁻¹ (x − b), which is as short as h. With G = M Σ⁻¹ Mᵀ, y = G h + ξ and
ξ ~ N(0, G). All that is left to learn is a map from y to E[h|x]. For E[h] = m and cov(h) = L Lᵀ, let

    t = L⁻¹ (h − m),    w = Lᵀ (y − G m) = S t + Lᵀξ,    S = Lᵀ G L,    P = (I + S)⁻¹.

The best linear estimate is P w. With r(t) the density of t relative to N(0, I), E[∇_t log p(t|x)] = 0 reads

    E[t|x] = P (w + E[∇log r(t) | x]),

so the network, a function of P w, whose covariance is below I, learns the last expectation. It is zero for a Gaussian
t, and does not grow with S. For an estimate h̄ of E[h|x] the denoising loss, weighted by σ², is

    E[(h̄ − h)ᵀ G (h̄ − h)],

which needs w but not x: once G is known, an update of the critic costs the same in every dimension.
"""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._arguments import default_float, describe
from .._backend import matmul_highest
from .._fields import number_field
from .._networks import MLP, LocationScale, as_activation, as_widths
from .._random import noise_is_together, normals
from .._triangular import inverse_of_lower
from .._types import Activation, Scalar
from ..families import DiagonalGaussian, Family, Mixing, NormalMixing, SemiImplicit
from ..families.base import normal_noise
from .base import Critic, CriticSettings

_FEWEST_DRAWS = 512  # that the moments of h are taken from, and at least four per feature


class StructuredCritic(CriticSettings):
    """A critic that learns E[h|x] instead of ∇log q, for a `DiagonalGaussian` conditional with a global σ.

    It starts at the best linear estimate, exact for a Gaussian q. Its network is from k numbers to as many, k being
    the width of the family's last hidden layer, plus the latent dimension if the family has a linear skip: it pays
    where k is well below `dim`. It is f_ψ ≈ −∇log q, so it belongs to residual critics: `PathKL`, whose updates of
    it cost the same in every dimension, and `ScoreMatching` with ψ ≡ 1.

    Everything but the network is taken afresh from the family at every update, so that the linear part stays right
    while the family moves: the matrix of M and σ, and the moments of h, from a fixed set of draws of z.

    Args:
        hidden: Widths of the network's hidden layers.
        activation: A function or a name such as `"silu"`.
        final_scale: Factor on the last layer's initial weights.

    Example:
        >>> from sivi.objectives import PathKL
        >>> objective = PathKL(critic=StructuredCritic((64, 64)), critic_warmup=0)
    """

    hidden: tuple[int, ...] = eqx.field(static=True, converter=as_widths, default=(128, 128))
    activation: Activation = eqx.field(static=True, converter=as_activation, default="silu")
    final_scale: float = number_field("final_scale", 0.01)

    def suits(self, family: Family) -> bool:
        """Whether a family is of the kind that this critic is built around."""
        try:
            self.check(family)
        except TypeError:
            return False
        return True

    def check(self, family: Family) -> None:
        needs = "StructuredCritic needs a SemiImplicit family whose conditional is a DiagonalGaussian with a global σ"
        if not isinstance(family, SemiImplicit):
            raise TypeError(f"{needs}; got {type(family).__name__}.")
        if not isinstance(family.conditional, DiagonalGaussian):
            raise TypeError(f"{needs}; got the conditional {type(family.conditional).__name__}.")
        if isinstance(family.conditional.networks.raw_scale, MLP):
            raise TypeError(f"{needs}; got one with scale={describe('network')}.")

    def init(self, key: PRNGKeyArray, family: Family) -> "FeatureCritic":
        self.check(family)
        size = _loading(_networks(family).mean).shape[0]
        network_key, seed_key = jax.random.split(key)
        network = MLP(
            size,
            size,
            hidden=self.hidden,
            activation=self.activation,
            skip=True,
            skip_scale=0.0,
            final_scale=self.final_scale,
            key=network_key,
        )
        return FeatureCritic(network, jax.random.randint(seed_key, (), 0, 2**31 - 1, jnp.int32))


class FeatureCriticAt(eqx.Module):
    """f_ψ as a function of x, at a family.

    Attributes:
        network: From P w to the part of E[h|x] that is not linear.
        loading: M.
        offset: b.
        precision: The diagonal of Σ⁻¹.
        mean: m, of h.
        root: L, a root of the covariance of h.
        gram: G.
        gain: P Lᵀ.
    """

    network: MLP
    loading: Float[Array, "k dim"]
    offset: Float[Array, " dim"]
    precision: Float[Array, " dim"]
    mean: Float[Array, " k"]
    root: Float[Array, "k k"]
    gram: Float[Array, "k k"]
    gain: Float[Array, "k k"]

    def __call__(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        offset = x - self.offset
        y = matmul_highest(self.loading, self.precision * offset)
        features = self.expected(y - matmul_highest(self.gram, self.mean))
        return self.precision * (offset - matmul_highest(features, self.loading))

    def expected(self, centred: Float[Array, " k"]) -> Float[Array, " k"]:
        """The estimate h̄ of E[h|x], from y − G m."""
        linear = matmul_highest(self.gain, centred)
        return self.mean + matmul_highest(self.root, linear) + matmul_highest(self.network(linear), self.gain)

    def loss(self, h: Float[Array, " k"], xi: Float[Array, " k"]) -> Scalar:
        """(h̄ − h)ᵀ G (h̄ − h) at the x that h and ξ make."""
        error = self.expected(matmul_highest(self.gram, h - self.mean) + xi) - h
        return jnp.sum(error * matmul_highest(self.gram, error))


class FeatureNoise(eqx.Module):
    """Noise of the mixing layer, and standard normals as long as h for ξ."""

    mixing: Mixing
    size: int = eqx.field(static=True)

    def sample_noise(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> tuple[Array, Array]:
        length = self.mixing.normal_noise_dim
        if length is not None and noise_is_together():
            noise, xi = normals(key, (*shape, length), (*shape, self.size))
            return noise, xi
        mixing_key, feature_key = jax.random.split(key)
        xi = normal_noise(feature_key, shape, self.size)
        return self.mixing.sample_noise(mixing_key, shape), xi


class FeatureCritic(Critic):
    """What `StructuredCritic` sets up: the network, and the seed of the draws of z that show the moments of h."""

    reads_family: ClassVar[bool] = True

    network: MLP
    seed: Int[Array, ""]  # not the draws: an optimiser would take them for parameters

    def at(self, family: SemiImplicit | None) -> FeatureCriticAt:
        if family is None:
            raise TypeError("family must be given: StructuredCritic is a function of x only at a family; got None.")
        arrays, static = eqx.partition(family, eqx.is_array)
        fixed: SemiImplicit = eqx.combine(jax.lax.stop_gradient(arrays), static)
        networks = _networks(fixed)
        # A global σ is the same at every z.
        network, sigma = networks.mean, networks(jnp.zeros(fixed.mixing.dim, default_float()))[1]
        loading, precision = _loading(network), 1.0 / sigma**2
        scaled = loading / sigma
        gram = matmul_highest(scaled, scaled.T)
        mean, root = _moments(jax.random.key(self.seed), fixed, len(gram))
        # Where features cancel in Mᵀh, the sums that S is made of are larger than S.
        scales = 1.0 + matmul_highest(jnp.sqrt(jnp.diagonal(gram)), jnp.abs(root))
        spread = matmul_highest(root.T, matmul_highest(gram, root))
        inverse = inverse_of_lower(_cholesky(jnp.eye(len(gram), dtype=gram.dtype) + spread, scales))
        gain = matmul_highest(inverse.T, matmul_highest(inverse, root.T))
        bias = network.layers[-1].bias
        return FeatureCriticAt(self.network, loading, bias, precision, mean, root, gram, gain)

    def noise_source(self, family: SemiImplicit) -> FeatureNoise:
        return FeatureNoise(family.mixing, len(self.network.layers[-1].bias))

    def denoising_loss(self, family: SemiImplicit, noise: tuple[Array, Array]) -> Scalar:
        """The loss in h and ξ alone: no draw of x is made."""
        critic = self.at(family)
        h = jax.vmap(lambda noise: _features(family, noise))(noise[0])
        xi = matmul_highest(noise[1], _cholesky(critic.gram).T)
        return jnp.mean(jax.vmap(critic.loss)(h, xi))


def _networks(family: Family) -> LocationScale:
    assert isinstance(family, SemiImplicit)  # `StructuredCritic.check` sees to both
    assert isinstance(family.conditional, DiagonalGaussian)
    return family.conditional.networks


def _features(family: SemiImplicit, noise: Float[Array, " noise"]) -> Float[Array, " k"]:
    """h, at the noise of the mixing layer."""
    network, z = _networks(family).mean, family.mixing.transform(noise)
    hidden = z
    for layer in network.layers[:-1]:
        hidden = network.activation(layer(hidden))
    return hidden if network.skip is None or len(network.layers) == 1 else jnp.concatenate([z, hidden])


def _loading(network: MLP) -> Float[Array, "k dim"]:
    """M."""
    last = network.layers[-1]
    weight = last.weight if last.in_first else last.weight.T
    if network.skip is None:
        return weight
    skip = network.skip.T
    return weight + skip if len(network.layers) == 1 else jnp.concatenate([skip, weight])


def _moments(key: PRNGKeyArray, family: SemiImplicit, size: int) -> tuple[Float[Array, " k"], Float[Array, "k k"]]:
    """Mean of h and a root of its covariance, from draws of z; exact in z and in what is linear in z ~ N(0, I)."""
    latent_dim = family.mixing.dim
    half = max(_FEWEST_DRAWS, 4 * size, 4 * latent_dim) // 2
    if isinstance(family.mixing, NormalMixing):
        # Draws in pairs ±z, transformed so that their mean is 0 and their covariance I.
        noise = family.mixing.sample_noise(key, (half,))
        noise = matmul_highest(noise, inverse_of_lower(jnp.linalg.cholesky(matmul_highest(noise.T, noise) / half)).T)
        noise = jnp.concatenate([noise, -noise])
    else:
        noise = family.mixing.sample_noise(key, (2 * half,))
    h = jax.vmap(lambda noise: _features(family, noise))(noise)
    mean = jnp.mean(h, axis=0)
    centred = h - mean
    return mean, _cholesky(matmul_highest(centred.T, centred) / len(h))


def _cholesky(matrix: Float[Array, "k k"], scales: Float[Array, " k"] | None = None) -> Float[Array, "k k"]:
    """A root of a covariance that may be singular, with the rounding errors of its entries made up for.

    Args:
        matrix: The covariance.
        scales: Entry (i, j) is rounded as a number of size scales_i · scales_j; the standard deviations if left out.
    """
    info = jnp.finfo(matrix.dtype)
    squares = jnp.diagonal(matrix) if scales is None else scales**2
    slack = (len(matrix) + 32) * info.eps * squares + info.tiny**0.5
    return jnp.linalg.cholesky(matrix + jnp.diag(slack))
