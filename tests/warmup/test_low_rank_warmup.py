"""The warm-up with a diagonal and a few directions, on Gaussians that are of that kind, and one that is not."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from oracles import gaussian_target
from sivi._layout import Layout
from sivi.coordinates import DiagonalMap, LowRankMap
from sivi.targets import GaussianMixture, ScoreFunction, Target
from sivi.warmup import gaussian_warmup
from sivi.warmup.directions import curvature_times, extreme_directions


class FactorGaussian(Target):
    """N(mean, (diag d + B C Bᵀ)⁻¹), applied in O(dim × factors)."""

    mean: Array
    diagonal: Array
    factors: Array
    core: Array

    @property
    def dim(self):
        return self.mean.shape[0]

    @property
    def layout(self):
        """Numbers, with no axis to rotate."""
        return Layout.like([0.0] * self.dim)

    def log_prob(self, x, batch=None):
        offset = x - self.mean
        projected = self.factors.T @ offset
        return -0.5 * (jnp.sum(self.diagonal * offset**2) + projected @ self.core @ projected)


class Numbers(Target):
    """A target whose unknowns are single numbers, with no axis to rotate."""

    inner: Target

    @property
    def dim(self):
        return self.inner.dim

    @property
    def layout(self):
        return Layout.like([0.0] * self.dim)

    def log_prob(self, x, batch=None):
        return self.inner.log_prob(x, batch)


def wide_target(dim, rank, distance=3.0):
    """Covariance F Fᵀ + diag: `rank` directions about √dim times as wide as the others. Its sds come back, too."""
    rng = np.random.default_rng(0)
    factors, variances = rng.normal(size=(dim, rank)), rng.uniform(0.5, 2.0, dim)
    sd = np.sqrt((factors**2).sum(1) + variances)
    scaled = factors / variances[:, None]
    core = -np.linalg.inv(np.eye(rank) + factors.T @ scaled)  # Woodbury
    mean = distance * sd * rng.choice([-1.0, 1.0], dim)
    return FactorGaussian(*(jnp.asarray(a, float) for a in (mean, 1.0 / variances, scaled, core))), sd


def narrow_target(dim, rank):
    """Precision I + B Bᵀ: `rank` directions about √dim times as narrow, which take most of the diagonal."""
    rng = np.random.default_rng(1)
    factors, mean = rng.normal(size=(dim, rank)), 3.0 * rng.normal(size=dim)
    inner = np.linalg.inv(np.eye(rank) + factors.T @ factors)
    sd = np.sqrt(1.0 - np.einsum("ij,jk,ik->i", factors, inner, factors))
    return FactorGaussian(*(jnp.asarray(a, float) for a in (mean, np.ones(dim), factors, np.eye(rank)))), sd


@eqx.filter_jit
def warm(key, target, rank, num_starts=2, **settings):
    return gaussian_warmup(key, target, num_starts=num_starts, rank=rank, **settings)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "rank"), [pytest.param(wide_target, 8, id="wide"), pytest.param(narrow_target, 4, id="narrow")]
)
def test_few_directions_among_many(make, rank):
    target, sd = make(400, rank)
    affine = warm(jax.random.key(0), target, rank + 2)
    assert isinstance(affine, LowRankMap)
    np.testing.assert_allclose((affine.mean - target.mean) / sd, 0.0, atol=0.05)
    np.testing.assert_allclose(np.sqrt(affine.covariance_diagonal) / sd, 1.0, atol=0.03)
    # Not only along the axes: the curvature in u is near 1 in random directions and in those found.
    probes = jnp.concatenate([jnp.eye(400)[: rank + 2], jax.random.normal(jax.random.key(1), (20, 400)) / 20.0])
    zero = affine.pull_back(target.score(affine.mean))
    images = jax.vmap(lambda u: zero - affine.pull_back(target.score(affine.forward(u))))(probes)
    curvature = jnp.sum(images * probes, axis=1) / jnp.sum(probes**2, axis=1)
    np.testing.assert_allclose(curvature, 1.0, atol=0.1)


@pytest.mark.slow
def test_two_thousand_dimensions():
    target, sd = wide_target(2000, 20)
    affine = warm(jax.random.key(0), target, 20, 4)
    np.testing.assert_allclose((affine.mean - target.mean) / sd, 0.0, atol=0.05)
    np.testing.assert_allclose(np.sqrt(affine.covariance_diagonal) / sd, 1.0, atol=0.03)


def test_products_with_the_curvature_are_exact_for_a_gaussian(x64):
    target = gaussian_target()
    precision = np.asarray(target.whitener[0].T @ target.whitener[0])
    scale = jnp.array([0.5, 2.0, 1.0])
    draws = jax.random.normal(jax.random.key(0), (4, 3))
    vectors = jnp.asarray(np.random.default_rng(0).normal(size=(3, 2)))
    images = curvature_times(target, draws, scale, vectors, jnp.array([0.3, 2.0]), None, jnp.int32(0))
    np.testing.assert_allclose(images, (scale[:, None] * precision * scale) @ vectors, rtol=1e-10)


def test_extreme_directions_are_eigenvectors_at_both_ends(x64):
    """Scaled curvature with eigenvalues 100, 0.0625 and ones between: those two, however narrow or wide."""
    rng = np.random.default_rng(0)
    dim = 30
    frame = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    eigenvalues = np.concatenate([[100.0, 1 / 16], np.linspace(0.8, 1.2, dim - 2)])
    scale = jnp.asarray(rng.uniform(0.5, 2.0, dim))
    precision = (frame * eigenvalues) @ frame.T / np.outer(scale, scale)
    target = GaussianMixture([rng.normal(size=dim)], [np.linalg.inv(precision)])
    start = LowRankMap(jnp.zeros(dim), scale, jnp.eye(dim)[:, :2], jnp.ones(2))
    directions, stretch = extreme_directions(jax.random.key(0), target, start, scale, None, jnp.int32(0))
    order = np.argsort(stretch)
    np.testing.assert_allclose(np.sort(stretch), [0.1, 4.0], rtol=5e-3)
    np.testing.assert_allclose(np.abs(np.sum(directions[:, order] * frame[:, :2], axis=0)), 1.0, atol=1e-2)
    np.testing.assert_allclose(directions.T @ directions, np.eye(2), atol=1e-12)


def test_rank_zero_is_the_mean_field_optimum():
    """1/√P_ii and not the marginal sds: what a diagonal Gaussian makes of KL(q‖p)."""
    target = gaussian_target()
    affine = warm(jax.random.key(0), Numbers(target), 0)
    assert isinstance(affine, DiagonalMap)
    precision = np.asarray(target.whitener[0].T @ target.whitener[0])
    np.testing.assert_allclose(affine.mean, target.means[0], atol=1e-3)
    # The noise of the last steps: see `NUM_PAIRS` and the step size's decrease.
    np.testing.assert_allclose(affine.scale, np.diag(precision) ** -0.5, rtol=0.05)


def test_small_dimension_and_a_score_alone():
    """The Krylov space is cut to what fits into three dimensions, where it finds the covariance exactly."""
    target = gaussian_target()
    affine = warm(jax.random.key(0), ScoreFunction(target.score, dim=3), 2)
    truth = np.asarray(target.cholesky[0] @ target.cholesky[0].T)
    np.testing.assert_allclose(affine.mean, target.means[0], atol=1e-2)
    root = np.stack([affine.forward(e) - affine.mean for e in jnp.eye(3)], axis=1)
    np.testing.assert_allclose(root @ root.T, truth, atol=0.05)
