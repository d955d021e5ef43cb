import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sivi.targets import LogisticRegression, MultinomialRegression

RNG = np.random.default_rng(0)
NUM_DATA, FEATURES, CLASSES = 40, 5, 3
INPUTS, LABELS = RNG.normal(size=(NUM_DATA, FEATURES)), RNG.integers(0, CLASSES, NUM_DATA)
LABELS[:CLASSES] = range(CLASSES)
X = RNG.normal(size=CLASSES * FEATURES)
BATCHES = [None, [3, 7, 11, 39]]


def softmax(logits):
    return np.exp(logits) / np.exp(logits).sum()


def naive(x, rows, scale, prior_scale):
    """Log density, score and Hessian, one datum and one class at a time."""
    weights = [x[k * FEATURES : (k + 1) * FEATURES] for k in range(CLASSES)]
    value = sum(-0.5 * b**2 / prior_scale**2 - 0.5 * np.log(2 * np.pi * prior_scale**2) for b in x)
    score, hessian = -x / prior_scale**2, -np.eye(len(x)) / prior_scale**2
    for n in rows:
        p = softmax(np.array([w @ INPUTS[n] for w in weights]))
        value += scale * np.log(p[LABELS[n]])
        for k in range(CLASSES):
            at_k = slice(k * FEATURES, (k + 1) * FEATURES)
            score[at_k] += scale * ((LABELS[n] == k) - p[k]) * INPUTS[n]
            for j in range(CLASSES):
                at_j = slice(j * FEATURES, (j + 1) * FEATURES)
                hessian[at_k, at_j] -= scale * p[k] * ((k == j) - p[j]) * np.outer(INPUTS[n], INPUTS[n])
    return value, score, hessian


def indices(batch):
    return None if batch is None else jnp.array(batch)


@pytest.fixture(params=["cpu", "gpu"])
def backend(request, monkeypatch):
    """Off the CPU the features are filled up with zeros; nothing else depends on the name."""
    monkeypatch.setattr(jax, "default_backend", lambda: request.param)


def expected(batch, prior_scale=0.7):
    rows, scale = (range(NUM_DATA), 1.0) if batch is None else (batch, NUM_DATA / len(batch))
    return naive(X, rows, scale, prior_scale)


@pytest.mark.parametrize("batch", BATCHES)
def test_log_density_and_score_one_datum_at_a_time(precision, backend, batch):
    model = MultinomialRegression(INPUTS, LABELS, prior_scale=0.7)
    value, score, _ = expected(batch)
    digits = 1e-12 if precision == "float64" else 3e-5
    np.testing.assert_allclose(model.log_prob(jnp.asarray(X, float), indices(batch)), value, rtol=digits)
    np.testing.assert_allclose(model.score(jnp.asarray(X, float), indices(batch)), score, rtol=digits, atol=digits)


@pytest.mark.parametrize("batch", BATCHES)
def test_products_with_the_hessian_through_the_score(precision, backend, batch):
    """What the gradient of a Fisher divergence takes, forwards and backwards."""
    model = MultinomialRegression(INPUTS, LABELS, prior_scale=0.7)
    direction = np.random.default_rng(1).normal(size=model.dim)
    product = expected(batch)[2] @ direction
    digits = 1e-12 if precision == "float64" else 1e-4
    x, v = jnp.asarray(X, float), jnp.asarray(direction, float)
    score = lambda point: model.score(point, indices(batch))  # noqa: E731
    np.testing.assert_allclose(jax.vjp(score, x)[1](v)[0], product, rtol=digits, atol=digits)
    np.testing.assert_allclose(jax.jvp(score, (x,), (v,))[1], product, rtol=digits, atol=digits)


def test_minibatches_of_an_epoch_average_to_all_data(x64):
    model = MultinomialRegression(INPUTS, LABELS)
    x = jnp.asarray(X)
    batches = jnp.asarray(np.random.default_rng(2).permutation(NUM_DATA).reshape(5, 8))
    scores = jax.vmap(lambda batch: model.score(x, batch))(batches)
    np.testing.assert_allclose(scores.mean(0), model.score(x), rtol=1e-12, atol=1e-12)
    values = jax.vmap(lambda batch: model.log_prob(x, batch))(batches)
    np.testing.assert_allclose(values.mean(), model.log_prob(x), rtol=1e-12)
    assert float(scores.std(0).min()) > 0.1


