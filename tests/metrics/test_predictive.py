import tracemalloc

import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm

import sivi
from sivi.metrics import _predictive_sums, predictive_scores
from sivi.targets import BayesianModel, LogisticRegression, MultinomialRegression


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


@pytest.mark.parametrize("numbers", [1, 15, 40, 100])
def test_blocks_change_nothing(numbers, monkeypatch):
    """Of draws, of data and of both; down to one of each."""
    rng = np.random.default_rng(2)
    draws = rng.normal(size=(23, 2))
    data = (rng.normal(size=(11, 2)), rng.integers(0, 2, 11))
    whole = predictive_scores(MODEL, draws, data)
    monkeypatch.setattr(_predictive_sums, "_NUMBERS", numbers)
    blocks = predictive_scores(MODEL, draws, data)
    np.testing.assert_allclose([blocks.per_point, blocks.joint], [whole.per_point, whole.joint], rtol=1e-6)
    np.testing.assert_allclose([blocks.per_point, blocks.joint], enumerated(draws, *data), rtol=1e-5)


def test_blocks_are_large_but_no_larger_than_allowed():
    for num_draws, num_data, dim, row_size, width in [
        (1000, 60_000, 7850, 786, 10),
        (10**7, 3, 2, 2, 0),
        (1, 10**7, 7850, 786, 10),
        (10**4, 10**6, 10**6, 10**5, 1000),
    ]:
        draws, rows = _predictive_sums.block_sizes(num_draws, num_data, dim, row_size, width)
        assert 1 <= draws <= min(num_draws, 1000)
        assert 1 <= rows <= num_data
        sizes = [draws * dim, rows * row_size, draws * rows * (8 + 3 * width)]
        assert max(sizes) <= 2**23
        assert (draws, rows) == (min(num_draws, 1000), num_data) or max(sizes) > 2**21
    assert _predictive_sums.block_sizes(1, 1, 2**24, 2**24, 0) == (1, 1)


def test_a_model_with_many_classes_is_looked_at_in_smaller_blocks(monkeypatch):
    seen = []
    sizes = _predictive_sums.block_sizes
    monkeypatch.setattr(_predictive_sums, "block_sizes", lambda *given: seen.append(given[-1]) or sizes(*given))
    rng = np.random.default_rng(0)
    inputs, labels = rng.normal(size=(40, 2)), np.arange(40) % 20
    model = sivi.targets.MultinomialRegression(inputs, labels)
    predictive_scores(model, rng.normal(size=(3, 40)), (inputs, labels))
    assert seen == [20]


class Counting(Location):
    """Counts how often it is traced."""

    def log_likelihood(self, x, datum):
        TRACES.append(datum["y"].shape)
        return super().log_likelihood(x, datum)


TRACES: list[tuple[int, ...]] = []


def test_all_blocks_are_one_program(monkeypatch):
    monkeypatch.setattr(_predictive_sums, "_NUMBERS", 64)
    draws, y = np.linspace(-1.0, 1.0, 69)[:, None], np.linspace(0.0, 2.0, 5)  # of 64 and 5 draws, of 1 datum each
    TRACES.clear()
    scores = predictive_scores(Counting({"y": jnp.zeros(4)}), draws, {"y": y})
    assert len(TRACES) == 1
    p = norm.pdf(y, draws)
    np.testing.assert_allclose(scores.per_point, np.log(p.mean(0)).mean(), rtol=1e-6)


def test_memory_does_not_grow_with_draws_times_data():
    rng = np.random.default_rng(5)
    draws = rng.normal(size=(4000, 2)).astype(np.float32)
    data = (rng.normal(size=(4000, 2)).astype(np.float32), rng.integers(0, 2, 4000).astype(np.float32))
    predictive_scores(MODEL, draws, data)
    tracemalloc.start()
    scores = predictive_scores(MODEL, draws, data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e6  # all terms have 6.4e7 bytes
    np.testing.assert_allclose([scores.per_point, scores.joint], predictive_by_sums(draws, *data), rtol=1e-6)


def predictive_by_sums(draws, inputs, labels):
    terms = -np.logaddexp(0.0, np.where(labels == 1, -1.0, 1.0) * (draws.astype(float) @ inputs.T.astype(float)))
    joint = (logsumexp(terms.sum(1)) - np.log(len(draws))) / len(labels)
    return np.mean(logsumexp(terms, axis=0)) - np.log(len(draws)), joint


def test_a_matrix_model_in_blocks_against_a_loop(x64, monkeypatch):
    rng = np.random.default_rng(6)
    model = MultinomialRegression(rng.normal(size=(6, 4)), [0, 1, 2, 0, 1, 2])
    draws, inputs, labels = rng.normal(size=(9, 12)), rng.normal(size=(13, 4)), rng.integers(0, 3, 13)
    p = np.empty((9, 13))
    for s in range(9):
        for n in range(13):
            logits = [draws[s, 4 * k : 4 * k + 4] @ inputs[n] for k in range(3)]
            p[s, n] = np.exp(logits[labels[n]]) / np.sum(np.exp(logits))
    monkeypatch.setattr(_predictive_sums, "_NUMBERS", 100)
    for data in [(inputs, labels), (jnp.asarray(inputs), labels.tolist()), (inputs.tolist(), labels.astype(float))]:
        scores = predictive_scores(model, draws, data)
        np.testing.assert_allclose(scores.per_point, np.mean(np.log(p.mean(0))), rtol=1e-12)
        np.testing.assert_allclose(scores.joint, np.log(np.mean(p.prod(1))) / 13, rtol=1e-12)
    with pytest.raises(ValueError, match=r"^labels in data must be whole numbers from 0 to 2; got 7, and 4 such"):
        predictive_scores(model, draws, (inputs, np.where(labels == 2, 7, labels)))


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
    counts = MultinomialRegression(np.eye(2), [0, 1], num_classes=2)
    for labels, value in [([0, 0.5, 1], "0.5"), ([0, np.nan, 1], "nan"), ([0, 2.0**40, 1], r"1\.09951e\+12")]:
        rule = f"^data must fit the type int32 where model.data has it; got {value}, and 1 such values in all"
        with pytest.raises(ValueError, match=rule):
            predictive_scores(counts, np.zeros((1, 4)), (HELD_OUT[0], labels))
