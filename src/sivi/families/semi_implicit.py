"""The semi-implicit family q(x) = ∫ q(x|z) q(z) dz."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._fields import module_field
from .._random import noise_is_together, normals
from .._types import Scalar
from .base import Conditional, Family, Mixing

_AUX_BLOCK = 1024  # auxiliary draws evaluated at once in log_prob


class Joint(eqx.Module):
    """One draw of everything.

    Attributes:
        x: The draw.
        z: The mixing variable that generated it.
        noise: Base noise of the mixing layer.
        eps: Noise of the conditional layer.
        score: ∇_x log q(x|z) at this x and z.
    """

    x: Float[Array, "*batch dim"]
    z: Float[Array, "*batch latent"]
    noise: Float[Array, "*batch noise"]
    eps: Float[Array, "*batch dim"]
    score: Float[Array, "*batch dim"]


class SemiImplicit(Family):
    """z ~ q(z) from `mixing`, x ~ q(x|z) from `conditional`.

    Example:
        >>> import jax
        >>> from sivi import DiagonalGaussian, NormalMixing
        >>> family = SemiImplicit(NormalMixing(3), DiagonalGaussian(3, 2, key=jax.random.key(0)))
        >>> family.sample(jax.random.key(1)).shape
        (2,)
    """

    mixing: Mixing = module_field("mixing", Mixing, "a sivi.families.Mixing")
    conditional: Conditional = module_field("conditional", Conditional, "a sivi.families.Conditional")

    def __check_init__(self) -> None:
        if self.mixing.dim != self.conditional.latent_dim:
            raise ValueError(
                f"mixing makes z of length {self.mixing.dim}, but conditional takes {self.conditional.latent_dim}."
            )

    @property
    def dim(self) -> int:
        return self.conditional.dim

    @property
    def varying_scale(self) -> bool:
        return self.conditional.varying_scale

    def sample_noise(
        self, key: PRNGKeyArray, shape: tuple[int, ...] = ()
    ) -> tuple[Float[Array, "*shape noise"], Float[Array, "*shape dim"]]:
        """The parameter-free noise of one draw, or of as many as `shape` says: `(noise, eps)`."""
        lengths = self.mixing.normal_noise_dim, self.conditional.normal_noise_dim
        if shape and noise_is_together() and lengths[0] is not None and lengths[1] is not None:
            noise, eps = normals(key, (*shape, lengths[0]), (*shape, lengths[1]))
            return noise, eps
        keys = jax.random.split(key)
        return self.mixing.sample_noise(keys[0], shape), self.conditional.sample_noise(keys[1], shape)

    def joint(self, noise: Float[Array, " noise"], eps: Float[Array, " dim"]) -> Joint:
        """The draw that given noise makes, differentiable in the parameters."""
        z = self.mixing.transform(noise)
        conditional = self.conditional.at(z)
        return Joint(conditional.transform(eps), z, noise, eps, conditional.score_at(eps))

    def sample_joint(self, key: PRNGKeyArray) -> Joint:
        return self.joint(*self.sample_noise(key))

    def sample(self, key: PRNGKeyArray) -> Float[Array, " dim"]:
        return self.sample_joint(key).x

    def log_prob(self, key: PRNGKeyArray, x: Float[Array, " dim"], num_aux: int) -> tuple[Scalar, Scalar]:
        """log (1/J) Σ_j q(x|z_j) with z_j ~ q(z): biased low (Jensen), less so with more draws.

        The standard error is that of the average, carried to the logarithm by the delta method.
        """
        num_blocks = -(-num_aux // _AUX_BLOCK)
        block = -(-num_aux // num_blocks)

        def add_block(carry: tuple[Array, Array, Array], i: Array) -> tuple[tuple[Array, Array, Array], None]:
            z = jax.vmap(self.mixing.transform)(self.mixing.sample_noise(jax.random.fold_in(key, i), (block,)))
            terms = jax.vmap(lambda z: self.conditional.at(z).log_prob(x))(z)
            terms = jnp.where(i * block + jnp.arange(block) < num_aux, terms, -jnp.inf)
            top, total, total_sq = carry
            new_top = jnp.maximum(top, jnp.max(terms))
            shift, weights = jnp.exp(top - new_top), jnp.exp(terms - new_top)
            total = total * shift + jnp.sum(weights)
            return (new_top, total, total_sq * shift**2 + jnp.sum(weights**2)), None

        zero = jnp.zeros((), x.dtype)
        start = (zero + jnp.finfo(x.dtype).min, zero, zero)
        (top, total, total_sq), _ = jax.lax.scan(add_block, start, jnp.arange(num_blocks))
        relative_variance = jnp.maximum(total_sq / total**2 - 1.0 / num_aux, 0.0)
        return top + jnp.log(total / num_aux), jnp.sqrt(relative_variance)


def check_semi_implicit(method: object, family: Family) -> None:
    """Refuse a family without the two layers that every semi-implicit method works with."""
    if not isinstance(family, SemiImplicit):
        raise TypeError(
            f"{type(method).__name__} needs a SemiImplicit family, with a mixing layer and a conditional; "
            f"got {type(family).__name__}."
        )


def check_mixing_density(method: object, family: SemiImplicit) -> None:
    """Refuse layers for which the density of the mixing noise given x cannot be differentiated in the noise."""

    def gradient(family: SemiImplicit) -> Array:
        x = jnp.zeros(family.dim, float)

        def log_density(noise: Array) -> Array:
            z = family.mixing.transform(noise)
            return family.mixing.noise_log_prob(noise) + family.conditional.at(z).log_prob(x)

        return jax.grad(log_density)(family.mixing.sample_noise(jax.random.key(0)))

    try:
        eqx.filter_eval_shape(gradient, family)
    except Exception as error:
        raise TypeError(
            f"{type(method).__name__} needs the density of the mixing noise given x and its gradient, and "
            f"{type(family.mixing).__name__} with {type(family.conditional).__name__} has none in JAX: "
            f"{type(error).__name__}: {error}"
        ) from error
