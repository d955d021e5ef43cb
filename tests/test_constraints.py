import itertools
import json
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float
from scipy import special, stats

import sivi
from contracts.plugins import CONSTRAINTS, is_increasing, is_simplex
from oracles import bonferroni
from sivi._errors import FitFileError
from sivi._layout import Layout
from sivi.constraints import (
    Constraint,
    correlation_cholesky,
    covariance_cholesky,
    interval,
    lower,
    ordered,
    positive,
    positive_ordered,
    real,
    simplex,
    unit_vector,
    upper,
)
from sivi.constraints._half_line import HalfLine
from sivi.constraints._interval import Interval
from sivi.constraints._mixed_bounds import MixedBounds
from sivi.constraints.base import from_json, to_json
from sivi.critics import MLPCritic
from sivi.objectives import ScoreMatching
from sivi.samplers import hmc
from sivi.targets import LogDensity


class TestSpecialPoints:
    def test_zero_is_the_middle(self, precision):
        for constraint, middle in [
            (positive(), 1.0),
            (interval(-1.0, 3.0), 1.0),
            (simplex(4), np.full(4, 0.25)),
            (correlation_cholesky(3), np.eye(3)),
            (ordered(3), [0.0, 1.0, 2.0]),
            (lower(2.0), 3.0),
            (upper(2.0), 1.0),
            (positive_ordered(3), [1.0, 2.0, 3.0]),
            (covariance_cholesky(3), np.eye(3)),
            (unit_vector(3), [1.0, 0.0, 0.0]),
        ]:
            x = constraint.forward(jnp.zeros(constraint.size))
            assert x.dtype == precision
            np.testing.assert_allclose(x, middle, rtol=3e-7)

    def test_simplex_is_the_isometric_log_ratio(self):
        """y has the length of the centred log x, whichever the order of the entries."""
        x = np.array([0.5, 0.05, 0.3, 0.15])
        centred = np.log(x) - np.log(x).mean()
        for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
            np.testing.assert_allclose(
                jnp.linalg.norm(simplex(4).inverse(x[order])), np.linalg.norm(centred), rtol=1e-5
            )

    def test_covariance_factor_is_filled_row_by_row(self):
        factor = covariance_cholesky(3).forward(jnp.array([0.1, 2.0, 0.2, 3.0, 4.0, 0.3]))
        expected = [[np.exp(0.1), 0.0, 0.0], [2.0, np.exp(0.2), 0.0], [3.0, 4.0, np.exp(0.3)]]
        np.testing.assert_allclose(factor, expected, rtol=1e-6)

    def test_unit_vector_on_the_circle(self):
        """tan(θ/2) = sinh y, so that y = ±log(1 + √2) is a right angle."""
        quarter = np.log1p(np.sqrt(2.0))
        circle = unit_vector(2)
        for y, angle in [
            (0.0, 0.0),
            (quarter, 0.5 * np.pi),
            (-quarter, -0.5 * np.pi),
            (3.0, 2 * np.arctan(np.sinh(3))),
        ]:
            x = circle.forward(jnp.array([y]))
            np.testing.assert_allclose(x, [np.cos(angle), np.sin(angle)], atol=3e-7)
            np.testing.assert_allclose(circle.inverse(x), [y], atol=3e-6)

    def test_unit_vector_on_both_sides_of_its_series(self):
        """At |y| around the square root of 0.01, against formulas in NumPy; with three entries of unequal size."""
        with jax.enable_x64(True):
            sphere = unit_vector(4)
            for r in (1e-9, 0.03, 0.0999, 0.1001, 0.5):
                y = r * np.array([2.0, -1.0, 2.0]) / 3.0
                x = np.concatenate([[1.0 - 2.0 * np.tanh(r) ** 2], 2.0 * np.tanh(r) / np.cosh(r) * y / r])
                np.testing.assert_allclose(sphere.forward(jnp.asarray(y)), x, rtol=1e-14)
                log_det = 3 * np.log(2.0 / np.cosh(r)) + 2 * np.log(np.tanh(r) / r)
                np.testing.assert_allclose(sphere.log_det(jnp.asarray(y)), log_det, rtol=1e-13)

    def test_way_back_from_the_centre_can_be_differentiated(self):
        sphere = unit_vector(3)
        back = jax.jacobian(sphere.inverse)(jnp.array([1.0, 0.0, 0.0]))
        np.testing.assert_allclose(back @ jax.jacobian(sphere.forward)(jnp.zeros(2)), np.eye(2), atol=1e-6)

    def test_unit_vectors_next_to_the_point_left_out(self):
        sphere = unit_vector(3)
        x = np.array([-1.0, 3e-20, -4e-20], np.float32)
        y = sphere.inverse(x)
        np.testing.assert_allclose(y, np.arcsinh(2.0 / 5e-20) * np.array([0.6, -0.8]), rtol=1e-5)
        np.testing.assert_allclose(sphere.forward(y), x, rtol=2e-5)

    def test_close_numbers_stay_ordered(self):
        y = jnp.array([1e5, -15.0, -15.0, -15.0])
        assert is_increasing(np.asarray(ordered(4).forward(y)))
        steps = jnp.full(1000, -16.0).at[0].set(3.0)
        assert is_increasing(np.asarray(ordered(1000).forward(steps)))


