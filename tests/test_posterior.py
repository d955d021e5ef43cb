import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import sivi
import unfitted
from contracts.plugins import small_family
from oracles import linear_gaussian_family
from sivi._layout import Layout
from sivi._programs import PROGRAMS
from sivi.coordinates import IdentityMap
from sivi.critics import MLPCritic
from sivi.objectives import ScoreMatching
from sivi.targets import Banana
from sivi.verdict.inference import Inference
from sivi.verdict.refined import Refined
from sivi.verdict.result import Cost

OBJECTIVE = ScoreMatching(num_particles=16, critic=MLPCritic((8,)))


def posterior_of(family):
    return unfitted.posterior_of(family, [IdentityMap(family.dim)])


@pytest.fixture(scope="module")
def posterior():
    return sivi.fit(Banana(), family=small_family(), objective=OBJECTIVE, num_steps=6, whiten=None, progress=False)


class TestSample:
    def test_is_a_function_of_the_key(self, posterior):
        np.testing.assert_array_equal(posterior.sample(10, key=3), posterior.sample(10, key=jax.random.key(3)))
        assert (posterior.sample(10, key=3) != posterior.sample(10, key=4)).any()

    @pytest.mark.parametrize("from_host", [True, False])
    def test_in_blocks(self, posterior, monkeypatch, from_host):
        """The draws of one block, whatever the size of blocks, and whoever makes the noise."""
        whole = np.asarray(posterior.sample(21, key=1))
        assert whole.shape == (21, 2)
        assert len(np.unique(whole, axis=0)) == 21
        monkeypatch.setattr("sivi._draws.noise_from_host", lambda: from_host)
        np.testing.assert_allclose(posterior.sample(21, key=1), whole, atol=1e-5)
        monkeypatch.setattr("sivi._draws._MAX_DRAWS", 16)
        monkeypatch.setattr("sivi._draws._MAX_DRAWS_ON_DEVICE", 16)
        np.testing.assert_allclose(posterior.sample(21, key=1), whole, atol=1e-5)

    def test_one_program_whatever_the_number(self, posterior):
        posterior.sample(3, key=0)
        before = len(PROGRAMS)
        for num in (1, 7, 100):
            assert posterior.sample(num, key=2).shape == (num, 2)
        assert len(PROGRAMS) == before

    def test_under_jit(self, posterior):
        traced = jax.jit(lambda key: posterior.sample(5, key=key))(jax.random.key(2))
        np.testing.assert_allclose(traced, posterior.sample(5, key=2), atol=1e-5)

    def test_moments_of_a_known_family(self):
        family = linear_gaussian_family()
        draws = np.asarray(posterior_of(family).sample(200_000, key=5))
        np.testing.assert_allclose(draws.mean(0), family.conditional.b, atol=0.02)
        np.testing.assert_allclose(np.cov(draws.T), family.conditional.covariance, atol=0.02)

    @pytest.mark.parametrize("num", [0, -1])
    def test_of_none(self, posterior, num):
        with pytest.raises(ValueError, match=f"num_samples must be at least 1; got {num}"):
            posterior.sample(num, key=0)

    @pytest.mark.parametrize("method", ["sample", "unconstrained"])
    def test_without_a_key(self, posterior, method):
        refined = Refined(np.zeros((4, 2)), posterior.layout, None, Cost(0.0, 0), "not judged")
        for draws in (posterior, refined, Inference(posterior, "fit", (), None, (), False)):
            with pytest.raises(TypeError, match=rf"^{method} needs a key, an int or a JAX key: equal keys"):
                getattr(draws, method)(5)
            assert getattr(draws, method)(5, 3).shape == getattr(draws, method)(num_samples=5, key=3).shape == (5, 2)


class TestLogProb:
    def test_agrees_with_the_closed_form(self):
        family = linear_gaussian_family()
        points = posterior_of(family).sample(50, key=1)
        exact = stats.multivariate_normal(family.conditional.b, family.conditional.covariance).logpdf(points)
        estimates = [posterior_of(family).log_prob(points, key=k, num_aux=4000) for k in range(60)]
        z = np.array([(np.asarray(value) - exact) / np.asarray(error) for value, error in estimates])
        assert z.shape == (60, 50)
        assert np.abs(z.mean(0)).max() < 5.0 / np.sqrt(60) + 0.1  # the bias is small against the error
        assert 0.85 < z.std() < 1.15  # the standard errors are neither too small nor too large

    @pytest.mark.slow
    def test_is_biased_low_and_less_so_with_more_draws(self):
        family = linear_gaussian_family()
        x = jnp.array([2.5, 1.0, -1.0])
        exact = stats.multivariate_normal(family.conditional.b, family.conditional.covariance).logpdf(x)
        means = [
            np.mean([posterior_of(family).log_prob(x, key=k, num_aux=num)[0] for k in range(300)]) for num in (3, 30)
        ]
        assert means[0] < means[1] < exact + 0.02

    def test_number_of_auxiliary_draws_need_not_fill_a_block(self, monkeypatch):
        monkeypatch.setattr("sivi.families.semi_implicit._AUX_BLOCK", 7)
        x = jnp.zeros(3)
        value, error = posterior_of(linear_gaussian_family()).log_prob(x, num_aux=2000)
        exact = stats.multivariate_normal(
            linear_gaussian_family().conditional.b, linear_gaussian_family().conditional.covariance
        ).logpdf(x)
        assert abs(float(value) - exact) < 5 * float(error)

    def test_takes_the_structure_that_sample_returns(self):
        posterior = sivi.fit(
            lambda p: -(p["a"] ** 2) - jnp.sum(p["b"] ** 2),
            like={"a": 0.0, "b": np.zeros(2)},
            num_steps=2,
            whiten=None,
            progress=False,
        )
        draws = posterior.sample(4, key=1)
        value, _ = posterior.log_prob(draws)
        single, _ = posterior.log_prob(jax.tree.map(lambda leaf: leaf[2], draws))
        assert value.shape == (4,)
        np.testing.assert_allclose(single, value[2], rtol=1e-5)

    def test_on_the_circle_is_per_length_of_arc(self):
        """The estimates of all points share their z, so they are one density, whose integral is 1."""
        family = sivi.SemiImplicit(
            sivi.NormalMixing(2), sivi.DiagonalGaussian(2, 1, hidden=(8,), key=jax.random.key(0))
        )
        fitted = unfitted.posterior_of(family, [IdentityMap(1)], Layout.like({"d": sivi.unit_vector(2)}))
        angles = np.linspace(-np.pi, np.pi, 2001)[1:-1]
        points = {"d": np.stack([np.cos(angles), np.sin(angles)], axis=1)}
        value, _ = fitted.log_prob(points, key=0, num_aux=200)
        np.testing.assert_allclose(np.exp(value).sum() * 2.0 * np.pi / 2000, 1.0, atol=1e-3)

    def test_of_another_structure(self):
        fitted = unfitted.posterior_of(small_family(), [IdentityMap(2)], Layout.like({"a": np.zeros(2)}))
        with pytest.raises(ValueError, match=r"structure of the unknowns, a; got a dict with the keys \['b'\]"):
            fitted.log_prob({"b": np.zeros(2)}, key=0)

    def test_of_the_wrong_length(self, posterior):
        with pytest.raises(ValueError, match=r"x must have shape \(2,\) or \(n, 2\); got \(3,\)"):
            posterior.log_prob(jnp.zeros(3))
