"""From a NumPyro model to draws, and back to NumPyro."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm
from numpyro.infer import Predictive

import sivi
from bridges.numpyro_models import MODELS, counts
from conftest import short_fit

COUNTS = {name: jnp.asarray(values) for name, values in MODELS["counts"][1].items()}


@pytest.fixture(scope="module")
def quick():
    return short_fit(sivi.fit)


def test_predictive_takes_the_draws_of_a_fit(quick):
    """Deterministic sites are computed from them as the target computes them."""
    target = sivi.from_numpyro(counts, **COUNTS)
    posterior = quick(target, key=0)
    draws = posterior.sample(50, key=1)
    assert set(draws) == {"slopes", "intercept", "concentration"}
    found = Predictive(counts, posterior_samples=draws)(jax.random.key(2), COUNTS["x"], COUNTS["exposure"])
    assert found["y"].shape == (50, len(COUNTS["y"]))
    np.testing.assert_allclose(found["rate"], np.exp(draws["intercept"]), rtol=1e-5)
    np.testing.assert_allclose(posterior.sample(50, key=1, derived=True)["rate"], found["rate"], rtol=1e-5)


def test_a_fit_with_maps_of_numpyro_is_saved_and_loaded(quick, tmp_path):
    model, data = MODELS["mixture"]
    target = sivi.from_numpyro(model, **data)
    posterior = quick(target, key=0)
    path = tmp_path / "mixture.sivi"
    posterior.save(path)
    loaded = sivi.load(path)
    assert loaded.layout == posterior.layout
    for name, values in posterior.sample(20, key=1).items():
        np.testing.assert_array_equal(loaded.sample(20, key=1)[name], values)
    assert sivi.load(path, target=sivi.from_numpyro(model, **data)).target is not None
    with pytest.raises(sivi.FitFileError):
        sivi.load(path, target=sivi.from_numpyro(model, data["y"] + 3.0))


def test_a_fit_in_minibatches_is_that_of_all_data():
    """A default fit of the plate's rows, ten at a time, against the same model without a subsample_size, by hand."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    y = 0.8 * x + 0.5 * rng.normal(size=200)

    def model(x, y, size):
        import numpyro
        import numpyro.distributions as dist

        slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
        with numpyro.plate("row", len(x), subsample_size=size) as rows:
            numpyro.sample("y", dist.Normal(slope * x[rows], 0.5), obs=y[rows])

    target = sivi.from_numpyro(model, x, y, 50)
    precision = 1.0 + np.sum(x**2) / 0.25
    mean, sd = np.sum(x * y) / 0.25 / precision, precision**-0.5
    points = jnp.array([[mean - sd], [mean + 2 * sd]])
    expected = norm.logpdf(points[:, 0], mean, sd)
    found = jax.vmap(target.log_prob)(points)
    np.testing.assert_allclose(found[1] - found[0], expected[1] - expected[0], rtol=1e-3)
    posterior = sivi.fit(target, key=0, batch_size=50, progress=False)
    draws = np.asarray(posterior.sample(4000, key=1)["slope"])
    assert abs(draws.mean() - mean) < 0.1 * sd
    assert abs(draws.std() / sd - 1.0) < 0.1