def score_of(function, constraint):
    target = LogDensity(function, like=constraint)
    return jax.jit(jax.vmap(target.score))


class TestScoresAtTheEdges:
    """In float32, of densities with a log or a power at the edge, against the formula for the score in y."""

    EDGES = np.array([-1000.0, -100.0, -60.0, -30.0, -15.0, -1.0, 0.0, 1.0])

    def test_gamma(self):
        score = score_of(lambda x: 2.5 * jnp.log(x) - 2.0 * x, positive())
        y = np.append(self.EDGES, 4.0)
        np.testing.assert_allclose(score(y[:, None])[:, 0], 3.5 - 2.0 * np.exp(y), rtol=1e-5, atol=1e-6)

    def test_gamma_far_out(self):
        """At 80 and beyond x stays the same, and the score still points back."""
        score = score_of(lambda x: 2.5 * jnp.log(x) - 2.0 * x, positive())
        np.testing.assert_allclose(score(np.array([[80.0], [500.0]]))[:, 0], -2.0 * np.exp(80.0), rtol=1e-5)

    def test_beta(self):
        score = score_of(lambda x: 1.5 * jnp.log(x) + 0.7 * jnp.log1p(-x), interval(0.0, 1.0))
        y = self.EDGES
        expected = 2.5 * special.expit(-y) - 1.7 * special.expit(y)
        np.testing.assert_allclose(score(y[:, None])[:, 0], expected, rtol=1e-5, atol=1e-6)
        # Within one rounding step of 1 the log density is flat, and the log determinant alone leads back.
        np.testing.assert_allclose(score(np.array([[30.0], [1000.0]]))[:, 0], -1.0, atol=1e-3)

    def test_dirichlet(self):
        alpha = np.array([0.4, 2.0, 3.5])
        score = score_of(lambda x: jnp.sum((alpha - 1.0) * jnp.log(x)), simplex(3))
        V = np.array([[1.0, 1.0], [-1.0, 1.0], [0.0, -2.0]]) / np.sqrt([2.0, 6.0])
        y = np.array([[a, b] for a in (-500.0, -30.0, 1.0, 100.0) for b in (-200.0, -15.0, 0.5, 30.0)])
        z = y @ V.T
        x = np.exp(z - z.max(1, keepdims=True))
        x /= x.sum(1, keepdims=True)
        np.testing.assert_allclose(score(y), (alpha - alpha.sum() * x) @ V, rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("eta", [1.0, 2.5])
    def test_lkj(self, eta):
        """The partial correlation in column j is Beta(b, b) on (−1, 1), b = η + (n − 1 − j)/2 (Lewandowski et al.)."""
        n = 4
        powers = n - np.arange(1, n + 1) + 2.0 * eta - 2.0
        score = score_of(lambda L: jnp.sum(powers * jnp.log(jnp.diagonal(L))), correlation_cholesky(n))
        column = np.tril_indices(n, -1)[1] + 1
        b = eta + 0.5 * (n - 1 - column)
        y = np.random.default_rng(1).normal(size=(20, len(b))) * np.repeat([0.5, 3.0, 8.0, 20.0], 5)[:, None]
        np.testing.assert_allclose(score(y), -2.0 * b * np.tanh(y), rtol=1e-4, atol=1e-5)

    def test_von_mises(self):
        kappa = 2.5
        score = score_of(lambda x: kappa * (0.6 * x[0] + 0.8 * x[1]), unit_vector(2))
        y = np.append(self.EDGES, [0.05, 3.0, 60.0, 1000.0])
        angle, sech = 2.0 * np.arctan(np.sinh(np.clip(y, -50, 50))), 1.0 / np.cosh(np.clip(y, -700, 700))
        expected = kappa * (0.8 * np.cos(angle) - 0.6 * np.sin(angle)) * 2.0 * sech - np.tanh(y)
        np.testing.assert_allclose(score(y[:, None])[:, 0], expected, rtol=1e-5, atol=2e-6)

    def test_bartlett(self):
        """The factor of a Wishart(ν, I) matrix: L_ii² is χ² with ν − i + 1 degrees of freedom, L_ij is N(0, 1)."""
        nu, power = 5.5, np.array([4.5, 3.5])
        constraint = covariance_cholesky(2)
        score = score_of(
            lambda L: jnp.sum(power * jnp.log(jnp.diagonal(L))) - 0.5 * jnp.sum(jnp.tril(L) ** 2), constraint
        )
        y = np.array([[a, b, c] for a in (-500.0, -30.0, 0.5, 3.0) for b in (-2.0, 1e4) for c in (-100.0, 0.0, 2.0)])
        diagonal = np.array([nu, nu - 1.0]) - np.exp(2.0 * y[:, [0, 2]])
        np.testing.assert_allclose(score(y), np.stack([diagonal[:, 0], -y[:, 1], diagonal[:, 1]], 1), rtol=1e-5)

    NAMES = (
        "interval", "interval-mixed", "ordered", "positive_ordered", "simplex", "unit_vector", "unit_vector-circle",
        "correlation_cholesky", "covariance_cholesky",
    )  # fmt: skip

    @pytest.mark.parametrize("name", NAMES)
    def test_second_derivatives_at_zero(self, name):
        """The kind that an absolute value in a formula would lose: against finite differences of the gradient."""
        constraint = CONSTRAINTS[name].constraint
        with jax.enable_x64(True):
            weights = np.random.default_rng(2).normal(size=constraint.shape)

            def function(y):
                return jnp.sum(weights * constraint.forward(y)) + constraint.log_det(y)

            zero, step = jnp.zeros(constraint.size), 1e-5
            gradients = jax.jit(jax.vmap(jax.grad(function)))
            steps = step * jnp.eye(constraint.size)
            differences = (gradients(zero + steps) - gradients(zero - steps)) / (2 * step)
            np.testing.assert_allclose(jax.jit(jax.hessian(function))(zero), differences, atol=1e-8)


def integrate(function, constraint, statistic, side):
    """∫ p(x) (1, statistic(x)) dx, by a sum over a grid of y: p is a log density of the constrained x."""
    target = LogDensity(function, like=constraint)
    grid = jnp.stack(jnp.meshgrid(*[side] * constraint.size), axis=-1).reshape(-1, constraint.size)

    @jax.jit
    def total(grid):
        weights = jnp.exp(jax.vmap(target.log_prob)(grid)) * (side[1] - side[0]) ** constraint.size
        values = jax.vmap(lambda y: statistic(constraint.forward(y)))(grid)
        return weights.sum(), jnp.tensordot(weights, values, axes=1)

    return total(grid)


@pytest.mark.usefixtures("x64")
class TestDensities:
    """Normalised densities of the constrained variable, integrated over the free ones."""

    def test_gamma(self):
        shape, rate = 2.5, 3.0
        constant = shape * math.log(rate) - math.lgamma(shape)
        mass, mean = integrate(
            lambda x: constant + (shape - 1) * jnp.log(x) - rate * x,
            positive(),
            lambda x: x,
            jnp.linspace(-20.0, 6.0, 2001),
        )
        np.testing.assert_allclose([mass, mean], [1.0, shape / rate], rtol=1e-9)

    def test_exponential_below_a_bound(self):
        mass, mean = integrate(
            lambda x: jnp.log(2.0) + 2.0 * (x + 3.0), interval(None, -3.0), lambda x: x, jnp.linspace(-25.0, 6.0, 2001)
        )
        np.testing.assert_allclose([mass, mean], [1.0, -3.5], rtol=1e-9)

    def test_scaled_beta(self):
        a, b, low, high = 1.5, 2.5, -1.0, 3.0

        def log_density(x):
            share = (x - low) / (high - low)
            return jax.scipy.stats.beta.logpdf(share, a, b) - jnp.log(high - low)

        mass, mean = integrate(log_density, interval(low, high), lambda x: x, jnp.linspace(-20.0, 15.0, 2001))
        np.testing.assert_allclose([mass, mean], [1.0, low + (high - low) * a / (a + b)], rtol=1e-9)

    def test_order_statistics(self):
        """Two independent N(0, 1), sorted: density 2 φ(x₁) φ(x₂), means ∓1/√π."""
        mass, means = integrate(
            lambda x: jnp.log(2.0) + jnp.sum(jax.scipy.stats.norm.logpdf(x)),
            ordered(2),
            lambda x: x,
            jnp.linspace(-22.0, 8.0, 1201),
        )
        np.testing.assert_allclose(mass, 1.0, rtol=1e-8)
        np.testing.assert_allclose(means, np.array([-1.0, 1.0]) / np.sqrt(np.pi), rtol=1e-8)

    def test_dirichlet(self):
        alpha = np.array([0.8, 2.0, 3.5])
        exact = stats.dirichlet(alpha)
        constant = math.lgamma(alpha.sum()) - sum(map(math.lgamma, alpha))
        mass, seconds = integrate(
            lambda x: constant + jnp.sum((alpha - 1.0) * jnp.log(x)),
            simplex(3),
            lambda x: jnp.concatenate([x, jnp.outer(x, x).ravel()]),
            jnp.linspace(-30.0, 30.0, 801),
        )
        np.testing.assert_allclose(mass, 1.0, rtol=1e-7)
        np.testing.assert_allclose(seconds[:3], exact.mean(), rtol=1e-7)
        products = exact.cov() + np.outer(exact.mean(), exact.mean())
        np.testing.assert_allclose(seconds[3:], products.ravel(), rtol=1e-7)

    def test_exponential_order_statistics(self):
        """Two independent Exponential(1), sorted: means 1/2 and 3/2."""
        mass, means = integrate(
            lambda x: jnp.log(2.0) - jnp.sum(x), positive_ordered(2), lambda x: x, jnp.linspace(-32.0, 5.0, 801)
        )
        np.testing.assert_allclose([mass, *means], [1.0, 0.5, 1.5], rtol=1e-8)

    def test_exponentials_beyond_their_own_bounds(self):
        low = np.array([2.0, -1.0])
        mass, means = integrate(lambda x: -jnp.sum(x - low), lower(low), lambda x: x, jnp.linspace(-32.0, 5.0, 801))
        np.testing.assert_allclose([mass, *means], [1.0, 3.0, 0.0], rtol=1e-8, atol=1e-8)

    def test_von_mises_on_the_circle(self):
        """With the mean direction (0.6, −0.8): mass 1 and mean I₁(κ)/I₀(κ) in that direction, per length of arc."""
        kappa, direction = 1.7, np.array([0.6, -0.8])
        constant = -np.log(2.0 * np.pi * special.iv(0, kappa))
        mass, mean = integrate(
            lambda x: constant + kappa * jnp.dot(direction, x),
            unit_vector(2),
            lambda x: x,
            jnp.linspace(-30.0, 30.0, 2001),
        )
        np.testing.assert_allclose(mass, 1.0, rtol=1e-9)
        np.testing.assert_allclose(mean, special.iv(1, kappa) / special.iv(0, kappa) * direction, rtol=1e-9)

    def test_von_mises_fisher_on_the_sphere(self):
        kappa, direction = 1.7, np.array([0.6, -0.64, 0.48])
        mass, mean = integrate(
            lambda x: np.log(kappa / (4.0 * np.pi * np.sinh(kappa))) + kappa * jnp.dot(direction, x),
            unit_vector(3),
            lambda x: x,
            jnp.linspace(-16.0, 16.0, 641),
        )
        np.testing.assert_allclose(mass, 1.0, rtol=1e-9)
        np.testing.assert_allclose(mean, (1.0 / np.tanh(kappa) - 1.0 / kappa) * direction, rtol=1e-9)

    def test_wishart(self):
        """A density of Σ = L Lᵀ with the Jacobian of the docstring: mass 1 and mean ν S."""
        nu, scale = 6.0, np.array([[1.0, 0.3], [0.3, 0.5]])
        exact, inverse = stats.wishart(nu, scale), np.linalg.inv(scale)
        constant = exact.logpdf(np.eye(2)) + 0.5 * np.trace(inverse)

        def log_density(L):
            diagonal, covariance = jnp.diagonal(L), L @ L.T
            log_prior = constant + (nu - 3.0) * jnp.sum(jnp.log(diagonal)) - 0.5 * jnp.sum(inverse * covariance)
            return log_prior + 2.0 * jnp.log(2.0) + jnp.sum(jnp.array([2.0, 1.0]) * jnp.log(diagonal))

        # The diagonal in logarithms, and what is between −10 and 10 below it: one grid serves both.
        mass, mean = integrate(
            log_density, covariance_cholesky(2), lambda L: (L @ L.T).ravel(), jnp.linspace(-9.0, 9.0, 121)
        )
        np.testing.assert_allclose(mass, 1.0, rtol=1e-6)
        np.testing.assert_allclose(mean, (nu * scale).ravel(), rtol=1e-6)

    def test_lkj_of_two_variables(self):
        """η = 1 is the uniform distribution of the correlation; another η has density ∝ (1 − r²)^(η − 1)."""
        for eta in (1.0, 3.0):
            constant = math.lgamma(2 * eta) - 2 * math.lgamma(eta) - (2 * eta - 1) * math.log(2.0)
            mass, square = integrate(
                lambda L, eta=eta, constant=constant: constant + (2 * eta - 2) * jnp.log(L[1, 1]),
                correlation_cholesky(2),
                lambda L: L[1, 0] ** 2,
                jnp.linspace(-20.0, 20.0, 4001),
            )
            np.testing.assert_allclose([mass, square], [1.0, 1.0 / (2 * eta + 1)], rtol=1e-9)


class TestBadInput:
    pytestmark = pytest.mark.usefixtures("as_a_user")

    @pytest.mark.parametrize(
        ("call", "error", "message"),
        [
            (lambda: interval(1.0, 1.0), ValueError, r"low must be below high; got 1\.0 and 1\.0"),
            (lambda: interval(2, 1), ValueError, r"low must be below high; got 2\.0 and 1\.0"),
            (lambda: interval(None, None), ValueError, r"low or high must be a finite number.*sivi\.real"),
            (lambda: interval(-np.inf, np.inf), ValueError, r"low or high must be a finite number"),
            (lambda: interval(np.nan, 1.0), ValueError, r"low must be a finite number; got nan"),
            (lambda: interval(np.inf, None), ValueError, r"low must be a finite number; got inf"),
            (lambda: interval("a", 1.0), TypeError, r"low must be a number or an array of numbers; got 'a'"),
            (
                lambda: interval(0.0, np.ones(2, bool)),
                TypeError,
                r"high must be a number or .*; got an array of dtype b",
            ),
            (
                lambda: interval(0.0, [[1.0], [1.0, 2.0]]),
                TypeError,
                r"high must be a number or an array of numbers; got",
            ),
            (
                lambda: interval(np.zeros(0), 1.0),
                TypeError,
                r"low must be .*; got an array of dtype float64 and shape \(0",
            ),
            (lambda: interval([0.0, np.nan], 1.0), ValueError, r"low must be finite numbers; got nan at \[1\]"),
            (lambda: interval(0.0, [1.0, -np.inf]), ValueError, r"high must be finite numbers; got -inf at \[1\]"),
            (
                lambda: interval(0.0, [[1.0, -2.0]]),
                ValueError,
                r"low must be below high; got 0\.0 and -2\.0 at \[0,1\]",
            ),
            (
                lambda: interval([0.0, None], [0.0, 1.0]),
                ValueError,
                r"low must be below high; got 0\.0 and 0\.0 at \[0\]",
            ),
            (
                lambda: interval([0.0, 1.0], [1.0, 1.0 + 1e-9]),
                ValueError,
                r"room for float32 .*got 1\.0 and .* at \[1\]",
            ),
            (lambda: interval([None, None], np.inf), ValueError, r"low or high must be a finite number.*sivi\.real"),
            (
                lambda: interval(np.zeros(2), np.ones(3)),
                ValueError,
                r"got \(\) and low of shape \(2,\), high of shape \(3",
            ),
            (
                lambda: interval(np.zeros(2), 1.0, 3),
                ValueError,
                r"bounds broadcast to.*got \(3,\) and low of shape \(2,\)",
            ),
            (lambda: interval(np.zeros((2, 3)), 1.0, 3), ValueError, r"got \(3,\) and low of shape \(2, 3\)"),
            (lambda: lower(None), TypeError, r"low must be a number or an array of numbers; got None"),
            (lambda: lower(-np.inf), ValueError, r"low must be a finite number; got -inf"),
            (lambda: lower([0.0, np.inf]), ValueError, r"low must be finite numbers; got inf at \[1\]"),
            (lambda: upper(1e40), ValueError, r"high must be a finite number; got 1e\+40"),
            (lambda: upper(np.zeros(2), (2, 3)), ValueError, r"got \(2, 3\) and high of shape \(2,\)"),
            (lambda: jax.jit(lower)(1.0), TypeError, r"low must be a number or an array of numbers; got"),
            (
                lambda: HalfLine([0.0, 1.0], 1, ()),
                ValueError,
                r"batch_shape must be that of the bounds, \(2,\).*got \(\)",
            ),
            (lambda: Interval([0.0, 1.0], 2.0, (3,)), ValueError, r"got \(3,\) and low of shape \(2,\)"),
            (lambda: MixedBounds([0.0, None], None, ()), ValueError, r"batch_shape must be that of the bounds, \(2,\)"),
            (
                lambda: MixedBounds([0.0, None], [-1.0, 1.0], (2,)),
                ValueError,
                r"low must be below high; got 0\.0 and -1",
            ),
            (lambda: interval(1.0, 1.0 + 1e-9), ValueError, r"room for float32 numbers between them.*1\.0 and 1\.0000"),
            (lambda: interval(-3e38, 3e38), ValueError, r"their distance must be one; got -3e\+38 and 3e\+38"),
            (lambda: simplex(1), ValueError, r"n must be at least 2; got 1"),
            (lambda: ordered(0), ValueError, r"n must be at least 2; got 0"),
            (lambda: correlation_cholesky(1), ValueError, r"n must be at least 2; got 1"),
            (lambda: positive_ordered(1), ValueError, r"n must be at least 2; got 1"),
            (lambda: covariance_cholesky(1), ValueError, r"n must be at least 2; got 1"),
            (lambda: unit_vector(1), ValueError, r"n must be at least 2; got 1"),
            (lambda: unit_vector(3, -1), ValueError, r"shape must be at least 1; got -1"),
            (lambda: lower(0.0, (0,)), ValueError, r"shape must be at least 1; got 0"),
            (lambda: simplex(2.0), TypeError, r"n must be an integer of at least 2; got 2\.0"),
            (lambda: ordered(True), TypeError, r"n must be an integer .* got True"),
            (lambda: positive((2, 1.5)), TypeError, r"shape must be an integer of at least 1; got 1\.5"),
            (lambda: positive((0,)), ValueError, r"shape must be at least 1; got 0"),
            (lambda: real("ab"), TypeError, r"shape must be an integer .* got 'ab'"),
            (lambda: HalfLine(0.0, 2), ValueError, r"sign must be 1 or -1; got 2"),
        ],
    )
    def test_constraints_that_are_none(self, call, error, message):
        with pytest.raises(error, match=message):
            call()

    @pytest.mark.parametrize(
        ("constraint", "x", "message"),
        [
            (positive(), 0.0, r"x must be positive; got 0\.?"),
            (positive(), np.nan, r"x must be positive; got nan"),
            (positive(), np.inf, r"x must be positive; got inf"),
            (positive(), 1e-42, r"x must be positive; got 1\.e-42"),
            (positive((2, 2)), [[1.0, 2.0], [-3.0, 4.0]], r"x must be positive; got -3\.?0? at \[1,0\]"),
            (interval(2.0, None), 2.0, r"x must be above 2\.0; got 2"),
            (interval(None, 2.0), 2.5, r"x must be below 2\.0; got 2\.5"),
            (interval(0.0, 1.0), 1.0 - 1e-12, r"x must be between 0\.0 and 1\.0, both excluded; got 1"),
            (ordered(3), [0.0, 2.0, 2.0], r"x must be strictly increasing; got \[0\. 2\. 2\.\]"),
            (ordered(2, 2), [[0.0, 2.0], [2.0, 1.0]], r"strictly increasing; got \[2\. 1\.\] at \[1\]"),
            (simplex(3), [0.5, 0.5, 0.5], r"positive numbers that sum to 1; got \[0\.5 0\.5 0\.5\]"),
            (simplex(3), [0.5, 0.5, 0.0], r"positive numbers that sum to 1; got \[0\.5 0\.5 0\. ?\]"),
            (correlation_cholesky(2), [[1.0, 0.0], [0.6, 0.7]], r"rows of length 1; got \[\[1\. "),
            (correlation_cholesky(2), [[0.8, 0.6], [0.6, 0.8]], r"lower triangular"),
            (correlation_cholesky(2), [[1.0, 0.0], [0.6, -0.8]], r"positive diagonal"),
            (lower(2.0), 2.0, r"x must be above 2\.0; got 2"),
            (upper([2.0, 3.0]), [1.0, 3.0], r"x must be below \[2\. 3\.\]; got 3\.?0? at \[1\]"),
            (interval(0.0, [1.0, 2.0]), [0.5, 2.5], r"between 0\.0 and \[1\. 2\.\], both excluded; got 2\.5 at \[1\]"),
            (
                interval([0.0, None], 1.0),
                [0.5, 1.5],
                r"between \[  0\. -inf\] and 1\.0, both excluded; got 1\.5 at \[1\]",
            ),
            (positive_ordered(2), [-1.0, 2.0], r"positive and strictly increasing; got \[-1\.  2\.\]"),
            (positive_ordered(2), [2.0, 2.0], r"positive and strictly increasing; got \[2\. 2\.\]"),
            (
                covariance_cholesky(2),
                [[1.0, 0.1], [0.6, 0.7]],
                r"lower triangular with a positive diagonal; got \[\[1\. ",
            ),
            (covariance_cholesky(2), [[1.0, 0.0], [0.6, -0.7]], r"positive diagonal"),
            (covariance_cholesky(2), [[1.0, 0.0], [np.inf, 0.7]], r"positive diagonal; got \[\[1\. +0\. \]"),
            (unit_vector(2), [0.6, 0.6], r"a vector of length 1.*; got \[0\.6 0\.6\]"),
            (unit_vector(2), [-1.0, 0.0], r"length 1, other than \(-1, 0, \.\.\., 0\); got \[-1\.  0\.\]"),
            (real(), np.inf, r"x must be finite; got inf"),
            (simplex(3), [0.5, 0.5], r"x must have shape \(3,\); got \(2,\)"),
            (positive(), [1.0], r"x must have shape \(\); got \(1,\)"),
        ],
    )
    def test_values_outside(self, constraint, x, message):
        with pytest.raises(ValueError, match=message):
            constraint.inverse(x)

    def test_points_with_a_leading_axis(self):
        x = np.array([[0.5, 0.5], [0.2, 0.9]])
        with pytest.raises(ValueError, match=r"variable 'w' must be positive numbers.*got \[0\.2 0\.9\] at \[1\]"):
            simplex(2).check(x, "variable 'w'", num_axes=1)
        with pytest.raises(ValueError, match=r"w must have shape \(2,\) after the first 1; got \(2,\)"):
            simplex(2).check(x[0], "w", num_axes=1)


class TestBoundsByEntry:
    def test_every_entry_has_the_map_of_its_own_bounds(self, precision):
        """Bit by bit that of a constraint of one number."""
        low, high = [[0.0], [-2.5], [-np.inf]], [0.5, 7.0, np.inf]
        together, apart = interval(low, high), []
        y = jnp.asarray(np.random.default_rng(0).normal(scale=4.0, size=9), precision)
        x = together.forward(y)
        assert (x.shape, x.dtype) == ((3, 3), precision)
        for (a, b), one in zip(itertools.product(np.ravel(low), high), y, strict=True):
            single = real() if np.isinf(a) and np.isinf(b) else interval(a, b)
            value = single.forward(one[None])
            apart.append((value, single.inverse(value)[0], single.log_det(one[None])))
        values, free, log_dets = map(np.array, zip(*apart, strict=True))
        np.testing.assert_array_equal(np.ravel(x), values)
        np.testing.assert_array_equal(together.inverse(x), free)
        np.testing.assert_allclose(together.log_det(y), log_dets.sum(), rtol=1e-6)

    @pytest.mark.parametrize(
        ("constraint", "cls", "shape"),
        [
            (interval([0.0, 1.0], 2.0), Interval, (2,)),
            (interval(0.0, [[1.0], [2.0]], (2, 3)), Interval, (2, 3)),
            (interval([0.0, 1.0], None), HalfLine, (2,)),
            (interval(None, np.ones((2, 1)), [2, 4]), HalfLine, (2, 4)),
            (interval([0.0, None], 1.0), MixedBounds, (2,)),
            (interval([0.0, None], None), MixedBounds, (2,)),
            (lower([[0.0, 1.0]]), HalfLine, (1, 2)),
            (upper(jnp.arange(3)), HalfLine, (3,)),
            (upper(np.float32(0.5), 3), HalfLine, (3,)),
        ],
    )
    def test_shapes_and_files(self, constraint, cls, shape):
        assert type(constraint) is cls
        assert constraint.shape == shape
        layout = Layout.like({"a": constraint, "b": 0.0})
        again = Layout.from_json(json.loads(json.dumps(layout.to_json(), allow_nan=False)))
        assert again == layout
        assert hash(again) == hash(layout)

    def test_one_form_for_one_meaning(self):
        assert interval(np.zeros(3), np.ones((2, 1))) == interval(0.0, 1.0, (2, 3))
        assert interval(np.zeros((2, 3)), [1, 2, 3]) == interval(0.0, np.array([[1.0, 2.0, 3.0]]), (2, 3))
        assert interval([[1.0], [2.0]], None, (2, 3)) == lower(np.repeat([[1.0], [2.0]], 3, axis=1))
        assert interval([0.0, None], [None, np.inf]) == interval([0.0, -np.inf], np.inf)
        assert lower(0.0, 2) == positive(2)
        assert lower([0.0, 1.0]) != lower([0.0, 2.0])

    def test_scalars_are_written_as_they_were(self):
        assert to_json(interval(-1, 2.5, 3)) == {
            "constraint": "Interval", "low": -1.0, "high": 2.5, "batch_shape": (3,)
        }  # fmt: skip
        half_line = {"constraint": "HalfLine", "bound": 2.0, "sign": 1, "batch_shape": ()}
        assert to_json(interval(2, None)) == to_json(lower(2)) == half_line


class TestFiles:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"constraint": "Torus"}, r"a constraint that is not defined here: 'Torus'"),
            ({"constraint": "Constraint"}, r"not defined here: 'Constraint'"),
            ({"radius": 1.0}, r"has \['batch_shape', 'high', 'low', 'radius'\]; here it has"),
            ({"low": 2.0}, r"not a possible one: low must be below high"),
            ({"low": "0"}, r"not a possible one: low must be a number"),
            ({"low": [0.0, -1.0]}, r"not a possible one: batch_shape must be that of the bounds, \(2,\)"),
            ({"low": [[0.0], [0.0, 1.0]]}, r"not a possible one: low must be a number"),
        ],
    )
    @pytest.mark.usefixtures("as_a_user")
    def test_what_is_refused(self, change, message):
        with pytest.raises(FitFileError, match=message):
            from_json(to_json(interval(0.0, 1.0)) | change)

    def test_a_users_own_constraint(self):
        class Cubed(Constraint):
            batch_shape: tuple[int, ...] = eqx.field(static=True)
            event_shape = free_shape = ()
            rule = "a number"

            def __init__(self, batch_shape=()):
                self.batch_shape = tuple(batch_shape)

            def contains(self, x):
                return np.isfinite(x)

            def _forward(self, y: Float[Array, "..."]):
                return jnp.sinh(y)

            def _inverse(self, x):
                return jnp.arcsinh(x)

            def _log_det(self, y):
                return jnp.log(jnp.cosh(y))

        constraint = Cubed((2,))
        layout = Layout.like({"a": constraint})
        assert Layout.from_json(layout.to_json()) == layout
        np.testing.assert_allclose(layout.unravel(jnp.ones(2))["a"], np.sinh(1.0), rtol=1e-6)


