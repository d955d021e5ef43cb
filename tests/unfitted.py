"""Posteriors that were never fitted: of families with known moments, to test what a posterior does with them."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import sivi
from oracles import LinearGaussian, linear_gaussian_model
from sivi._layout import Layout
from sivi._repeats import stack_repeats
from sivi._run import FitSettings, Run, RunState
from sivi.coordinates import DiagonalMap, IdentityMap
from sivi.posterior import Posterior
from sivi.stopping import init_stop


def posterior_of(family, maps, layout=None) -> Posterior:
    """The equal mixture of one family under each of these affine maps."""
    repeats, dim = len(maps), family.dim
    affines = stack_repeats(maps[0], 1) if repeats == 1 else jax.tree.map(lambda *leaves: jnp.stack(leaves), *maps)
    settings = FitSettings(key=jax.random.key(0), objective=None, num_steps=1, repeats=repeats)
    zeros = jnp.zeros(repeats, jnp.int32)
    state = RunState(stack_repeats(family, repeats), None, zeros, zeros, init_stop(None, 1, repeats))
    return Posterior(Run(settings, 0, state), affines, layout or Layout.vector(dim), {}, None)


def ran_off(mean) -> DiagonalMap:
    """The map of a fit that has run off: its mean need not be finite, which a map that is given must be."""
    return eqx.tree_at(lambda one: one.mean, DiagonalMap(jnp.zeros(len(mean)), jnp.ones(len(mean))), jnp.asarray(mean))


def conjugate_posterior(repeats=1) -> Posterior:
    """The posterior of a linear model with known noise, by a family that is exactly it."""
    model = linear_gaussian_model()
    mean, covariance = model.posterior()
    sigma = 0.5 * np.sqrt(np.linalg.eigvalsh(covariance)[0])
    root = np.linalg.cholesky(covariance - sigma**2 * np.eye(3))
    exact = LinearGaussian(jnp.asarray(root), jnp.asarray(mean), jnp.full(3, np.log(sigma)))
    family = sivi.SemiImplicit(sivi.NormalMixing(3), exact)
    return replace(posterior_of(family, [IdentityMap(3)] * repeats), target=model)
