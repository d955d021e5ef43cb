import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sivi.targets import LogisticRegression

RNG = np.random.default_rng(0)
INPUTS, LABELS = RNG.normal(size=(40, 5)), (RNG.random(40) < 0.3).astype(int)


def test_log_density_by_hand(x64):
    """y βᵀx − log(1 + exp(βᵀx)) and the normalised prior N(0, s² I)."""
    x = np.array([0.3, -1.2])
    inputs, labels = np.array([[1.0, 2.0], [1.0, -0.5], [1.0, 0.1]]), np.array([1, 0, 1])
    logits = inputs @ x
    likelihood = np.sum(labels * logits - np.log1p(np.exp(logits)))
    prior = -0.5 * np.sum(x**2) / 9.0 - 0.5 * 2 * np.log(2 * np.pi * 9.0)
    model = LogisticRegression(inputs, labels, prior_scale=3.0)
    np.testing.assert_allclose(model.log_prob(jnp.asarray(x)), likelihood + prior, rtol=1e-12)


@pytest.mark.parametrize("batch", [None, [3, 7, 11, 39]])
def test_score_in_matrix_form(precision, batch):
    """(N/|batch|) Xᵀ(y − p) − β/s², also of a minibatch."""
    model = LogisticRegression(INPUTS, LABELS, prior_scale=0.7)
    x = RNG.normal(size=5)
    rows = slice(None) if batch is None else np.array(batch)
    p = 1.0 / (1.0 + np.exp(-INPUTS[rows] @ x))
    scale = 1.0 if batch is None else 40 / 4
    exact = scale * INPUTS[rows].T @ (LABELS[rows] - p) - x / 0.7**2
    score = model.score(jnp.asarray(x, float), None if batch is None else jnp.array(batch))
    np.testing.assert_allclose(score, exact, rtol=1e-12 if precision == "float64" else 3e-5)


def test_far_from_zero_nothing_overflows_and_no_tail_is_lost():
    model = LogisticRegression([[1.0], [1.0]], [0, 1], prior_scale=1e6)
    at = lambda value, label: float(  # noqa: E731
        model.log_likelihood(jnp.array([value], jnp.float32), (jnp.ones(1), jnp.asarray(float(label))))
    )
    assert at(1e4, 0) == at(-1e4, 1) == -1e4
    assert at(1e4, 1) == at(-1e4, 0) == 0.0
    np.testing.assert_allclose([at(30.0, 1), at(-30.0, 0)], -np.exp(-30.0), rtol=1e-5)
    np.testing.assert_array_equal(model.score(jnp.array([1e4], jnp.float32)), [-1.0])


def test_predictions_are_the_probabilities_of_the_likelihood():
    model = LogisticRegression(INPUTS, LABELS)
    x = jnp.asarray(RNG.normal(size=5), jnp.float32)
    inputs = jnp.asarray(INPUTS[:7], jnp.float32)
    for label in (0.0, 1.0):
        terms = [model.log_likelihood(x, (row, jnp.asarray(label))) for row in inputs]
        p = model.predict(x, inputs)
        np.testing.assert_allclose(jnp.where(label == 1.0, p, 1 - p), np.exp(terms), rtol=1e-5)


def test_scores_of_many_points_are_two_products_of_matrices():
    """Not one product per datum or per point."""
    model = LogisticRegression(INPUTS, LABELS)
    program = str(jax.make_jaxpr(jax.vmap(model.score))(jnp.zeros((8, 5))))
    assert program.count("dot_general") == 2
    assert "while" not in program
    assert "scan" not in program


def test_wrong_input(as_a_user):
    for inputs, labels, rule in [
        (INPUTS, LABELS * 2 - 1, r"^labels must be 0 or 1; got -1, and \d+ such values in all\.$"),
        (INPUTS, np.where(LABELS == 1, np.nan, 0.0), "^labels must be 0 or 1; got nan"),
        (
            INPUTS,
            LABELS[:-1],
            r"^inputs must have shape \(num_data, features\) and labels \(num_data,\); got .*\(39,\)",
        ),
        (INPUTS[:, 0], LABELS, r"^inputs must have shape .* \(40,\) and"),
        (np.where(INPUTS > 2, np.inf, INPUTS), LABELS, r"^inputs must be finite; \d+ rows are not\.$"),
        (INPUTS[:0], LABELS[:0], "^data: all arrays must share one leading length of at least 1"),
    ]:
        with pytest.raises(ValueError, match=rule):
            LogisticRegression(inputs, labels)
    with pytest.raises(ValueError, match=r"^prior_scale must be a positive, finite number; got 0\.0"):
        LogisticRegression(INPUTS, LABELS, prior_scale=0.0)
