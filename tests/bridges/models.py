"""Three models by hand, in plain JAX: their data, and log densities of named, constrained unknowns.

Other modules of this folder write the same models in the languages of other libraries, with the same names. The names
are not in alphabetical order where the models draw them, so that an order that is mixed up is seen.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jax.scipy.stats import gamma, norm

import sivi

GROUPS, SLOPES, COMPONENTS = 6, 3, 3


def hierarchical_data():
    """Rows in groups, each of which has an intercept and a slope of its own."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(GROUPS), 12)
    x = rng.normal(size=group.size)
    coefficients = [1.0, -0.5] + rng.normal(size=(GROUPS, 2)) @ np.array([[0.8, 0.3], [0.0, 0.5]])
    y = coefficients[group, 0] + coefficients[group, 1] * x + 0.6 * rng.normal(size=group.size)
    return {"group": group, "x": x, "y": y}


def hierarchical(p, data):
    """Varying slopes: z are the standardised effects of the groups, L the Cholesky factor of their correlations.

    centre ~ N(0, 2²),  tau ~ half-normal(1),  L ~ LKJ(2),  z ~ N(0, 1),  sigma ~ exponential(1),
    y ~ N(b₀ + b₁ x, sigma²)  with  b = centre + tau L z  of the group.
    """
    effects = p["centre"] + p["z"] @ (p["tau"][:, None] * p["L"]).T
    mean = effects[data["group"], 0] + effects[data["group"], 1] * data["x"]
    # LKJ(2) of a 2 × 2 matrix: ½ B(2, ½)⁻¹-normalised; log L₂₂ has the exponent 2η − 2 = 2.
    lkj = 2.0 * jnp.log(p["L"][1, 1]) - jnp.log(4.0 / 3.0)
    return (
        jnp.sum(norm.logpdf(p["centre"], 0.0, 2.0))
        + jnp.sum(norm.logpdf(p["tau"]) + jnp.log(2.0))
        + lkj
        + jnp.sum(norm.logpdf(p["z"]))
        - p["sigma"]
        + jnp.sum(norm.logpdf(data["y"], mean, p["sigma"]))
    )


def counts_data(rows=60):
    """Counts with exposures, and covariates."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(rows, SLOPES))
    exposure = rng.uniform(0.5, 3.0, size=rows)
    mean = exposure * np.exp(0.7 + x @ [0.5, -0.3, 0.1])
    y = rng.poisson(rng.gamma(3.0, mean / 3.0))
    return {"x": x, "exposure": exposure, "y": y}


def negative_binomial(y, mean, size):
    """log p(y) of counts with a mean and variance mean + mean² / size."""
    choose = gammaln(y + size) - gammaln(size) - gammaln(y + 1.0)
    return choose + size * jnp.log(size / (size + mean)) + y * jnp.log(mean / (size + mean))


def counts(p, data):
    """Negative-binomial counts: slopes ~ N(0, 1),  intercept ~ N(0, 2²),  concentration ~ Γ(2, rate 0.5)."""
    log_mean = jnp.log(data["exposure"]) + p["intercept"] + data["x"] @ p["slopes"]
    return (
        jnp.sum(norm.logpdf(p["slopes"]))
        + norm.logpdf(p["intercept"], 0.0, 2.0)
        + gamma.logpdf(p["concentration"], 2.0, scale=2.0)
        + jnp.sum(negative_binomial(data["y"], jnp.exp(log_mean), p["concentration"]))
    )


def mixture_data():
    """Numbers of three groups, two of which are close."""
    rng = np.random.default_rng(2)
    component = rng.choice(COMPONENTS, p=[0.3, 0.3, 0.4], size=150)
    y = np.array([-2.0, 0.5, 3.0])[component] + np.array([0.5, 0.7, 0.6])[component] * rng.normal(size=150)
    return {"y": y}


def mixture(p, data):
    """A mixture: weights ~ Dirichlet(2, 2, 2),  increasing means with density ∝ N(0, 3²) each,  log scales ~ N(−½, ½²).

    `mean` are the means in increasing order.
    """
    log_weights = jnp.log(p["weights"])
    each = log_weights + norm.logpdf(data["y"][:, None], p["mean"], p["scale"])
    log_scale = jnp.log(p["scale"])
    return (
        gammaln(6.0)
        + jnp.sum(log_weights)
        + jnp.sum(norm.logpdf(p["mean"], 0.0, 3.0))
        + jnp.sum(norm.logpdf(log_scale, -0.5, 0.5) - log_scale)
        + jnp.sum(jax.nn.logsumexp(each, axis=1))
    )


#: By name: an example of the unknowns, for `sivi.fit(..., like=)`.
LIKE = {
    "hierarchical": {
        "centre": jnp.zeros(2),
        "tau": sivi.positive((2,)),
        "L": sivi.correlation_cholesky(2),
        "z": jnp.zeros((GROUPS, 2)),
        "sigma": sivi.positive(),
    },
    "counts": {"slopes": jnp.zeros(SLOPES), "intercept": 0.0, "concentration": sivi.positive()},
    "mixture": {
        "weights": sivi.simplex(COMPONENTS),
        "mean": sivi.ordered(COMPONENTS),
        "scale": sivi.positive((COMPONENTS,)),
    },
}

#: By name: the log density of the constrained unknowns, which includes every constant, and the data.
BY_HAND = {
    "hierarchical": (hierarchical, hierarchical_data()),
    "counts": (counts, counts_data()),
    "mixture": (mixture, mixture_data()),
}
