"""The models of `models` in NumPyro."""

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

from bridges.models import BY_HAND, COMPONENTS, GROUPS, SLOPES


def hierarchical(group, x, y=None):
    sigma = numpyro.sample("sigma", dist.Exponential(1.0))
    with numpyro.plate("coefficient", 2):
        tau = numpyro.sample("tau", dist.HalfNormal(1.0))
        centre = numpyro.sample("centre", dist.Normal(0.0, 2.0))
    factor = numpyro.sample("L", dist.LKJCholesky(2, 2.0))
    with numpyro.plate("group", GROUPS):
        z = numpyro.sample("z", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
    effects = numpyro.deterministic("effects", centre + z @ (tau[:, None] * factor).T)
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(effects[group, 0] + effects[group, 1] * x, sigma), obs=y)


def counts(x, exposure, y=None, batch_size=None):
    slopes = numpyro.sample("slopes", dist.Normal(0.0, 1.0).expand([SLOPES]).to_event(1))
    intercept = numpyro.sample("intercept", dist.Normal(0.0, 2.0))
    concentration = numpyro.sample("concentration", dist.Gamma(2.0, 0.5))
    numpyro.deterministic("rate", jnp.exp(intercept))
    with numpyro.plate("row", len(x), subsample_size=batch_size) as rows:
        log_mean = jnp.log(exposure[rows]) + intercept + x[rows] @ slopes
        seen = None if y is None else y[rows]
        # NegativeBinomial2, which takes the mean, has the beta function of JAX, with a relative error of 1e-8.
        likelihood = dist.NegativeBinomialLogits(concentration, log_mean - jnp.log(concentration))
        numpyro.sample("y", likelihood, obs=seen)


def mixture(y=None, size=None):
    weights = numpyro.sample("weights", dist.Dirichlet(2.0 * jnp.ones(COMPONENTS)))
    mean = numpyro.sample("mean", dist.ImproperUniform(dist.constraints.ordered_vector, (), (COMPONENTS,)))
    numpyro.factor("mean_prior", dist.Normal(0.0, 3.0).log_prob(mean).sum())
    with numpyro.plate("component", COMPONENTS):
        scale = numpyro.sample("scale", dist.LogNormal(-0.5, 0.5))
    with numpyro.plate("row", size if y is None else len(y)):
        numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(weights), dist.Normal(mean, scale)), obs=y)


#: By name: a model and its arguments.
MODELS = {
    "hierarchical": (hierarchical, BY_HAND["hierarchical"][1]),
    "counts": (counts, BY_HAND["counts"][1]),
    "mixture": (mixture, BY_HAND["mixture"][1]),
}