def test_one_datum_many_data_and_predictions_agree(x64):
    model = MultinomialRegression(INPUTS, LABELS)
    x, inputs = jnp.asarray(X), jnp.asarray(INPUTS[:7])
    probabilities = model.predict(x, inputs)
    coefficients = X.reshape(CLASSES, FEATURES)
    slow = np.array([softmax([coefficients[k] @ row for k in range(CLASSES)]) for row in INPUTS[:7]])
    np.testing.assert_allclose(probabilities, slow, rtol=1e-12)
    for label in range(CLASSES):
        labels = jnp.full(7, label, jnp.int32)
        np.testing.assert_allclose(model.log_likelihoods(x, (inputs, labels)), np.log(slow[:, label]), rtol=1e-12)
        terms = [model.log_likelihood(x, (row, labels[0])) for row in inputs]
        np.testing.assert_allclose(terms, np.log(slow[:, label]), rtol=1e-12)


def test_predictions_of_draws_are_those_of_every_draw(x64):
    draws = np.random.default_rng(3).normal(size=(2, 5, CLASSES * FEATURES))
    model = MultinomialRegression(INPUTS, LABELS)
    found = model.predict(jnp.asarray(draws), jnp.asarray(INPUTS[:4]))
    assert found.shape == (2, 5, 4, CLASSES)
    np.testing.assert_allclose(found[1, 2], model.predict(jnp.asarray(draws[1, 2]), jnp.asarray(INPUTS[:4])))
    np.testing.assert_allclose(found.sum(-1), 1.0)
    logistic = LogisticRegression(INPUTS, LABELS == 1)
    weights = jnp.asarray(draws[..., :FEATURES])
    np.testing.assert_allclose(
        logistic.predict(weights, jnp.asarray(INPUTS[:4]))[1, 2],
        logistic.predict(weights[1, 2], jnp.asarray(INPUTS[:4])),
    )


def test_labels_that_leave_classes_out_are_told():
    with pytest.warns(UserWarning, match="labels: 1 of the classes from 0 to 3 have no row; give num_classes"):
        MultinomialRegression(np.ones((3, 2)), [1, 2, 3])
    MultinomialRegression(np.ones((3, 2)), [1, 2, 3], num_classes=4)


def test_coefficients_are_the_classes_weights_one_after_the_other():
    model = MultinomialRegression(INPUTS, LABELS)
    draws = jnp.asarray(RNG.normal(size=(4, model.dim)), jnp.float32)
    coefficients = model.coefficients(draws)
    assert coefficients.shape == (4, CLASSES, FEATURES)
    np.testing.assert_array_equal(coefficients[2, 1], draws[2, FEATURES : 2 * FEATURES])
    np.testing.assert_array_equal(model.coefficients(draws[2]), coefficients[2])


def test_two_classes_are_logistic_regression_in_the_difference_of_their_weights(x64):
    labels = LABELS % 2
    model, logistic = MultinomialRegression(INPUTS, labels), LogisticRegression(INPUTS, labels, prior_scale=1.0)
    weights = model.coefficients(jnp.asarray(X[: 2 * FEATURES]))
    difference = weights[1] - weights[0]
    np.testing.assert_allclose(
        model.log_likelihoods(weights.ravel(), model.data),
        logistic.log_likelihoods(difference, logistic.data),
        rtol=1e-12,
    )
    np.testing.assert_allclose(
        model.predict(weights.ravel(), model.data[0])[:, 1], logistic.predict(difference, logistic.data[0]), rtol=1e-12
    )


def test_far_from_zero_nothing_overflows():
    model = MultinomialRegression([[1.0], [1.0]], [0, 2], num_classes=3, prior_scale=1e6)
    x = jnp.array([1e4, 0.0, -1e4], jnp.float32)
    at = lambda label: float(model.log_likelihood(x, (jnp.ones(1), jnp.asarray(label))))  # noqa: E731
    assert (at(0), at(1), at(2)) == (0.0, -1e4, -2e4)
    np.testing.assert_array_equal(model.score(x), [-1.0, 0.0, 1.0])


def test_a_label_that_is_no_class_has_probability_zero():
    model = MultinomialRegression(INPUTS, LABELS)
    row = jnp.asarray(INPUTS[0], jnp.float32)
    for label in (-1, CLASSES):
        assert model.log_likelihood(jnp.asarray(X, jnp.float32), (row, jnp.asarray(label))) == -np.inf


def compiled(function, *arguments):
    return jax.jit(function).lower(*arguments).compile().as_text()


