import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.distance import pdist

from oracles import bonferroni, gaussian_target, linear_gaussian_family
from sivi.metrics import ksd
from sivi.metrics._ksd import _KERNELS, _stein
from sivi.targets import Banana, IsotropicGaussian, ScoreFunction

KERNELS = {
    "imq": lambda x, y, h: (1 + jnp.sum((x - y) ** 2) / h**2) ** -0.5,
    "gaussian": lambda x, y, h: jnp.exp(-jnp.sum((x - y) ** 2) / (2 * h**2)),
}


def gaussian_ksd(mean, covariance, target_mean, target_covariance, h):
    """KSD² of N(mean, C) to N(m, P⁻¹) with a Gaussian kernel: E[k(x, y) δ(x)·δ(y)] with δ = S − ∇log q.

    δ(x) = D (x − mean) + e is affine, and k times the two densities is E[k] times a centred Gaussian density of
    (x − mean, y − mean) whose precision has the blocks C⁻¹ + I/h² and −I/h².
    """
    precision, inverse, unit = np.linalg.inv(target_covariance), np.linalg.inv(covariance), np.eye(len(mean)) / h**2
    D, e = inverse - precision, precision @ (target_mean - mean)
    cross = np.linalg.inv(np.block([[inverse + unit, -unit], [-unit, inverse + unit]]))[: len(mean), len(mean) :]
    expected_kernel = np.linalg.det(np.eye(len(mean)) + 2 * covariance * unit[0, 0]) ** -0.5
    return expected_kernel * (e @ e + np.trace(D.T @ D @ cross))


def z_score(values, exact):
    return abs(values.mean() - exact) / (values.std() / np.sqrt(len(values)))


@pytest.mark.slow
def test_unbiased_for_the_closed_form_between_gaussians(x64):
    """False-failure rate 1e-4: a z-score over 400 repeats."""
    conditional, target, h = linear_gaussian_family().conditional, gaussian_target(), 1.3
    mean, covariance = np.asarray(conditional.b), np.asarray(conditional.covariance)
    root = np.asarray(target.cholesky[0])
    exact = gaussian_ksd(mean, covariance, np.asarray(target.means[0]), root @ root.T, h)
    rng = np.random.default_rng(0)
    values = np.array(
        [
            ksd(rng.multivariate_normal(mean, covariance, size=50), target, kernel="gaussian", bandwidth=h)
            for _ in range(400)
        ]
    )
    assert exact > 0.5
    assert z_score(values, exact) < bonferroni(1)


@pytest.mark.parametrize("kernel", KERNELS)
def test_unbiased_for_the_integral_in_one_dimension(kernel):
    """E[k δ(x) δ(y)] by Gauss-Hermite quadrature. False-failure rate 1e-4 for each kernel."""
    mean, sd, target_mean, target_sd, h = -0.2, 1.1, 0.5, 0.8, 0.7
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    x, weights = mean + sd * nodes, weights / weights.sum()
    delta = (target_mean - x) / target_sd**2 + (x - mean) / sd**2
    k = jax.vmap(jax.vmap(KERNELS[kernel], (None, 0, None)), (0, None, None))(x[:, None], x[:, None], h)
    exact = (weights * delta) @ np.asarray(k, float) @ (weights * delta)
    target = ScoreFunction(lambda x: (target_mean - x) / target_sd**2, dim=1)
    rng = np.random.default_rng(1)
    values = np.array([ksd(rng.normal(mean, sd, size=(50, 1)), target, kernel=kernel, bandwidth=h) for _ in range(400)])
    assert exact > 0.3
    assert z_score(values, exact) < bonferroni(1)


@pytest.mark.parametrize("kernel", KERNELS)
def test_stein_kernel_agrees_with_automatic_differentiation(kernel, x64):
    target, h = Banana(), 1.7
    points = np.random.default_rng(2).normal(size=(4, 2)) * [1.0, 3.0]

    def stein(x, y):
        k = lambda x, y: KERNELS[kernel](x, y, h)  # noqa: E731
        by_x, by_y = jax.grad(k, 0), jax.grad(k, 1)
        s, t = target.score(x), target.score(y)
        trace = jnp.trace(jax.jacfwd(by_x, 1)(x, y))
        return k(x, y) * s @ t + s @ by_y(x, y) + t @ by_x(x, y) + trace

    exact = jax.jit(jax.vmap(jax.vmap(stein, (None, 0)), (0, None)))(jnp.asarray(points), jnp.asarray(points))
    rows = np.hstack([points / h, h * np.asarray(jax.vmap(target.score)(jnp.asarray(points)))])
    np.testing.assert_allclose(_stein(_KERNELS[kernel], rows, rows) / h**2, exact, rtol=1e-9)
    off_diagonal = exact.sum() - jnp.trace(exact)
    np.testing.assert_allclose(ksd(points, target, kernel=kernel, bandwidth=h), off_diagonal / 12, rtol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_around_zero_and_not_clipped_for_exact_draws(kernel):
    target, rng = IsotropicGaussian(2, 0.7), np.random.default_rng(3)
    values = np.array([ksd(0.7 * rng.normal(size=(40, 2)), target, kernel=kernel, bandwidth=1.0) for _ in range(400)])
    assert (values < 0).mean() > 0.3
    assert z_score(values, 0.0) < bonferroni(1)


def test_bandwidth_left_out_is_the_median_and_a_log_density_will_do():
    draws = np.random.default_rng(4).normal(size=(60, 2))
    exact = ksd(draws, IsotropicGaussian(2), bandwidth=float(np.median(pdist(draws))))
    np.testing.assert_allclose(ksd(draws, lambda x: -0.5 * jnp.sum(x**2)), exact, rtol=1e-6)
