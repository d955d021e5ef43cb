"""Ground truth: the linear-Gaussian family, for which everything has a closed form, and the statistics to test it.

z ~ N(0, I), x|z ~ N(A z + b, diag σ²) gives q(x) = N(b, AAᵀ + diag σ²). For networks, log q by quadrature.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy import stats

import sivi
from sivi.families.base import Conditional
from sivi.families.diagonal_gaussian import GaussianAt
from sivi.targets import BayesianModel, GaussianMixture, LinearRegression


class LinearGaussian(Conditional):
    """x|z ~ N(A z + b, diag σ²) with σ = exp(log_sigma)."""

    A: Array
    b: Array
    log_sigma: Array

    @property
    def latent_dim(self):
        return self.A.shape[1]

    @property
    def dim(self):
        return self.A.shape[0]

    def sample_noise(self, key, shape=()):
        return jax.random.normal(key, (*shape, self.dim), self.A.dtype)

    def at(self, z):
        return GaussianAt(self.A @ z + self.b, jnp.exp(self.log_sigma))

    @property
    def covariance(self):
        return self.A @ self.A.T + jnp.diag(jnp.exp(2 * self.log_sigma))


def linear_gaussian_family() -> sivi.SemiImplicit:
    A = jnp.array([[0.9, -0.4], [0.3, 0.7], [-0.5, 0.2]])
    b = jnp.array([0.4, -0.3, 0.8])
    return sivi.SemiImplicit(sivi.NormalMixing(2), LinearGaussian(A, b, jnp.log(jnp.array([0.6, 0.8, 0.5]))))


def gaussian_target() -> GaussianMixture:
    """Correlated, with another mean and covariance than the family."""
    root = np.array([[1.0, 0.0, 0.0], [0.5, 0.8, 0.0], [-0.3, 0.4, 0.9]])
    return GaussianMixture([[-0.2, 0.5, 0.1]], [root @ root.T])


def fisher_divergence(conditional: LinearGaussian, target: GaussianMixture) -> Array:
    """E_q‖∇log p − ∇log q‖² in closed form, as a function of the family's parameters."""
    precision = jnp.linalg.inv(target.cholesky[0] @ target.cholesky[0].T)
    C = conditional.covariance
    difference = jnp.linalg.inv(C) - precision
    offset = precision @ (conditional.b - target.means[0])
    return offset @ offset + jnp.trace(difference @ C @ difference)


def optimal_critic(conditional: LinearGaussian, target: GaussianMixture):
    """g(x) = S(x) − ∇log q(x), held fixed: it does not follow the family's parameters."""
    C_inv = jnp.linalg.inv(conditional.covariance)
    return lambda x: lambda score: score_of(target, x) + C_inv @ (x - conditional.b)


def score_of(target: GaussianMixture, x: Array) -> Array:
    return target.whitener[0].T @ (target.whitener[0] @ (target.means[0] - x))


class Accumulated(eqx.Module):
    """Mean and standard error of a pytree of Monte Carlo estimates."""

    mean: object
    error: object


