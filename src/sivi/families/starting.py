"""Families with a linear skip that start at N(0, I).

A share of the variance comes from z through the skip, the rest from σ; the network adds almost none.
"""

import math

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from .._networks import LocationScaleSettings
from .dense_gaussian import DenseGaussian
from .diagonal_gaussian import DiagonalGaussian
from .normal_mixing import NormalMixing
from .semi_implicit import SemiImplicit


def _settings(hidden: tuple[int, ...], latent_share: float) -> LocationScaleSettings:
    return LocationScaleSettings(
        hidden=hidden,
        sigma_init=math.sqrt(1.0 - latent_share),
        skip_scale=math.sqrt(latent_share),
        final_scale=0.01,
    )


def dense_start(
    key: PRNGKeyArray, dim: int, latent_dim: int, hidden: tuple[int, ...], latent_share: float
) -> SemiImplicit:
    """q(x|z) has a full covariance, and its scales are a network of z: for the mixture."""
    settings = _settings(hidden, latent_share)
    return SemiImplicit(NormalMixing(latent_dim), DenseGaussian(latent_dim, dim, scale="network", key=key, **settings))


def diagonal_start(
    key: PRNGKeyArray, dim: int, latent_dim: int, hidden: tuple[int, ...], latent_share: float
) -> SemiImplicit:
    """σ is the same for all z: for a critic. With z shorter than x, coordinates beyond its length have σ alone."""
    conditional = DiagonalGaussian(latent_dim, dim, key=key, **_settings(hidden, latent_share))
    networks = conditional.networks
    alone = networks.log_variance.inverse(0.0)
    raw_scale = jnp.where(jnp.arange(dim) < latent_dim, networks.raw_scale, alone)
    conditional = eqx.tree_at(lambda c: c.networks.raw_scale, conditional, raw_scale)
    return SemiImplicit(NormalMixing(latent_dim), conditional)
