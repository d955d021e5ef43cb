"""Bounds of the log evidence, against integrals that are known."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp

import oracles
import sivi
from oracles import LinearGaussian, gaussian_target, linear_gaussian_family, linear_regression
from sivi._evidence import _draws, _log_mixture
from sivi._host_random import fold_in
from sivi._repeats import repeat_keys, stack_repeats
from sivi.coordinates import DenseMap, DiagonalMap, IdentityMap
from sivi.families import Components
from sivi.targets import GaussianMixture, IsotropicGaussian, LogDensity, Whitened
from unfitted import conjugate_posterior, posterior_of


def narrow_family(shift=0.0):
    """Wider than the targets here, so that all weights are bounded."""
    A = jnp.array([[0.4, -0.2], [0.1, 0.3]])
    conditional = LinearGaussian(A, jnp.array([0.3, -0.2]) + shift, jnp.log(jnp.array([0.9, 1.1])))
    return sivi.SemiImplicit(sivi.NormalMixing(2), conditional)


def posterior(target, family=None, maps=None):
    family = family or linear_gaussian_family()
    return replace(posterior_of(family, maps or [IdentityMap(family.dim)], target.layout), target=target)


def linear_gaussian_evidence(model) -> float:
    features, y = (np.asarray(a, float) for a in model.data)
    return stats.multivariate_normal(np.zeros(len(y)), features @ features.T + 0.25 * np.eye(len(y))).logpdf(y)


def linear_regression_evidence(model) -> float:
    """Of the normal-inverse-gamma model."""
    x, y = (np.asarray(a, float) for a in model.data)
    precision = x.T @ x + np.eye(x.shape[1]) / model.prior_scale**2
    mean = np.linalg.solve(precision, x.T @ y)
    shape, rate = model.shape + len(y) / 2, model.rate + 0.5 * (y @ y - mean @ precision @ mean)
    log_dets = -x.shape[1] * np.log(model.prior_scale) - 0.5 * np.linalg.slogdet(precision)[1]
    constant = gammaln(shape) - gammaln(model.shape) - 0.5 * len(y) * np.log(2 * np.pi)
    return log_dets + constant + model.shape * np.log(model.rate) - shape * np.log(rate)


class TestWeights:
    def test_the_mixture_has_the_components_of_all_repeats(self, x64):
        """Against sums of Gaussian densities, one by one, in x."""
        families = [narrow_family(), narrow_family(shift=0.5)]
        maps = [DenseMap(jnp.array([1.0, 2.0]), jnp.array([[2.0, 0.0], [0.7, 0.5]]))] * 2
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *families)
        affines = stack_repeats(maps[0], 2)
        keys = repeat_keys(jax.random.key(3), 2)
        points, log_mixture = _draws(stacked, affines, keys, 4, 2)
        assert points.shape == (8, 2)
        terms = []
        L, m = np.asarray([[2.0, 0.0], [0.7, 0.5]]), np.array([1.0, 2.0])
        for i, family in enumerate(families):
            z, eps = family.sample_noise(keys[i], (4,))
            c = family.conditional
            scale = L @ np.diag(np.exp(c.log_sigma))
            for j in range(4):
                centre = L @ np.asarray(c.A @ z[j] + c.b) + m
                np.testing.assert_allclose(points[4 * i + j], centre + scale @ np.asarray(eps[j]), rtol=1e-10)
                terms.append(stats.multivariate_normal(centre, scale @ scale.T).logpdf(points))
        np.testing.assert_allclose(log_mixture, logsumexp(terms, axis=0) - np.log(8), rtol=1e-9)

    def test_in_blocks_of_points(self, monkeypatch):
        family = linear_gaussian_family()
        u = jax.random.normal(jax.random.key(0), (11, 3))
        components = family.conditional.at_each(jax.random.normal(jax.random.key(1), (5, 2)))
        assert isinstance(components, Components)
        whole = _log_mixture(components, u, 5)
        monkeypatch.setattr("sivi._evidence._MAX_NUMBERS", 4 * 5 * 3)
        np.testing.assert_allclose(_log_mixture(components, u, 5), whole, rtol=1e-5)

    @pytest.mark.parametrize("conditional", [sivi.DiagonalGaussian, sivi.StudentT, sivi.families.DenseGaussian])
    def test_of_every_conditional(self, conditional):
        """Against the density of each component at each draw."""
        layer = conditional(2, 3, hidden=(4,), scale="network", key=jax.random.key(0))
        family = sivi.SemiImplicit(sivi.NormalMixing(2), layer)
        key = jax.random.key(1)
        affines = stack_repeats(IdentityMap(3), 1)
        points, log_mixture = _draws(stack_repeats(family, 1), affines, repeat_keys(key, 1), 6, 1)
        z = jax.vmap(family.mixing.transform)(family.sample_noise(key, (6,))[0])
        pairs = jax.vmap(lambda x: jax.vmap(lambda z: layer.at(z).log_prob(x))(z))(points)
        np.testing.assert_allclose(log_mixture, logsumexp(pairs, axis=1) - np.log(6), atol=1e-4)

    @pytest.mark.parametrize("each", [1, 3])
    def test_their_mean_is_unbiased_and_their_spread_no_smaller_than_its_noise(self, x64, each):
        """With few components the mixture is far from q, and the mean still has the expectation Z, here 2."""
        maps = [DiagonalMap(jnp.array([0.2, 0.0]), jnp.ones(2)), DiagonalMap(jnp.array([-0.3, 0.1]), jnp.full(2, 1.2))]
        affines = jax.tree.map(lambda *leaves: jnp.stack(leaves), *maps)
        families = stack_repeats(narrow_family(), 2)
        target = GaussianMixture([[0.1, 0.2]], [[[0.25, 0.05], [0.05, 0.3]]])

        def batch(key):
            points, log_mixture = _draws(families, affines, repeat_keys(key, 2), each, 2)
            return 2 * jnp.exp(jax.vmap(target.log_prob)(points) - log_mixture)

        weights = np.asarray(jax.vmap(batch)(jax.random.split(jax.random.key(0), 40_000)))
        means = weights.mean(1)
        error = means.std() / np.sqrt(len(means))
        assert abs(means.mean() - 2.0) < 4 * error < 0.06
        claimed = np.sqrt(weights.var() / weights.shape[1])
        assert 0.99 * means.std() < claimed < 4 * means.std()


class TestValue:
    def test_of_the_exact_posterior(self):
        """With a known q, the components approach it, and the weights the evidence."""
        exact = conjugate_posterior()
        truth = linear_gaussian_evidence(exact.target)
        z = []
        for key in range(8):
            found = exact.log_evidence(key, num_samples=4096, num_aux=1024)
            assert found.standard_error < 0.03
            assert found.elbo < truth
            z.append((found.value - truth) / found.standard_error)
        assert abs(np.mean(z)) < 4 / np.sqrt(8)
        assert np.max(np.abs(z)) < 4

    @pytest.mark.slow
    def test_elbo_is_below_that_of_the_family_and_approaches_it(self):
        family, target = linear_gaussian_family(), gaussian_target()
        exact = float(oracles.elbo(family.conditional, target))
        gaps = []
        for num_aux in (4, 64, 4096):
            found = posterior(target, family).log_evidence(1, num_samples=8192, num_aux=num_aux)
            gaps.append(exact - found.elbo)
            assert found.elbo < found.value
        assert gaps[0] > gaps[1] + 0.1
        assert gaps[1] > -0.1
        assert abs(gaps[2]) < 0.1

    def test_of_repeats_is_that_of_their_mixture(self):
        """Each repeat is one of two modes: alone it has half of the mass, together they have all."""
        family = narrow_family()
        c, shifts = family.conditional, np.array([-6.0, 6.0])
        target = GaussianMixture(np.asarray(c.b) + shifts[:, None], [np.asarray(c.covariance)] * 2)
        both = posterior(target, family, [DiagonalMap(jnp.full(2, shift), jnp.ones(2)) for shift in shifts])
        found = both.log_evidence(0, num_samples=8192, num_aux=2048)
        assert abs(found.value) < 4 * found.standard_error < 0.05
        one = both.repeat(1).log_evidence(0, num_samples=8192, num_aux=2048)
        assert abs(one.value + np.log(2)) < 4 * one.standard_error < 0.05

    def test_is_that_of_the_free_numbers(self):
        """∫ exp(−τ) dτ = 1, as an integral over log τ with the determinant."""
        target = LogDensity(lambda p: -p["tau"], like={"tau": sivi.positive()})
        conditional = LinearGaussian(jnp.full((1, 1), 1.0), jnp.full(1, -0.6), jnp.log(jnp.full(1, 0.9)))
        found = posterior(target, sivi.SemiImplicit(sivi.NormalMixing(1), conditional)).log_evidence(2)
        assert -0.5 < found.value < 4 * found.standard_error < 0.1
        assert abs(found.value) < 4 * found.standard_error

    def test_of_a_target_that_is_not_normalised(self):
        target = IsotropicGaussian(3, sd=0.7)
        shifted = LogDensity(lambda x: target.log_prob(x) + 700.0, dim=3)
        found = posterior(shifted).log_evidence(0)
        assert abs(found.value - 700.0) < 4 * found.standard_error < 0.4
        affine = DiagonalMap(jnp.zeros(3), jnp.full(3, 1.2))
        in_u = posterior(Whitened(shifted, affine)).log_evidence(0)
        assert abs(in_u.value - 700.0) < 4 * in_u.standard_error < 0.4

    def test_a_density_that_is_not_a_number_has_no_mass(self):
        target = LogDensity(lambda x: jnp.where(x[1] > 0.2, -0.5 * jnp.sum(x**2 / 0.16), jnp.nan), dim=3)
        truth = 1.5 * np.log(2 * np.pi * 0.16) + stats.norm.logsf(0.5)
        found = posterior(target).log_evidence(0)
        assert abs(found.value - truth) < 4 * found.standard_error < 0.4
        nothing = posterior(LogDensity(lambda x: x[0] * jnp.nan, dim=3)).log_evidence(0, num_samples=64)
        assert nothing.value == -np.inf
        assert not nothing.is_reliable


class TestResult:
    def test_counts(self):
        one = posterior(gaussian_target(), maps=[IdentityMap(3)] * 2)
        found = one.log_evidence(0, num_samples=1000, num_aux=301)
        assert (found.num_aux, found.num_samples) == (302, 1208)
        assert one.log_evidence(0, num_samples=10, num_aux=500).num_aux == 10

    def test_a_function_of_the_key(self):
        one = posterior(gaussian_target())
        assert one.log_evidence(1, num_samples=64) == one.log_evidence(jax.random.key(1), num_samples=64)
        assert one.log_evidence(1, num_samples=64).value != one.log_evidence(2, num_samples=64).value
        assert fold_in(jax.random.key(1), 0) != fold_in(jax.random.key(2), 0)

    def test_says_which_direction_and_how_sure(self):
        good = str(conjugate_posterior().log_evidence(0, num_samples=512))
        assert good.startswith("log evidence ≥ -")
        assert "(a lower bound in expectation; ELBO -" in good
        assert "reliable" not in good
        bad = posterior(IsotropicGaussian(3, sd=4.0)).log_evidence(0, num_samples=4096)
        assert bad.k_hat > 0.7
        assert bad.value < 3 * bad.standard_error
        assert "not reliable: a few draws decide" in str(bad)

    def test_refused(self, as_a_user):
        one = posterior(gaussian_target())
        score_only = replace(one, target=sivi.targets.ScoreFunction(lambda x: -x, dim=3))
        with pytest.raises(
            sivi.MissingLogProb, match=r"^log_evidence needs the target's log density, and .* score: Sc"
        ):
            score_only.log_evidence(0)
        with pytest.raises(ValueError, match="the target is needed for log_evidence, and this fit was loaded without"):
            replace(one, target=None).log_evidence(0)
        with pytest.raises(ValueError, match="num_samples must be at least 2; got 1"):
            one.log_evidence(0, num_samples=1)
        with pytest.raises(ValueError, match="num_aux must be at least 1; got 0"):
            one.log_evidence(0, num_aux=0)


@pytest.mark.slow
@pytest.mark.optimised
@pytest.mark.parametrize("repeats", [1, 2])
def test_of_fits_of_a_linear_regression(repeats):
    """The joint density is normalised, and its integral known."""
    model = linear_regression()
    truth = linear_regression_evidence(model)
    fitted = sivi.fit(model, key=0, repeats=repeats, progress=False)
    found = [fitted.log_evidence(key) for key in range(20)]
    assert all(f.value - truth <= 3 * f.standard_error for f in found)
    assert all(f.value - truth > -0.5 for f in found)
    assert all(f.standard_error <= 0.05 for f in found)
    assert all(f.is_reliable for f in found)