@pytest.mark.slow
@pytest.mark.optimised
def test_scores_of_many_points_are_two_products_of_matrices_and_nothing_is_transposed():
    """(points · classes, features) × (features, batch), and back: one product for all points and all data."""
    if os.environ.get("XLA_FLAGS"):  # the suite's own: a user has other programs
        this = f"{__file__}::test_scores_of_many_points_are_two_products_of_matrices_and_nothing_is_transposed"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "slow", "-p", "no:cacheprovider", this]
        plain = {"XLA_FLAGS": "", "JAX_ENABLE_COMPILATION_CACHE": "false"}
        done = subprocess.run(command, env=os.environ | plain, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout[-3000:]
        return
    model, points, batch = MultinomialRegression(INPUTS, LABELS), jnp.ones((8, 15)), jnp.arange(16)

    def scores(model, points):
        return jax.vmap(lambda x: model.score(x, batch))(points)

    program = compiled(scores, model, points)
    assert sum(line.count(" dot(") for line in program.splitlines()) == 2
    assert " f32[24,16]{1,0} dot(" in program
    assert " f32[24,5]{1,0} dot(" in program
    assert " transpose(" not in program
    assert " scatter(" not in program
    assert "f32[16,5]" in program  # the rows of the batch are gathered once ...
    assert "f32[8,16,5]" not in program  # ... and not for every point
    gradient = compiled(jax.grad(lambda points: jnp.sum(jnp.sin(scores(model, points)))), points)
    assert gradient.count(" dot(") == 4
    assert " transpose(" not in gradient


def test_data_are_stored_once_and_in_the_types_of_computation(precision):
    inputs = INPUTS.astype(precision)
    model = MultinomialRegression(inputs, LABELS.astype(float), num_classes=7)
    assert (model.num_classes, model.dim) == (7, 7 * FEATURES)
    assert (model.data[0].dtype, model.data[1].dtype) == (precision, "int32")
    stored = np.array(model.data[0])
    inputs[:] = 0.0  # what becomes of the caller's array is no matter
    np.testing.assert_array_equal(model.data[0], stored)
    on_device = jnp.asarray(stored)
    assert MultinomialRegression(on_device, LABELS).data[0] is on_device
    np.testing.assert_array_equal(MultinomialRegression((INPUTS > 0).astype(np.uint8), LABELS).data[0], INPUTS > 0)


def test_wrong_input(as_a_user):
    holed = np.where(LABELS == 1, np.nan, LABELS)
    for inputs, labels, rule in [
        (INPUTS, LABELS - 1, r"^labels must be whole numbers from 0 to 2³¹ − 1; got -1, and \d+ such values in all\.$"),
        (INPUTS, LABELS / 2, r"^labels must be whole numbers from 0 to 2³¹ − 1; got 0\.5, and \d+ such values"),
        (INPUTS, holed, r"^labels must be whole numbers from 0 to 2³¹ − 1; got nan, and \d+ such values in all\.$"),
        (INPUTS, LABELS * 0, r"^num_classes must be given where labels has one class only; all labels are 0\.$"),
        (INPUTS, ["a"] * NUM_DATA, r"^labels must be an array of numbers; got an array of dtype <U1"),
        (INPUTS.astype(str), LABELS, r"^inputs must be an array of numbers; got an array of dtype <U32"),
        (INPUTS, LABELS[:-1], r"^inputs must have shape \(num_data, features\) and labels \(num_data,\); .*\(39,\)\.$"),
        (INPUTS[:, 0], LABELS, r"^inputs must have shape .* \(40,\) and"),
        (INPUTS[:, :0], LABELS, r"^inputs must have shape .* \(40, 0\) and"),
        (np.where(INPUTS > 2, np.inf, INPUTS), LABELS, r"^inputs must be finite; \d+ rows are not\.$"),
        (INPUTS[:0], LABELS[:0], r"^inputs must have at least one row; got an array of .* \(0, 5\)\.$"),
    ]:
        with pytest.raises(ValueError, match=rule):
            MultinomialRegression(inputs, labels)
    with pytest.raises(
        ValueError, match=r"^labels must be whole numbers from 0 to 1; got 2, and \d+ such values in all"
    ):
        MultinomialRegression(INPUTS, LABELS, num_classes=2)
    with pytest.raises(ValueError, match=r"^num_classes must be at least 2; got 1\.$"):
        MultinomialRegression(INPUTS, LABELS, num_classes=1)
    with pytest.raises(TypeError, match=r"^num_classes must be an integer of at least 2; got 2\.5\.$"):
        MultinomialRegression(INPUTS, LABELS, num_classes=2.5)
    with pytest.raises(ValueError, match=r"^prior_scale must be a positive, finite number; got 0\.0"):
        MultinomialRegression(INPUTS, LABELS, prior_scale=0.0)
