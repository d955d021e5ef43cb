"""x | z ~ N(μ_φ(z), B diag(σ_φ(z)²) Bᵀ): a full covariance, diagonal in a basis B that all z share.

The basis is what a diagonal covariance lacks where unknowns move together. In a centred hierarchy with θ_j ~ N(μ, τ²)
and a small τ, all θ_j are near μ, each within τ: no diagonal covariance in (μ, θ) is wide in μ and narrow in θ_j − μ.

B = (I + lower)(I + upper), with triangular parts that start at zero. Its determinant is 1, and y = B⁻¹ x has a diagonal
covariance, so every density is that of a diagonal Gaussian in y.
"""

from typing import ClassVar, Unpack

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._arguments import default_float
from .._backend import matmul_highest
from .._networks import LocationScale, LocationScaleSettings
from .._triangular import inverse_of_lower
from .._types import KeyLike, Scalar
from .base import Conditional, ConditionalDistribution, normal_noise
from .diagonal_gaussian import GaussianAt


class DenseGaussianAt(ConditionalDistribution):
    """N(B mean_y, B diag(sigma²) Bᵀ).

    Attributes:
        in_basis: The distribution of y = B⁻¹ x.
        basis: B.
        inverse: B⁻¹.
    """

    in_basis: GaussianAt
    basis: Float[Array, "dim dim"]
    inverse: Float[Array, "dim dim"]
    shared: ClassVar[tuple[str, ...]] = ("basis", "inverse")

    @property
    def mean(self) -> Float[Array, " dim"]:
        return self.basis @ self.in_basis.mean

    def transform(self, eps: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return self.basis @ self.in_basis.transform(eps)

    def score_at(self, eps: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return self.in_basis.score_at(eps) @ self.inverse

    def log_prob(self, x: Float[Array, " dim"]) -> Scalar:
        return self.in_basis.log_prob(self.inverse @ x)

    def score(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return self.in_basis.score(self.inverse @ x) @ self.inverse

    def log_prob_pairs(self, x: Float[Array, "n dim"]) -> Float[Array, "n components"]:
        return self.in_basis.log_prob_pairs(matmul_highest(x, self.inverse.T))

    def weighted_score(self, x: Float[Array, "n dim"], weights: Float[Array, "n components"]) -> Float[Array, "n dim"]:
        in_basis = self.in_basis.weighted_score(matmul_highest(x, self.inverse.T), weights)
        return matmul_highest(in_basis, self.inverse)


class DenseGaussian(Conditional):
    """Gaussian conditional with a full covariance B diag(σ(z)²) Bᵀ; the basis B is fitted, and the same for all z.

    Args:
        latent_dim: Length of z.
        dim: Length of x.
        key: An int or a JAX key, of the initial weights.
        **networks: Settings of the networks μ and σ, such as `hidden`: those of `sivi.families.LocationScale`. They
            give mean and scales in the basis.

    Example:
        >>> conditional = DenseGaussian(3, 2, scale="network", key=0)
        >>> conditional.at(jnp.zeros(3)).transform(jnp.ones(2)).shape
        (2,)
    """

    latent_dim: int = eqx.field(static=True)
    dim: int = eqx.field(static=True)
    networks: LocationScale
    triangles: Float[Array, "dim dim"]

    def __init__(self, latent_dim: int, dim: int, *, key: KeyLike, **networks: Unpack[LocationScaleSettings]):
        self.networks = LocationScale(latent_dim, dim, key=key, **networks)
        self.latent_dim, self.dim = int(latent_dim), int(dim)
        # The diagonal is not used.
        self.triangles = jnp.asarray(np.zeros((self.dim, self.dim), default_float()))

    @property
    def normal_noise_dim(self) -> int:
        return self.dim

    @property
    def varying_scale(self) -> bool:
        return self.networks.varying_scale

    def sample_noise(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Float[Array, "*shape dim"]:
        return normal_noise(key, shape, self.dim)

    def at(self, z: Float[Array, " latent"]) -> DenseGaussianAt:
        identity = jnp.eye(self.dim, dtype=self.triangles.dtype)
        lower, upper = identity + jnp.tril(self.triangles, -1), identity + jnp.triu(self.triangles, 1)
        inverse = matmul_highest(inverse_of_lower(upper.T).T, inverse_of_lower(lower))
        return DenseGaussianAt(GaussianAt(*self.networks(z)), matmul_highest(lower, upper), inverse)
