import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm

from sivi.metrics import predictive, predictive_scores
from sivi.targets import BayesianModel, LogisticRegression


class Location(BayesianModel):
    """y ~ N(x, 1): of draws from N(m, v), both scores are Gaussian densities."""

    data: dict[str, Array]
    dim: int = 1

    def log_prior(self, x):
        return jnp.zeros(())

    def log_likelihood(self, x, datum):
        return -0.5 * (datum["y"] - x[0]) ** 2 - 0.5 * jnp.log(2 * jnp.pi)


LOCATION = Location({"y": jnp.zeros(4)})
MODEL = LogisticRegression(np.eye(2), [0, 1])
HELD_OUT = (np.array([[1.0, 0.5], [1.0, -2.0], [0.0, 0.3]]), np.array([1.0, 0.0, 1.0]))
DRAWS = np.array([[0.2, 0.1], [-1.0, 2.0], [0.7, -0.4], [3.0, 1.0]])


def enumerated(draws, inputs, labels):
    """Every probability, in float64."""
    p = 1.0 / (1.0 + np.exp(-draws @ inputs.T))
    p = np.where(labels == 1, p, 1.0 - p)
    return np.mean(np.log(p.mean(0))), np.log(np.mean(p.prod(1))) / len(labels)


def test_by_enumeration(precision):
    scores = predictive_scores(MODEL, DRAWS, HELD_OUT)
    np.testing.assert_allclose([scores.per_point, scores.joint], enumerated(DRAWS, *HELD_OUT), rtol=1e-5)


def test_closed_form_of_a_conjugate_model(x64):
    """x ~ N(m, v): per point N(y_n; m, 1 + v), jointly N(y; m, I + v)."""
    mean, variance, count = 0.4, 0.5, 200_000
    y = np.array([0.9, -0.7, 1.6])
    draws = np.random.default_rng(0).normal(mean, np.sqrt(variance), size=(count, 1))
    scores = predictive_scores(LOCATION, draws, {"y": y})
    p = norm.pdf(y, draws)
    # Errors of logarithms of means, by the delta method; |z| < 4.1 fails falsely in 1 of 10,000 runs of one seed.
    influence = (p / p.mean(0)).mean(1)
    exact = norm.logpdf(y, mean, np.sqrt(1.0 + variance)).mean()
    assert abs(scores.per_point - exact) / (influence.std() / np.sqrt(count)) < 4.1
    products = p.prod(1)
    exact = multivariate_normal.logpdf(y, np.full(3, mean), np.eye(3) + variance) / 3
    assert abs(scores.joint - exact) / (products.std() / products.mean() / np.sqrt(count) / 3) < 4.1


def test_joint_prefers_draws_that_are_too_narrow(x64):
    """As the docstring warns: data of the model's own, far more than it was fitted to; per point does not."""
    rng = np.random.default_rng(1)
    y, centre = rng.normal(size=2000), rng.normal(size=(4000, 1))  # the truth is x = 0, the posterior N(0, s²)
    right = predictive_scores(LOCATION, 0.3 + 0.3 * centre, {"y": y})  # off by one of its standard deviations
    narrow = predictive_scores(LOCATION, 0.01 * centre, {"y": y})
    assert narrow.joint > right.joint
    wide, point = (predictive_scores(LOCATION, 0.6 + s * centre, {"y": y}) for s in (0.6, 0.01))
    assert wide.per_point > point.per_point


def test_blocks_change_nothing(monkeypatch):
    draws = np.random.default_rng(2).normal(size=(23, 2))
    whole = predictive_scores(MODEL, draws, HELD_OUT)
    monkeypatch.setattr(predictive, "_TERMS", 15)  # five draws at once, and three left over
    blocks = predictive_scores(MODEL, draws, HELD_OUT)
    np.testing.assert_allclose([blocks.per_point, blocks.joint], [whole.per_point, whole.joint], rtol=1e-6)
    monkeypatch.setattr(predictive, "_TERMS", 1)
    single = predictive_scores(MODEL, draws, HELD_OUT)
    np.testing.assert_allclose([single.per_point, single.joint], [whole.per_point, whole.joint], rtol=1e-6)


def test_many_data_underflow_nothing():
    """Products of 5000 probabilities are far below the smallest float."""
    rng = np.random.default_rng(3)
    inputs, labels = rng.normal(size=(5000, 2)), (rng.random(5000) < 0.5).astype(float)
    scores = predictive_scores(MODEL, DRAWS, (inputs, labels))
    logits = np.where(labels == 1, 1.0, -1.0) * (DRAWS @ inputs.T)
    totals = -np.logaddexp(0.0, -logits).sum(1)
    np.testing.assert_allclose(scores.joint, (logsumexp(totals) - np.log(4)) / 5000, rtol=1e-5)


def test_wrong_input(as_a_user):
    for data, rule in [
        (HELD_OUT[0], r"^data must have the structure of model.data, PyTreeDef\(\(\*, \*\)\); got an array"),
        ((HELD_OUT[0][:, :1], HELD_OUT[1]), r"^data must have rows of shapes \[\(2,\), \(\)\], .* got .*\(3, 1\)"),
        (
            (HELD_OUT[0], HELD_OUT[1][:2]),
            r"one leading length of at least 1; got arrays of shapes \[\(3, 2\), \(2,\)\]",
        ),
        ((HELD_OUT[0][:0], HELD_OUT[1][:0]), "one leading length of at least 1"),
        ((HELD_OUT[0][0], HELD_OUT[1][0]), "one leading length of at least 1"),
    ]:
        with pytest.raises(ValueError, match=rule):
            predictive_scores(MODEL, DRAWS, data)
    with pytest.raises(ValueError, match=r"^draws and model must have the same dim; got 1 and 2\.$"):
        predictive_scores(MODEL, DRAWS[:, :1], HELD_OUT)
    with pytest.raises(ValueError, match=r"^draws must be finite; 4 rows are not\.$"):
        predictive_scores(MODEL, DRAWS * np.nan, HELD_OUT)
    with pytest.raises(TypeError, match=r"^model must be a sivi.targets.BayesianModel; got <function"):
        predictive_scores(lambda x: x, DRAWS, HELD_OUT)
    with pytest.raises(ValueError, match=r"^model must have a log likelihood at every draw; at 4 "):
        predictive_scores(MODEL, DRAWS, (HELD_OUT[0] * np.nan, HELD_OUT[1]))
