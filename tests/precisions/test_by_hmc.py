"""What is found from generated data, and that what was given is kept. One program of the chains serves most tests."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from sivi import _precisions
from sivi._precisions import by_hmc, shared
from sivi._precisions.joint import NOISE_PRIOR, WEIGHT_PRIOR, JointPrecisions
from sivi._precisions.refitted import refitted_noise_precision
from sivi.targets import BayesianNeuralNetwork, GammaPrior

NUM_DATA, NOISE_SD = 120, 0.5


def generated(seed=0, num_data=NUM_DATA, noise_sd=NOISE_SD):
    rng = np.random.default_rng(seed)
    inputs = rng.uniform(-2.0, 2.0, size=(num_data, 1))
    return inputs, 40.0 * (np.sin(2.0 * inputs[:, 0]) + noise_sd * rng.normal(size=num_data)) + 7.0


INPUTS, TARGETS = generated()


def network(**settings):
    return BayesianNeuralNetwork(INPUTS, TARGETS, (10,), "tanh", **settings)


def in_targets_units(model):
    """The standard deviation of the noise."""
    return float(model.units.target_sd / jnp.sqrt(model.noise_precision))


@pytest.mark.slow
def test_the_noise_of_generated_data_is_found():
    """The dev part of 12 rows alone would give it to about a fifth; five data sets together to better than a tenth."""
    found = []
    for seed in range(5):
        model = BayesianNeuralNetwork(*generated(seed), (10,), "tanh").with_precisions(seed)
        assert model.left_out == ()
        assert model.weight_precision.shape == (2,)
        assert 0.02 < float(model.weight_precision.min()) < float(model.weight_precision.max()) < 50.0
        found.append(in_targets_units(model) / 40.0)
    assert abs(np.mean(np.log(found)) - np.log(NOISE_SD)) < 0.15
    assert np.abs(np.log(found) - np.log(NOISE_SD)).max() < 0.5


@pytest.mark.slow
def test_a_key_gives_the_same_again_and_notes_say_what_was_found():
    model = network()
    first, again, other = (model.with_precisions(key) for key in (1, jax.random.key(1), 2))
    assert float(first.noise_precision) == float(again.noise_precision) != float(other.noise_precision)
    (note,) = first.notes
    layers = " and ".join(f"{value:.3g}" for value in np.asarray(first.weight_precision))
    assert note == (
        f"noise precision {float(first.noise_precision):.3g} (standardised units), weight precision {layers} (one for "
        "each layer): found by a short joint HMC run on the training rows"
    )
    assert first.prepared(jax.random.key(0)) is first
    assert first.with_precisions(0) is first
    np.testing.assert_array_equal(model.prepared(jax.random.key(1)).weight_precision, first.weight_precision)
    assert np.isfinite(float(first.log_prob(first.random_start(jax.random.key(0)))))


def test_what_was_given_is_kept():
    noise = network(noise_precision=3.0).with_precisions(0)
    assert float(noise.noise_precision) == 3.0
    assert noise.found.names == ("weight_precision",)
    assert "noise" not in noise.notes[0]
    weights = network(weight_precision=(0.5, 2.0)).with_precisions(0)
    np.testing.assert_array_equal(weights.weight_precision, [0.5, 2.0])
    assert weights.found.names == ("noise_precision",)
    assert abs(np.log(in_targets_units(weights) / 40.0 / NOISE_SD)) < 0.5


@pytest.mark.slow
def test_other_models():
    """Classes and a prior have no noise precision to be found, and a module has one weight precision."""
    prior = GammaPrior(1.0, 0.1)
    inferred = network(noise_precision=prior).with_precisions(0)
    assert inferred.noise_precision == prior
    assert inferred.found.names == ("weight_precision",)
    classes = BayesianNeuralNetwork(INPUTS, TARGETS > 7.0, (10,), likelihood="softmax").with_precisions(0)
    assert classes.noise_precision is None
    assert classes.left_out == ()
    module = network(network=eqx.nn.MLP(1, 1, 10, 1, key=jax.random.key(0)), likelihood="student-t").with_precisions(0)
    assert len(module.weight_precision) == 4
    assert len(set(module.weight_precision.tolist())) == 1
    two_rows = BayesianNeuralNetwork(INPUTS[:2], TARGETS[:2], (10,)).with_precisions(0)
    assert np.isfinite(float(two_rows.noise_precision))


@pytest.mark.slow
def test_many_rows_are_seen_by_networks_though_not_by_the_chains(monkeypatch):
    seen = []
    monkeypatch.setattr(
        by_hmc, "hmc", lambda joint, hmc=by_hmc.hmc, **settings: seen.append(joint) or hmc(joint, **settings)
    )
    inputs, targets = generated(num_data=6000)
    model = BayesianNeuralNetwork(inputs, targets, (10,), "tanh").with_precisions(0)
    assert seen[0].model.num_data == by_hmc.MOST_ROWS
    assert abs(np.log(in_targets_units(model) / 40.0 / NOISE_SD)) < 0.05  # 600 rows left aside: ± 0.03


def test_rows_left_aside_are_a_tenth_and_no_others():
    def rows_of(num_data, **settings):
        model = BayesianNeuralNetwork(np.arange(num_data)[:, None], np.arange(num_data), (2,), **settings)
        return shared.RowsAside.of(jax.random.key(0), model)

    rows = rows_of(95)
    assert len(rows.dev) == 9
    assert sorted([*rows.fit, *rows.dev]) == list(range(95))
    assert len(rows_of(95, noise_precision=1.0).dev) == 0
    assert len(rows_of(9).dev) == 0
    large = rows_of(50_000)
    assert (len(large.fit), len(large.dev)) == (45_000, shared.MOST_DEV_ROWS)


def test_the_joint_density_is_that_of_weights_and_log_precisions(x64):
    model = network()
    joint = JointPrecisions.of(model)
    assert joint.dim == model.dim + 3
    z = jnp.asarray(np.random.default_rng(0).normal(size=joint.dim))
    weights, log_lambda, log_gamma = np.split(np.asarray(z), [model.dim, model.dim + 2])
    expected = float(
        network(noise_precision=np.exp(log_gamma[0]), weight_precision=np.exp(log_lambda)).log_prob(
            jnp.asarray(weights)
        )
    )
    for prior, logs in [(WEIGHT_PRIOR, log_lambda), (NOISE_PRIOR, log_gamma)]:
        expected += np.sum(stats.gamma.logpdf(np.exp(logs), prior.shape, scale=1.0 / prior.rate) + logs)
    np.testing.assert_allclose(joint.log_prob(z), expected, rtol=1e-10)


def test_the_noise_precision_is_the_best_of_the_rows_left_aside(x64):
    """By a fine search, of a mixture of a few networks, with the prior that draws it to that of the chains."""
    model = network(weight_precision=1.0)
    weights = jnp.stack([model.random_start(jax.random.key(i)) for i in range(5)])
    found = float(refitted_noise_precision(model, weights, jnp.asarray(1.3)))
    outputs = np.asarray([model.outputs(model.point(w), model.data["x"])[0] for w in weights])
    grid = 1.3 * np.exp(np.linspace(-4.0, 2.0, 6001))
    densities = stats.norm.pdf(
        np.asarray(model.data["y"]), outputs[:, None], grid[:, None, None].swapaxes(0, 1) ** -0.5
    )
    scores = np.log(densities.mean(0)).sum(-1) - 0.5 * (np.log(grid / 1.3) / 0.5) ** 2
    assert abs(np.log(found / grid[scores.argmax()])) < 0.04  # half the distance of two candidates


def test_methods_are_named(as_a_user):
    assert list(_precisions.METHODS) == ["hmc", "svgd"]
    with pytest.raises(ValueError, match=r"^method must be 'hmc' or 'svgd'; got 'laplace'\.$"):
        network().with_precisions(0, method="laplace")
    with pytest.raises(TypeError, match=r"^key must be an int or one JAX random key; got 'a'\.$"):
        network().with_precisions("a")


def test_by_particles():
    """One λ for all layers, within e^±2 of its start; noise as generated, to what twelve rows and few steps allow."""
    model = network().with_precisions(0, method="svgd")
    first, second = np.asarray(model.weight_precision)
    assert first == second
    assert abs(np.log(first)) < 2.1
    assert abs(np.log(in_targets_units(model) / 40.0 / NOISE_SD)) < 0.5
    assert model.notes[0].endswith("found by a short joint SVGD run on the training rows")
    kept = network(noise_precision=3.0).with_precisions(0, method="svgd")
    assert float(kept.noise_precision) == 3.0
