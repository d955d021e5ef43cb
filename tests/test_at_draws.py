"""Predictions and new data at draws of a posterior."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

import sivi
from oracles import LinearGaussian, gaussian_target
from sivi.coordinates import DiagonalMap, IdentityMap
from sivi.targets import BayesianModel, Tempered, Whitened
from unfitted import conjugate_posterior, posterior_of

INPUTS = np.array([[1.0, 0.0, 0.5], [0.0, 2.0, -1.0]])


class Noisy(BayesianModel):
    """y ~ N(slope · x, 0.5²), with data in a dict and predictions as one."""

    data: dict[str, Array]
    dim: int = 3

    def log_prior(self, x):
        return -0.5 * jnp.sum(x**2)

    def log_likelihood(self, x, datum):
        return jax.scipy.stats.norm.logpdf(datum["y"], datum["x"] @ x, 0.5)

    def sample_datum(self, key, x, datum):
        return datum["x"] @ x + 0.5 * jax.random.normal(key)

    def predict(self, x, inputs):
        return {"mean": inputs["x"] @ x, "scale": 0.5}


@pytest.fixture(scope="module")
def exact():
    """The exact posterior of a model whose data are a dict."""
    one = conjugate_posterior()
    x, y = one.target.data
    return replace(one, target=Noisy({"x": x, "y": y}))


class TestPredict:
    def test_is_that_of_the_draws(self):
        one = conjugate_posterior()
        predicted = one.predict(INPUTS, 3, num_samples=50)
        np.testing.assert_allclose(predicted, np.asarray(one.sample(50, key=3)) @ INPUTS.T, rtol=1e-5, atol=1e-6)

    def test_any_structure(self, exact):
        predicted = exact.predict({"x": INPUTS}, 3, num_samples=50)
        assert predicted["mean"].shape == (50, 2)
        np.testing.assert_array_equal(predicted["scale"], np.full(50, 0.5))

    def test_lists(self):
        one = conjugate_posterior()
        np.testing.assert_array_equal(one.predict(INPUTS.tolist(), 1), one.predict(INPUTS, 1))

    def test_named_unknowns_and_what_is_no_array(self):
        model = sivi.model(
            lambda p: -(p["a"] ** 2),
            lambda p, datum: -((datum - p["a"]) ** 2),
            data=np.zeros(4),
            like={"a": sivi.positive()},
            predict=lambda p, inputs: p["a"] * (inputs["t"] if inputs["forward"] else -inputs["t"]),
        )
        family = sivi.SemiImplicit(sivi.NormalMixing(1), LinearGaussian(jnp.ones((1, 1)), jnp.zeros(1), jnp.zeros(1)))
        one = replace(posterior_of(family, [IdentityMap(1)], model.layout), target=model)
        predicted = one.predict({"t": np.arange(3.0), "forward": False}, 2, num_samples=5)
        np.testing.assert_allclose(
            predicted, -np.asarray(one.sample(5, key=2)["a"])[:, None] * np.arange(3.0), rtol=1e-6
        )

    def test_in_blocks(self, monkeypatch):
        one = conjugate_posterior()
        whole = one.predict(INPUTS, 3, num_samples=11)
        monkeypatch.setattr("sivi.targets.evaluate.MAX_POINTS_TIMES_ROWS", 24)
        inputs = np.concatenate([INPUTS, INPUTS])
        np.testing.assert_allclose(one.predict(inputs, 3, num_samples=11)[:, :2], whole, rtol=1e-5)

    def test_of_wrapped_targets(self):
        one = conjugate_posterior()
        expected = one.predict(INPUTS, 3, num_samples=20)
        tempered = replace(one, target=Tempered(one.target, jnp.asarray(0.5)))
        np.testing.assert_array_equal(tempered.predict(INPUTS, 3, num_samples=20), expected)
        affine = DiagonalMap(jnp.array([0.3, 0.0, 1.0]), jnp.full(3, 2.0))
        in_u = replace(one, target=Whitened(one.target, affine))
        u = np.asarray(one.sample(20, key=3))
        x = np.asarray(affine.mean) + 2.0 * u
        np.testing.assert_allclose(in_u.predict(INPUTS, 3, num_samples=20), x @ INPUTS.T, rtol=1e-5, atol=1e-5)

    def test_refused(self, as_a_user):
        one = conjugate_posterior()
        with pytest.raises(
            ValueError, match="the target is needed for predictions, and this fit was loaded without it"
        ):
            replace(one, target=None).predict(INPUTS, 0)
        with pytest.raises(
            sivi.MissingFromModel, match=r"needs a model with a predict function.*; got GaussianMixture"
        ):
            replace(one, target=Tempered(gaussian_target(), jnp.asarray(1.0))).predict(INPUTS, 0)
        model = sivi.model(lambda x: -(x[0] ** 2), lambda x, y: -((y - x[0]) ** 2), data=np.zeros(4), dim=3)
        with pytest.raises(sivi.MissingFromModel, match="give predict="):
            replace(one, target=model).predict(INPUTS, 0)
        with pytest.raises(ValueError, match="num_samples must be at least 1; got 0"):
            one.predict(INPUTS, 0, num_samples=0)


class TestPredictive:
    def test_moments_of_a_conjugate_model(self, exact):
        """y_rep ~ N(F m, F C Fᵀ + ¼ I)."""
        features, y = (np.asarray(exact.target.data[name], float) for name in "xy")
        new = np.asarray(exact.predictive(1, num_samples=20_000)["y"], float)
        covariance = np.linalg.inv(np.eye(3) + features.T @ features / 0.25)
        variance = features @ covariance @ features.T + 0.25 * np.eye(len(y))
        mean = features @ covariance @ features.T @ y / 0.25
        z = (new.mean(0) - mean) / np.sqrt(np.diag(variance) / 20_000)
        assert np.abs(z).max() < 5
        np.testing.assert_allclose(np.cov(new.T), variance, atol=5 * variance.max() * np.sqrt(2 / 20_000))

    def test_noise_is_that_of_each_draw(self, exact):
        new, draws = exact.predictive(4, num_samples=2000)["y"], exact.sample(2000, key=4)
        z = (np.asarray(new) - np.asarray(draws) @ np.asarray(exact.target.data["x"]).T) / 0.5
        assert abs((z**2).mean() - 1) < 5 * np.sqrt(2 / z.size)

    def test_is_the_group_of_arviz(self, exact):
        tree = exact.to_arviz(30, key=2, log_likelihood=False)
        np.testing.assert_allclose(
            exact.predictive(2, num_samples=30)["y"], tree["posterior_predictive/y"][0], rtol=1e-5
        )

    def test_refused(self, exact, as_a_user):
        with pytest.raises(ValueError, match="the target is needed for new observations"):
            replace(exact, target=None).predictive(0)
        with pytest.raises(sivi.MissingFromModel, match=r"needs a target with observations.*; got GaussianMixture"):
            replace(exact, target=gaussian_target()).predictive(0)
        with pytest.raises(sivi.MissingFromModel, match="cannot draw new data"):
            conjugate_posterior().predictive(0)
