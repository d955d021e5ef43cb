"""Reverse KL with the mixture of a batch's own conditionals in place of the density of q: no critic.

An update draws z_1, …, z_m and x_i ~ q(x|z_i). The draws are those of the mixture of these m conditionals, one from
each of its components,

    q̂(x) = (1/m) Σ_j q(x|z_j),    log q̂(x_i) − log p(x_i) averaged over i,

which estimates KL(q̂‖p), up to the constant of p. KL is convex in its first argument, and q is the mean of q̂ over
z_1, …, z_m. So its expectation is an upper bound of KL(q‖p): minus the bound of SIVI with m − 1 auxiliary draws. It
falls to KL(q‖p) with m.

The gradient passes through the draws x_i and through the components of q̂. The second part has expectation zero given
the z_j, since Σ_i E_{x ~ q(·|z_i)}[∂_φ log q̂(x)] = m ∫ ∂_φ q̂(x) dx = 0. Both gradients, with it and without, are
therefore unbiased for the same bound:

    full:  ∇_φ of the average, through everything;
    path:  −(1/m) Σ_i (S(x_i) − ∇log q̂(x_i))ᵀ ∂x_i/∂φ.

The path gradient has no noise where q̂ = p. With further components beyond those of the batch (`num_aux`) the same holds
on average over the z_j.

The bound is loose where a component meets no other one: then q̂(x_i) is q(x_i|z_i)/m. The mean weight of the generating
component, q(x_i|z_i) / Σ_j q(x_i|z_j), says so.
"""

import math
from collections.abc import Collection
from dataclasses import KW_ONLY

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .. import optimizers
from .._fields import choice_field, count_field, optional_positive_field
from .._types import Metrics, Scalar
from ..families import Components, Family, SemiImplicit
from ..families.semi_implicit import check_semi_implicit
from ..optimizers import Adam, OptimizerLike, optimizer_field
from ..schedules import Cosine, RunLike, replace_fields
from ..targets import Target
from ..targets.evaluate import at_points
from .base import Curve, LossState, Noise, Objective

GRADIENTS = ("path", "full")
#: An update is not finite, and so skipped, when more than this share of its draws has no finite score.
MAX_SHARE_NOT_FINITE = 0.5