ALPHA = np.array([2.0, 1.0, 4.0])
LIKE = {"mu": 0.0, "tau": positive(), "w": simplex(3)}


def named_density(p):
    """mu | tau ~ N(0, tau), tau ~ Gamma(3, 2), w ~ Dirichlet(ALPHA)."""
    normal = jax.scipy.stats.norm.logpdf(p["mu"], scale=jnp.sqrt(p["tau"]))
    return normal + 2.0 * jnp.log(p["tau"]) - 2.0 * p["tau"] + jnp.sum((ALPHA - 1.0) * jnp.log(p["w"]))


class TestInUse:
    def test_hmc_recovers_the_moments(self):
        """Seven means against closed forms, by their Monte Carlo errors: fails once in 10⁵ by chance."""
        run = hmc(named_density, like=LIKE, key=0, num_chains=16, num_samples=500, num_warmup=300, progress=False)
        assert run.draws.shape == (16, 500, 4)
        named = {name: np.asarray(values, float) for name, values in run.named().items()}
        assert named["w"].shape == (16, 500, 3)
        assert is_simplex(named["w"])
        assert (named["tau"] > 0.0).all()
        weights = ALPHA / ALPHA.sum()
        pairs = [(named["tau"], 1.5), (named["tau"] ** 2, 3.0), (named["mu"], 0.0), (named["mu"] ** 2, 1.5)]
        pairs += [(named["w"][..., i], weights[i]) for i in range(3)]
        # The means of independent chains are independent.
        scores = [
            (values.mean() - truth) / (values.mean(1).std(ddof=1) / np.sqrt(len(values))) for values, truth in pairs
        ]
        bound = stats.t(df=15).isf(stats.norm.sf(bonferroni(len(pairs), 1e-5)))
        assert np.abs(scores).max() < bound

    def test_fit_sample_save_load(self, tmp_path):
        objective = ScoreMatching(num_particles=8, critic=MLPCritic((8,)))
        fitted = sivi.fit(named_density, like=LIKE, objective=objective, num_steps=4, whiten=None, progress=False)
        draws = fitted.sample(50, key=1)
        assert sorted(draws) == ["mu", "tau", "w"]
        assert is_simplex(np.asarray(draws["w"]))
        free = fitted.unconstrained(50, key=1)
        np.testing.assert_allclose(draws["tau"], np.exp(free[:, 1]), rtol=1e-6)
        fitted.save(tmp_path / "fit.sivi")
        for loaded in (sivi.load(tmp_path / "fit.sivi"), sivi.load(tmp_path / "fit.sivi", target=named_density)):
            assert loaded.layout == fitted.layout
            np.testing.assert_array_equal(loaded.sample(50, key=1)["w"], draws["w"])
        other = LogDensity(named_density, like={**LIKE, "tau": 1.0})
        with pytest.raises(FitFileError, match="another model"):
            sivi.load(tmp_path / "fit.sivi", target=other)
