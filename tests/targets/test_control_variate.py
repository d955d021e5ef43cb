"""The control variate of minibatches: unbiased, without noise at its point, and with little around it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from sivi._fitting import loop, start
from sivi._layout import Layout
from sivi.coordinates import DiagonalMap
from sivi.targets import ControlVariate, LogisticRegression, ScoreFunction, Target, Tempered, Whitened
from sivi.warmup.rotation import array_shapes


@pytest.fixture
def model(x64):
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(60, 3))
    return LogisticRegression(inputs, rng.random(60) < jax.nn.sigmoid(inputs @ [1.0, -2.0, 0.5]))


BATCHES = np.random.default_rng(1).permutation(60).reshape(12, 5)
POINT, CENTRE = np.array([0.4, -0.3, 0.8]), np.array([0.9, -1.5, 0.4])


def test_batches_average_to_the_whole(model):
    corrected, x = ControlVariate.at(model, jnp.asarray(CENTRE)), jnp.asarray(POINT)
    scores = np.stack([corrected.score(x, jnp.asarray(batch)) for batch in BATCHES])
    values = np.stack([corrected.log_prob(x, jnp.asarray(batch)) for batch in BATCHES])
    np.testing.assert_allclose(scores.mean(0), model.score(x), rtol=1e-10)
    np.testing.assert_allclose(values.mean(), model.log_prob(x), rtol=1e-10)
    np.testing.assert_allclose(corrected.score(x), model.score(x))
    np.testing.assert_allclose(corrected.log_prob(x), model.log_prob(x))


def test_score_of_a_batch_is_the_gradient_of_its_log_density(model):
    corrected, batch = ControlVariate.at(model, jnp.asarray(CENTRE)), jnp.asarray(BATCHES[0])
    slope = jax.grad(corrected.log_prob)(jnp.asarray(POINT), batch)
    np.testing.assert_allclose(corrected.score(jnp.asarray(POINT), batch), slope, rtol=1e-10)


@pytest.mark.slow
def test_noise_is_that_of_the_distance(model):
    """None at the point; around it in proportion to the distance, and well below that of the plain batch."""
    corrected = ControlVariate.at(model, jnp.asarray(CENTRE))

    def noise(target, x):
        scores = np.stack([target.score(jnp.asarray(x), jnp.asarray(batch)) for batch in BATCHES])
        return np.sqrt(np.mean(scores.var(0)))

    shift = np.array([0.02, -0.01, 0.02])
    assert noise(corrected, CENTRE) < 1e-12
    assert noise(corrected, CENTRE + shift) < 0.05 * noise(model, CENTRE + shift)
    np.testing.assert_allclose(noise(corrected, CENTRE + 2 * shift), 2 * noise(corrected, CENTRE + shift), rtol=0.1)


def test_a_score_that_is_not_finite_at_the_point_changes_nothing(model):
    corrected, batch = ControlVariate(model, jnp.asarray(CENTRE), jnp.full(3, jnp.nan)), jnp.asarray(BATCHES[0])
    np.testing.assert_array_equal(corrected.score(jnp.asarray(POINT), batch), model.score(jnp.asarray(POINT), batch))


def test_what_it_passes_on():
    target = ScoreFunction(lambda x: -x, dim=2)
    corrected = ControlVariate.at(target, jnp.zeros(2))
    assert (corrected.dim, corrected.num_data, corrected.knows_log_prob) == (2, None, False)


@pytest.mark.slow
def test_a_fit_with_minibatches_has_one_at_the_centre_that_was_found(monkeypatch, tmp_path):
    """Not at one that was given, which may be far from the posterior, nor without whitening; resumed, as it began."""
    centres, scores = [], loop._centre_scores
    monkeypatch.setattr(loop, "_centre_scores", lambda *given: centres.append(given[1].mean) or scores(*given))
    rng = np.random.default_rng(3)
    target = LogisticRegression(rng.normal(size=(40, 2)), rng.random(40) < 0.5)
    objective = sivi.objectives.ScoreMatching(num_particles=8, critic=sivi.critics.MLPCritic((4,)))
    settings = {"key": 0, "num_steps": 4, "progress": False, "chunk_size": 2, "objective": objective}

    def has_one(whiten, batch_size):
        given = start.FitArguments(0, None, objective, 4, batch_size, None, whiten, None, 1, None)
        return start.settings_of(target, sivi.defaults.recipe(2, 40), given)[0].control_variate

    assert not has_one(None, 10)
    assert not has_one((np.ones(2), np.ones(2)), 10)
    assert not has_one("auto", None)
    assert has_one("auto", 10)
    path = tmp_path / "half.sivi"
    half = sivi.fit(target, batch_size=10, callbacks=[lambda report: True], **settings)
    half.save(path)
    rest = sivi.fit(target, resume=path, progress=False)
    assert half.settings.control_variate
    assert rest.settings.control_variate
    assert has_one(half.affine, 10)
    assert len(centres) == 2
    for centre in centres:
        np.testing.assert_array_equal(centre[0], half.affine.mean)


def test_wrappers_have_the_names_of_their_target():
    class Named(Target):
        dim: int = 6

        @property
        def layout(self):
            return Layout.like({"b": jnp.zeros(2), "w": jnp.zeros((2, 2))})

        def log_prob(self, x, batch=None):
            return -0.5 * jnp.sum(x**2)

    corrected = ControlVariate.at(Named(), jnp.zeros(6))
    assert (corrected.layout.names, array_shapes(corrected)) == (("b", "w"), ((2,), (2, 2)))
    assert array_shapes(Tempered(Named(), jnp.asarray(0.5))) == ((2,), (2, 2))
    whitened = Whitened(Named(), DiagonalMap(jnp.zeros(6), jnp.ones(6)))
    assert (whitened.layout.names, array_shapes(whitened)) == (("x",), ((6,),))
