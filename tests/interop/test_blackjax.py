from dataclasses import replace

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from oracles import linear_gaussian_family
from sivi.coordinates import DenseMap
from sivi.interop import blackjax_start
from unfitted import posterior_of

#: Correlated, with standard deviations from 0.01 to 100.
SD = np.array([0.01, 1.0, 100.0])
CORRELATION = np.array([[1.0, 0.8, 0.0], [0.8, 1.0, -0.3], [0.0, -0.3, 1.0]])
COVARIANCE = CORRELATION * np.outer(SD, SD)
MEAN = np.array([1.0, -2.0, 50.0])
CHAINS, DRAWS = 4, 1000


def gaussian():
    precision = jnp.asarray(np.linalg.inv(COVARIANCE), jnp.float32)
    return sivi.targets.LogDensity(lambda x: -0.5 * (x - MEAN) @ precision @ (x - MEAN), dim=3)


@pytest.fixture(scope="module")
def posterior():
    """A fit that is exact: in the coordinates of the Gaussian, a linear Gaussian family with its own moments undone."""
    family = linear_gaussian_family()
    conditional = family.conditional
    inside = np.linalg.cholesky(conditional.covariance)
    scale = np.linalg.cholesky(COVARIANCE) @ np.linalg.inv(inside)
    mean = MEAN - scale @ np.asarray(conditional.b)
    affine = DenseMap(jnp.asarray(mean, jnp.float32), jnp.asarray(scale, jnp.float32))
    return replace(posterior_of(family, [affine]), target=gaussian())


def test_the_metric_is_the_covariance(posterior):
    start = blackjax_start(posterior, CHAINS, key=0)
    np.testing.assert_allclose(start.inverse_mass_matrix / np.outer(SD, SD), CORRELATION, atol=0.1)
    diagonal = blackjax_start(posterior, CHAINS, key=0, dense=False)
    np.testing.assert_allclose(diagonal.inverse_mass_matrix, SD**2, rtol=0.1)
    np.testing.assert_array_equal(start.positions, posterior.unconstrained(CHAINS, 0))
    np.testing.assert_allclose(start.logdensity_fn(start.positions[0]), posterior.target.log_prob(start.positions[0]))


def test_nuts_needs_no_warm_up_of_its_metric(posterior):
    """Moments of a badly scaled Gaussian within five of their standard errors, as from independent draws or better."""
    start = blackjax_start(posterior, CHAINS, key=0)
    kernel = blackjax.nuts(start.logdensity_fn, 0.8, start.inverse_mass_matrix)

    @jax.jit
    def run(keys, states):
        def step(states, keys):
            states, info = jax.vmap(kernel.step)(keys, states)
            return states, (states.position, info.num_integration_steps, info.is_divergent)

        return jax.lax.scan(step, states, keys)[1]

    keys = jax.random.split(jax.random.key(1), (DRAWS, CHAINS))
    draws, gradients, divergent = run(keys, jax.vmap(kernel.init)(start.positions))
    assert not np.any(divergent)
    assert np.mean(gradients) < 8  # the metric fits: a trajectory is a few steps, not thousands
    standard = (np.asarray(draws, float) - MEAN) / SD
    effective = sivi.samplers.effective_sample_size(standard.transpose(1, 0, 2))
    assert (effective > CHAINS * DRAWS / 4).all()
    flat = standard.reshape(-1, 3)
    assert (np.abs(flat.mean(0)) < 5 / np.sqrt(effective)).all()
    np.testing.assert_allclose(np.cov(flat.T), CORRELATION, atol=5 * np.sqrt(2 / effective.min()))


def test_positions_have_names_through_the_layout():
    target = sivi.targets.LogDensity(lambda p: -p["tau"] - p["a"] ** 2, like={"tau": sivi.positive(), "a": 0.0})
    posterior = sivi.fit(target, num_steps=5, whiten=None, progress=False)
    start = blackjax_start(posterior, 3, key=2)
    named = posterior.layout.unravel_many(start.positions)
    assert (named["tau"] > 0).all()
    np.testing.assert_allclose(
        start.logdensity_fn(start.positions[0]),
        jnp.log(named["tau"][0]) - named["tau"][0] - named["a"][0] ** 2,
        rtol=1e-5,
    )


def test_what_is_refused(posterior):
    with pytest.raises(ValueError, match="posterior must have its target"):
        blackjax_start(replace(posterior, target=None), 2, key=0)
    with pytest.raises(sivi.MissingLogProb, match="ScoreFunction knows only its score"):
        blackjax_start(replace(posterior, target=sivi.targets.ScoreFunction(lambda x: -x, dim=3)), 2, key=0)
    with pytest.raises(ValueError, match="num_chains must be at least 1; got 0"):
        blackjax_start(posterior, 0, key=0)