def monte_carlo(estimate, noise, block: int = 10_000) -> Accumulated:
    """Mean and standard error of `estimate(noise of one draw)` over all draws, in blocks."""

    def sums(part):
        values = jax.vmap(estimate)(*part)
        return jax.tree.map(lambda v: (v.sum(0), (v**2).sum(0)), values)

    num = noise[0].shape[0]
    blocks = jax.tree.map(lambda a: a.reshape(num // block, block, *a.shape[1:]), noise)
    total = jax.tree.map(lambda a: a.sum(0), jax.jit(lambda b: jax.lax.map(sums, b))(blocks))
    is_pair = lambda node: isinstance(node, tuple) and len(node) == 2  # noqa: E731
    mean = jax.tree.map(lambda pair: pair[0] / num, total, is_leaf=is_pair)
    error = jax.tree.map(lambda pair: jnp.sqrt((pair[1] / num - (pair[0] / num) ** 2) / num), total, is_leaf=is_pair)
    return Accumulated(mean, error)


def largest_z(result: Accumulated, truth) -> dict[str, float]:
    """The largest |mean − truth| / standard error of each leaf."""
    leaves = zip(
        jax.tree_util.tree_leaves_with_path(result.mean),
        jax.tree.leaves(result.error),
        jax.tree.leaves(truth),
        strict=True,
    )
    return {
        jax.tree_util.keystr(path, simple=True): float(jnp.max(jnp.abs(mean - exact) / error))
        for (path, mean), error, exact in leaves
    }


def bonferroni(count: int, false_failure_rate: float = 1e-4) -> float:
    """The |z| that the largest of `count` scores exceeds at most at this rate when all is right."""
    return float(stats.norm.isf(false_failure_rate / (2 * count)))


class LinearGaussianModel(BayesianModel):
    """y_n ~ N(x·features_n, noise²), x ~ N(0, I): a conjugate model with a Gaussian posterior."""

    data: tuple[Array, Array]
    noise: float = 0.5

    @property
    def dim(self):
        return self.data[0].shape[1]

    def log_prior(self, x):
        return jnp.sum(jax.scipy.stats.norm.logpdf(x))

    def log_likelihood(self, x, datum):
        features, y = datum
        return jax.scipy.stats.norm.logpdf(y, features @ x, self.noise)

    def predict(self, x, inputs):
        return inputs @ x

    def posterior(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance."""
        features, y = (np.asarray(a, float) for a in self.data)
        covariance = np.linalg.inv(np.eye(self.dim) + features.T @ features / self.noise**2)
        return covariance @ features.T @ y / self.noise**2, covariance


def linear_gaussian_model(num_data: int = 24) -> LinearGaussianModel:
    rng = np.random.default_rng(3)
    features = rng.normal(size=(num_data, 3))
    y = features @ np.array([0.7, -1.2, 0.3]) + 0.5 * rng.normal(size=num_data)
    return LinearGaussianModel((jnp.asarray(features), jnp.asarray(y)))


def linear_regression() -> LinearRegression:
    """A conjugate regression with unknown noise: a posterior that is not Gaussian, with a known evidence."""
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(30), rng.normal(size=(30, 2))])
    return LinearRegression(x, x @ np.array([0.5, 1.0, -0.7]) + 0.6 * rng.normal(size=30))


def expected_log_prob(conditional: LinearGaussian, target: GaussianMixture) -> Array:
    """E_q[log p(x)] in closed form, for a target of one component."""
    offset = target.whitener[0] @ (conditional.b - target.means[0])
    spread = target.whitener[0] @ conditional.covariance @ target.whitener[0].T
    return target.log_norms[0] - 0.5 * (offset @ offset + jnp.trace(spread))


def elbo(conditional: LinearGaussian, target: GaussianMixture) -> Array:
    """E_q[log p(x) − log q(x)], which is minus the reverse KL, in closed form."""
    entropy = 0.5 * (conditional.dim * (1.0 + jnp.log(2 * jnp.pi)) + jnp.linalg.slogdet(conditional.covariance)[1])
    return expected_log_prob(conditional, target) + entropy


def gradient_of(family_gradient: sivi.SemiImplicit) -> dict[str, Array]:
    """The gradient in each parameter of the linear-Gaussian family, by name."""
    conditional = family_gradient.conditional
    return {"A": conditional.A, "b": conditional.b, "log_sigma": conditional.log_sigma}


def elbo_gradient(conditional: LinearGaussian, target: GaussianMixture) -> dict[str, Array]:
    exact = eqx.filter_grad(elbo)(conditional, target)
    return {"A": exact.A, "b": exact.b, "log_sigma": exact.log_sigma}


def mixing_posterior(conditional: LinearGaussian, x: Array) -> tuple[Array, Array]:
    """Mean and covariance of z given x."""
    scaled = conditional.A / jnp.exp(2 * conditional.log_sigma)[:, None]
    covariance = jnp.linalg.inv(jnp.eye(conditional.latent_dim) + conditional.A.T @ scaled)
    return covariance @ scaled.T @ (x - conditional.b), covariance


def exact_mixing_noise(key: Array, conditional: LinearGaussian, x: Array) -> Array:
    """One exact draw of z given x."""
    mean, covariance = mixing_posterior(conditional, x)
    return mean + jnp.linalg.cholesky(covariance) @ jax.random.normal(key, mean.shape, mean.dtype)


def kernel_stein(conditional: LinearGaussian, target: GaussianMixture, bandwidth: float) -> Array:
    """E[k(x, x′) (S − ∇log q)(x)ᵀ (S − ∇log q)(x′)] with a Gaussian kernel, in closed form.

    The difference of scores is linear, a + Bx. With u = x − x′ ~ N(0, 2C) and v = (x + x′)/2 ~ N(b, C/2), which are
    independent, the product is ‖a + Bv‖² − ¼‖Bu‖², and the kernel depends on u alone.
    """
    precision = target.whitener[0].T @ target.whitener[0]
    C = conditional.covariance
    B = jnp.linalg.inv(C) - precision
    at_mean = precision @ (target.means[0] - conditional.b)  # a + B b
    identity = jnp.eye(conditional.dim)
    mass = jnp.linalg.det(identity + 2 * C / bandwidth**2) ** -0.5
    tilted = jnp.linalg.inv(jnp.linalg.inv(2 * C) + identity / bandwidth**2)
    return mass * (at_mean @ at_mean + 0.5 * jnp.trace(B @ C @ B.T) - 0.25 * jnp.trace(B @ tilted @ B.T))


def network_family() -> sivi.SemiImplicit:
    """σ(z) and an implicit mixing layer."""
    key = jax.random.key(7)
    conditional = sivi.DiagonalGaussian(2, 3, hidden=(8,), scale="network", key=key)
    return sivi.SemiImplicit(sivi.ImplicitMixing(4, 2, hidden=(8,), key=key), conditional)


def quadrature_family(mixing: str) -> sivi.SemiImplicit:
    """σ(z), with a one-dimensional mixing noise, so that log q is an integral over the line."""
    key = jax.random.key(3)
    layer = sivi.NormalMixing(1) if mixing == "normal" else sivi.ImplicitMixing(1, 1, hidden=(8,), key=key)
    return sivi.SemiImplicit(layer, sivi.DiagonalGaussian(1, 2, hidden=(8,), scale="network", key=key))


def log_q(family: sivi.SemiImplicit, x: Array) -> Array:
    """log q(x) by quadrature over the mixing noise, differentiable in the family too.

    Equal weights converge exponentially for a smooth integrand: at the draws of `quadrature_family`, 161 points and
    1601 agree to 1e-11.
    """
    gammas = jnp.linspace(-8.0, 8.0, 161)[:, None]

    def log_joint(gamma):
        z = family.mixing.transform(gamma)
        return family.mixing.noise_log_prob(gamma) + family.conditional.at(z).log_prob(x)

    return jax.nn.logsumexp(jax.vmap(log_joint)(gammas)) + jnp.log(16.0 / 160)


def flat(tree) -> Array:
    """All leaves of a pytree in one vector."""
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def paired_z(difference: Accumulated) -> Array:
    """Mean over standard error of each entry of a difference between two estimates from the same noise.

    Where the two are the same function of the noise, as in a parameter's effect on neither, error and score are zero.
    """
    varies = difference.error > 1e-12
    assert int(varies.sum()) > 20
    assert float(jnp.abs(jnp.where(varies, 0.0, difference.mean)).max()) < 1e-12
    return jnp.where(varies, difference.mean / jnp.where(varies, difference.error, 1.0), 0.0)


def ar1(rho, shape, seed=0):
    """Stationary Gaussian AR(1) chains: variance 1, autocorrelation ρ^t, ESS = N (1 − ρ) / (1 + ρ)."""
    noise = np.random.default_rng(seed).normal(size=shape)
    chains = np.empty(shape)
    chains[:, 0] = noise[:, 0]
    for t in range(1, shape[1]):
        chains[:, t] = rho * chains[:, t - 1] + np.sqrt(1 - rho**2) * noise[:, t]
    return chains
