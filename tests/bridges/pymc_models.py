"""The models of `models` in PyMC, and the unknowns by hand of a point of each."""

import jax.numpy as jnp
import numpy as np
import pymc as pm

from bridges.models import BY_HAND, COMPONENTS, GROUPS, SLOPES

# PyTensor keeps the Python number 3.0 in float32, and so takes its logarithm with 8 digits.
HALF, TWO, THREE = np.float64(0.5), np.float64(2.0), np.float64(3.0)


def hierarchical(data):
    coords = {"group": [f"g{i}" for i in range(GROUPS)], "coefficient": ["intercept", "slope"]}
    with pm.Model(coords=coords) as model:
        x = pm.Data("x", data["x"], dims="row")
        sigma = pm.Exponential("sigma", 1.0)
        chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.HalfNormal.dist(1.0), compute_corr=True)
        centre = pm.Normal("centre", 0.0, TWO, dims="coefficient")
        z = pm.Normal("z", 0.0, 1.0, dims=("group", "coefficient"))
        effects = pm.Deterministic("effects", centre + z @ chol.T, dims=("group", "coefficient"))
        mean = effects[data["group"], 0] + effects[data["group"], 1] * x
        pm.Normal("y", mean, sigma, observed=data["y"], dims="row")
    return model


def hierarchical_by_hand(p):
    """PyMC's `chol` is the triangle of C = diag(tau) L, row by row: the unknowns, and log |det ∂(tau, L₂₁)/∂C|.

    The constant of PyMC's LKJ density, log ¾ here, stands there with the other sign.
    """
    first, below, last = p["chol"]
    tau = jnp.stack([first, jnp.hypot(below, last)])
    L = jnp.array([[1.0, 0.0], [below / tau[1], last / tau[1]]])
    return {name: p[name] for name in ("centre", "z", "sigma")} | {"tau": tau, "L": L}, jnp.log(
        L[1, 1] / tau[1]
    ) + 2.0 * jnp.log(4.0 / 3.0)


def counts(data):
    with pm.Model() as model:
        x, exposure = pm.Data("x", data["x"]), pm.Data("exposure", data["exposure"])
        slopes = pm.Normal("slopes", 0.0, 1.0, shape=SLOPES)
        intercept = pm.Normal("intercept", 0.0, TWO)
        concentration = pm.Gamma("concentration", alpha=TWO, beta=HALF)
        pm.Deterministic("rate", pm.math.exp(intercept))
        mean = exposure * pm.math.exp(intercept + x @ slopes)
        pm.NegativeBinomial("y", mu=mean, alpha=concentration, observed=data["y"])
    return model


def mixture(data):
    with pm.Model(coords={"component": range(COMPONENTS)}) as model:
        weights = pm.Dirichlet("weights", 2.0 * np.ones(COMPONENTS), dims="component")
        ordered = pm.distributions.transforms.ordered
        mean = pm.Normal("mean", 0.0, THREE, dims="component", transform=ordered, initval=[-1.0, 0.0, 1.0])
        scale = pm.LogNormal("scale", -HALF, HALF, dims="component")
        pm.NormalMixture("y", w=weights, mu=mean, sigma=scale, observed=data["y"])
    return model


def as_they_are(p):
    return p, 0.0


#: By name: a function of the data that makes the model, and one that leads from its unknowns to those by hand.
MODELS = {
    "hierarchical": (hierarchical, hierarchical_by_hand),
    "counts": (counts, as_they_are),
    "mixture": (mixture, as_they_are),
}


def model_of(name):
    return MODELS[name][0](BY_HAND[name][1])
