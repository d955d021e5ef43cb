"""Minibatches corrected at an anchor: unbiased, without noise at the anchor, and with little around it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sivi.targets import Anchored, LogisticRegression, ScoreFunction, Target


@pytest.fixture
def model(x64):
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(60, 3))
    return LogisticRegression(inputs, rng.random(60) < jax.nn.sigmoid(inputs @ [1.0, -2.0, 0.5]))


BATCHES = np.random.default_rng(1).permutation(60).reshape(12, 5)
POINT, ANCHOR = np.array([0.4, -0.3, 0.8]), np.array([0.9, -1.5, 0.4])


def test_batches_average_to_the_whole(model):
    anchored, x = Anchored.at(model, jnp.asarray(ANCHOR)), jnp.asarray(POINT)
    scores = np.stack([anchored.score(x, jnp.asarray(batch)) for batch in BATCHES])
    values = np.stack([anchored.log_prob(x, jnp.asarray(batch)) for batch in BATCHES])
    np.testing.assert_allclose(scores.mean(0), model.score(x), rtol=1e-10)
    np.testing.assert_allclose(values.mean(), model.log_prob(x), rtol=1e-10)
    np.testing.assert_allclose(anchored.score(x), model.score(x))
    np.testing.assert_allclose(anchored.log_prob(x), model.log_prob(x))


def test_score_of_a_batch_is_the_gradient_of_its_log_density(model):
    anchored, batch = Anchored.at(model, jnp.asarray(ANCHOR)), jnp.asarray(BATCHES[0])
    slope = jax.grad(anchored.log_prob)(jnp.asarray(POINT), batch)
    np.testing.assert_allclose(anchored.score(jnp.asarray(POINT), batch), slope, rtol=1e-10)


def test_noise_is_that_of_the_distance(model):
    """None at the anchor; around it in proportion to the distance, and well below that of the plain batch."""
    anchored = Anchored.at(model, jnp.asarray(ANCHOR))

    def noise(target, x):
        scores = np.stack([target.score(jnp.asarray(x), jnp.asarray(batch)) for batch in BATCHES])
        return np.sqrt(np.mean(scores.var(0)))

    shift = np.array([0.02, -0.01, 0.02])
    assert noise(anchored, ANCHOR) < 1e-12
    assert noise(anchored, ANCHOR + shift) < 0.05 * noise(model, ANCHOR + shift)
    np.testing.assert_allclose(noise(anchored, ANCHOR + 2 * shift), 2 * noise(anchored, ANCHOR + shift), rtol=0.1)


def test_an_anchor_without_a_finite_score_changes_nothing(model):
    anchored, batch = Anchored(model, jnp.asarray(ANCHOR), jnp.full(3, jnp.nan)), jnp.asarray(BATCHES[0])
    np.testing.assert_array_equal(anchored.score(jnp.asarray(POINT), batch), model.score(jnp.asarray(POINT), batch))


def test_what_it_passes_on():
    target = ScoreFunction(lambda x: -x, dim=2)
    anchored = Anchored.at(target, jnp.zeros(2))
    assert (anchored.dim, anchored.num_data, anchored.knows_log_prob) == (2, None, False)


class Recorder(Target):
    """A target with data that shows which points it is asked about."""

    inner: LogisticRegression

    @property
    def dim(self):
        return self.inner.dim

    @property
    def num_data(self):
        return self.inner.num_data

    def log_prob(self, x, batch=None):
        return self.inner.log_prob(x, batch)


def test_a_fit_with_minibatches_is_anchored_at_the_centre_of_its_coordinates(monkeypatch):
    """Without whitening there is no centre, and batches are as they are."""
    import sivi._chunk

    points = []
    anchored = sivi._chunk.Anchored
    monkeypatch.setattr(sivi._chunk, "Anchored", lambda *a: points.append(a[1].shape) or anchored(*a))
    rng = np.random.default_rng(3)
    target = Recorder(LogisticRegression(rng.normal(size=(40, 2)), rng.random(40) < 0.5))
    settings = {"key": 0, "num_steps": 3, "progress": False}
    sivi.fit(target, batch_size=10, whiten=None, **settings)
    sivi.fit(target, whiten=(np.zeros(2), np.ones(2)), **settings)
    assert points == []
    sivi.fit(target, batch_size=10, whiten=(np.zeros(2), np.ones(2)), **settings)
    assert set(points) == {(2,)}
