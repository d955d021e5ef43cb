"""Conjugate linear regression with unknown noise: a Bayesian model whose posterior can be drawn exactly.

Tests and benchmarks judge fits by it: the posterior is not Gaussian, but skewed in log σ and Student-t in the
weights.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._arguments import check_finite, check_numbers, check_positive, default_float, describe
from .._layout import Layout
from .._types import ArrayLike, Scalar
from .base import ExactTarget
from .bayesian_model import BayesianModel


class LinearRegression(BayesianModel, ExactTarget):
    """y_n ~ N(wᵀ x_n, σ²), with w | σ ~ N(0, σ² s² I) and σ² ~ InverseGamma(a, b).

    The unknowns are `w` and `log_sigma`. The posterior is normal-inverse-gamma: skewed in log σ, Student-t
    in w, and available in closed form, which makes the model a ground truth for small-data posteriors.

    Args:
        inputs: (num_data, features); add a column of ones for an intercept.
        outputs: (num_data,).
        prior_scale: s, the prior standard deviation of a weight in units of the noise.
        shape: a of the inverse gamma.
        rate: b of the inverse gamma.
    """

    data: tuple[Float[Array, "num_data features"], Float[Array, " num_data"]]
    prior_scale: float = eqx.field(static=True)
    shape: float = eqx.field(static=True)
    rate: float = eqx.field(static=True)

    def __init__(
        self,
        inputs: ArrayLike,
        outputs: ArrayLike,
        *,
        prior_scale: float = 10.0,
        shape: float = 2.0,
        rate: float = 1.0,
    ):
        x, y = check_numbers("inputs", inputs), check_numbers("outputs", outputs)
        if x.ndim != 2 or x.shape[1] < 1 or y.shape != x.shape[:1]:
            raise ValueError(
                "inputs must have shape (num_data, features) and outputs (num_data,); "
                f"got {describe(x)} and {describe(y)}."
            )
        check_finite("inputs", x)
        check_finite("outputs", y)
        self.data = (jnp.asarray(x, default_float()), jnp.asarray(y, default_float()))
        self.prior_scale, self.shape = check_positive("prior_scale", prior_scale), check_positive("shape", shape)
        self.rate = check_positive("rate", rate)

    @property
    def dim(self) -> int:
        return int(self.data[0].shape[-1]) + 1

    @property
    def layout(self) -> Layout:
        # Alphabetical, as in every dict: log_sigma, then w.
        return Layout.like({"log_sigma": jnp.zeros(()), "w": jnp.zeros(self.dim - 1)})

    def log_prior(self, x: Float[Array, " dim"]) -> Scalar:
        log_sigma, w = x[0], x[1:]
        scale = jnp.exp(log_sigma) * self.prior_scale
        log_weights = jnp.sum(jax.scipy.stats.norm.logpdf(w, scale=scale))
        # σ² ~ InverseGamma(a, b) in terms of log σ: density × |dσ²/dlog σ| = 2σ².
        log_noise = -2.0 * self.shape * log_sigma - self.rate * jnp.exp(-2.0 * log_sigma)
        constant = self.shape * jnp.log(self.rate) - jax.scipy.special.gammaln(self.shape) + jnp.log(2.0)
        return log_weights + log_noise + constant

    def log_likelihood(self, x: Float[Array, " dim"], datum: tuple[Float[Array, " features"], Scalar]) -> Scalar:
        features, output = datum
        return jax.scipy.stats.norm.logpdf(output, features @ x[1:], jnp.exp(x[0]))

    def predict(self, x: Float[Array, " dim"], inputs: Float[Array, "n features"]) -> Float[Array, " n"]:
        """The mean response at new inputs."""
        return inputs @ x[1:]

    def sample_datum(
        self, key: PRNGKeyArray, x: Float[Array, " dim"], datum: tuple[Float[Array, " features"], Scalar]
    ) -> Scalar:
        """A response at the inputs of a datum."""
        return datum[0] @ x[1:] + jnp.exp(x[0]) * jax.random.normal(key, (), datum[1].dtype)

    def sample(self, key: PRNGKeyArray) -> Float[Array, " dim"]:
        """One exact draw from the posterior."""
        gamma_key, normal_key = jax.random.split(key)
        features, outputs = self.data
        num_data, width = features.shape
        precision = features.T @ features + jnp.eye(width) / self.prior_scale**2
        chol = jnp.linalg.cholesky(precision)
        mean = jax.scipy.linalg.cho_solve((chol, True), features.T @ outputs)
        shape = self.shape + 0.5 * num_data
        # yᵀy − mᵀΛm as a sum of squares, which does not cancel.
        residuals = outputs - features @ mean
        rate = self.rate + 0.5 * (residuals @ residuals + mean @ mean / self.prior_scale**2)
        log_sigma = 0.5 * (jnp.log(rate) - jnp.log(jax.random.gamma(gamma_key, shape)))
        noise = jax.random.normal(normal_key, (width,), default_float())
        w = mean + jnp.exp(log_sigma) * jax.scipy.linalg.solve_triangular(chol.T, noise, lower=False)
        return jnp.concatenate([log_sigma[None], w])