class MixtureKL(Objective):
    """Descend KL(q̂‖p), where q̂ is the mixture of the conditionals of the update's own draws.

    There is no critic to train, and the loss is a bound: the recorded `loss` is minus the ELBO of q̂, in nats and up to
    the constant of p, also recorded as `negative_elbo`. For a target that knows only its score it is the Fisher
    divergence to the score of q̂. `own_weight` is the mean weight of the generating component: near 1 the bound is
    loose, and a family with wide conditionals is preferred to the right one.

    Draws whose score or log density is not finite are left out.

    Args:
        num_particles: m, draws of x per update, and components of q̂.
        num_aux: Further components, from fresh z. An update evaluates the networks m + `num_aux` times.
        gradient: `"path"`, without noise where q̂ = p; or `"full"`, through the components of q̂ too. Both are unbiased
            for the gradient of the same bound.
        clip: Upper bound of the size of a draw's S − ∇log q̂ (for `"full"`, of its S): its root mean square, in units
            of the conditional's score. None turns it off.
        optimizer: `sivi.optimizers` settings or any Optax transform.

    Example:
        >>> objective = MixtureKL(num_particles=128, gradient="full")

    Reference:
        Yin and Zhou, Semi-implicit variational inference (ICML 2018), for the bound; Roeder, Wu and Duvenaud, Sticking
        the landing (NeurIPS 2017), for the path gradient.
    """

    _: KW_ONLY
    num_particles: int = count_field("num_particles", 256)
    num_aux: int = count_field("num_aux", 0, minimum=0)
    gradient: str = choice_field("gradient", GRADIENTS, "path")
    clip: float | None = optional_positive_field("clip", 10.0)
    optimizer: OptimizerLike = optimizer_field("optimizer", Adam(Cosine(1e-3), b1=0.9, b2=0.99))

    def bind(self, plan: RunLike) -> "MixtureKL":
        return replace_fields(self, optimizer=optimizers.bind(self.optimizer, plan))

    def check(self, family: Family, target: Target) -> None:
        check_semi_implicit(self, family)

    def curves(self, recorded: Collection[str]) -> dict[str, Curve]:
        bound = Curve("minus ELBO", "falls, then flat: minus a lower bound of the log evidence")
        divergence = Curve("Fisher divergence", "falls, then flat near 0")
        return {
            "loss": bound if "negative_elbo" in recorded else divergence,
            "negative_elbo": bound,
            "own_weight": Curve("weight of the own component", "below 0.13; near 1 the bound is loose"),
        }

    def init(self, key: PRNGKeyArray, family: Family, target: Target) -> LossState:
        return LossState(optimizers.init(self.optimizer, family))

    def step(
        self,
        key: PRNGKeyArray,
        family: SemiImplicit,
        state: LossState,
        target: Target,
        batch: Int[Array, " batch"] | None,
    ) -> tuple[SemiImplicit, LossState, Metrics]:
        noise = family.sample_noise(key, (self.num_particles + self.num_aux,))
        grads, metrics = eqx.filter_grad(self.surrogate, has_aux=True)(family, target, batch, noise)
        family, optimizer = optimizers.update(self.optimizer, grads, state.optimizer, family)
        return family, LossState(optimizer), metrics

    def surrogate(
        self, family: SemiImplicit, target: Target, batch: Int[Array, " batch"] | None, noise: Noise
    ) -> tuple[Scalar, Metrics]:
        """A number whose gradient in the family is the one chosen, and the metrics; its value has no meaning.

        Args:
            family: The family.
            target: The target; its score is evaluated, never differentiated.
            batch: Rows of data.
            noise: Of m + `num_aux` draws; only the first m become points.
        """
        components = family.conditional.at_each(jax.vmap(family.mixing.transform)(noise[0]))
        own, eps = components.first(self.num_particles), noise[1][: self.num_particles]
        x = own.transform(eps)
        points, units = jax.lax.stop_gradient((x, own.score_at(eps)))
        fixed = jax.lax.stop_gradient(components)
        log_q, terms, total = _log_mixture(fixed, points, own)
        q_score = fixed.weighted_score(points, terms) / total[:, None]
        score, log_p = at_points(target, lambda x: _score_and_log_prob(target, x, batch), points, batch)
        finite = jnp.all(jnp.isfinite(score), axis=-1)
        metrics: Metrics = {}
        if log_p is not None:
            values = log_q - log_p
            finite = finite & jnp.isfinite(values)
            metrics["loss"] = metrics["negative_elbo"] = _mean(values, finite)
        else:
            metrics["loss"] = _mean(jnp.sum((score - q_score) ** 2, axis=-1), finite)
        metrics["own_weight"] = jnp.mean(jnp.diagonal(terms) / total)
        g = score - q_score if self.gradient == "path" else score
        g = self._clipped(
            jnp.where(finite[:, None], g, 0.0), units
        )  # zero times a score that is not finite is not zero
        value = -jnp.sum(g * x, axis=-1)
        if self.gradient == "full":
            value = value + _log_mixture(components, x, own)[0]
        return _mean(value, finite), metrics

    def _clipped(self, g: Float[Array, "n dim"], conditional_score: Float[Array, "n dim"]) -> Float[Array, "n dim"]:
        if self.clip is None:
            return g
        units = jnp.sqrt(jnp.mean(conditional_score**2, axis=0))  # 1/σ for a Gaussian with a global σ
        size = jnp.sqrt(jnp.mean((g / units) ** 2, axis=-1, keepdims=True))
        return g * (self.clip / jnp.maximum(size, self.clip))


def _score_and_log_prob(
    target: Target, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None
) -> tuple[Float[Array, " dim"], Scalar | None]:
    return target.score(x, batch), target.log_prob(x, batch) if target.knows_log_prob else None


def _log_mixture(
    components: Components, x: Float[Array, "n dim"], own: Components
) -> tuple[Float[Array, " n"], Float[Array, "n components"], Float[Array, " n"]]:
    """log q̂ at every x_i, each component's density there in units of that of the generating one, and their sums.

    These ratios do not overflow: by Markov's inequality one of them, at a draw of the denominator, is above e⁸⁰ with
    probability at most e⁻⁸⁰.
    """
    shift = jax.lax.stop_gradient(own.log_prob(x))
    terms = jnp.exp(components.log_prob_pairs(x) - shift[:, None])
    total = jnp.sum(terms, axis=1)
    return shift + jnp.log(total) - math.log(terms.shape[1]), terms, total


def _mean(values: Float[Array, " n"], finite: Bool[Array, " n"]) -> Scalar:
    """The mean over finite values; NaN if they are too few."""
    share = jnp.mean(finite, dtype=values.dtype)
    mean = jnp.sum(jnp.where(finite, values, 0.0)) / jnp.maximum(jnp.sum(finite), 1)
    return jnp.where(share >= 1.0 - MAX_SHARE_NOT_FINITE, mean, jnp.nan)
