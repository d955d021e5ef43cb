"""How a target is evaluated at many points, and what is checked before."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oracles import linear_gaussian_model
from sivi._layout import Layout
from sivi.coordinates import DiagonalMap
from sivi.targets import BayesianNeuralNetwork, KnowsCurvature, Target, Whitened, as_target, evaluate
from sivi.targets.evaluate import check_memory, check_shapes, log_probs_at, rows_of, scores_at, values_at
from sivi.targets.fingerprint import fingerprint_of, same_fingerprint


def test_blocks_change_nothing(monkeypatch):
    model = linear_gaussian_model(24)
    points = jax.random.normal(jax.random.key(0), (3, 5, 3))
    whole = scores_at(model, points)
    monkeypatch.setattr(evaluate, "MAX_POINTS_TIMES_ROWS", 24 * 4)
    np.testing.assert_allclose(scores_at(model, points), whole, rtol=1e-5)
    np.testing.assert_allclose(log_probs_at(model, points), jax.vmap(jax.vmap(model.log_prob))(points), rtol=1e-5)


@pytest.mark.parametrize(
    ("num", "rows", "most", "block"),
    [
        (5000, 1, None, None),
        (5001, 1, None, 5000),
        (101, 2**20, None, 16),
        (16, 2**20, None, None),
        (3, 2**30, None, 1),
        (101, 2**16, 2**20, 16),
        (16, 2**16, 2**20, None),
        (16, 2**20, 2**30, None),
    ],
)
def test_one_rule_for_the_size_of_blocks(monkeypatch, num, rows, most, block):
    calls, real = [], jax.lax.map
    monkeypatch.setattr(jax.lax, "map", lambda *a, **k: calls.append(k["batch_size"]) or real(*a, **k))
    points = {"a": jnp.arange(float(num)), "b": jnp.ones((num, 2))}
    values = values_at(lambda point: point["a"] + jnp.sum(point["b"]), points, rows, most)
    np.testing.assert_array_equal(values, np.arange(num) + 2.0)
    assert calls == ([] if block is None else [block])


@pytest.mark.parametrize(("num", "block"), [(100, 10), (96, 16), (22, 11), (34, 16)])
def test_blocks_leave_no_remainder_if_a_size_not_much_smaller_has_none(monkeypatch, num, block):
    monkeypatch.setattr(evaluate, "MAX_POINTS_TIMES_ROWS", 16 * 7)
    calls, real = [], jax.lax.map
    monkeypatch.setattr(jax.lax, "map", lambda *a, **k: calls.append(k["batch_size"]) or real(*a, **k))
    np.testing.assert_array_equal(values_at(lambda x: 2.0 * x, jnp.arange(float(num)), 7), 2.0 * np.arange(num))
    assert calls == [block]


def test_blocks_of_a_network_fit_the_caches_of_a_cpu(monkeypatch):
    model = BayesianNeuralNetwork(np.eye(6), np.arange(6.0), (50,), noise_precision=1.0, weight_precision=1.0)
    points = jax.random.normal(jax.random.key(0), (7, model.dim))
    whole = scores_at(model, points)
    monkeypatch.setattr(evaluate, "numbers_in_cache", lambda: 3 * 6 * 50)
    calls, real = [], jax.lax.map
    monkeypatch.setattr(jax.lax, "map", lambda *a, **k: calls.append(k["batch_size"]) or real(*a, **k))
    np.testing.assert_allclose(scores_at(model, points), whole, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(log_probs_at(model, points), jax.vmap(model.log_prob)(points), rtol=1e-5)
    assert calls == [3, 3]
    scores_at(linear_gaussian_model(6 * 50 * 7), jnp.zeros((7, 3)))
    assert calls == [3, 3], "a regression has no blocks for that"


def test_arrays_of_a_function_count_like_rows(monkeypatch):
    """Memory for one point decides, also inside a wrapper; a function of little memory has no blocks."""
    y = jnp.linspace(-1.0, 1.0, 2**20)
    target = as_target(lambda x: -0.5 * jnp.mean((x[0] - y) ** 2) - x[1] ** 2, 2)
    whitened = Whitened(target, DiagonalMap(jnp.zeros(2), jnp.ones(2)))
    calls, real = [], jax.lax.map
    monkeypatch.setattr(jax.lax, "map", lambda *a, **k: calls.append(k["batch_size"]) or real(*a, **k))
    points = jax.random.normal(jax.random.key(0), (41, 2))
    expected = np.stack([-points[:, 0], -2.0 * points[:, 1]], axis=1)
    np.testing.assert_allclose(scores_at(whitened, points), expected, atol=1e-4)
    np.testing.assert_allclose(log_probs_at(target, points)[0], target.log_prob(points[0]), rtol=1e-5)
    assert calls == [16, 16]
    small = as_target(lambda x: -jnp.sum(x**2), 2)
    assert (rows_of(target), rows_of(small), rows_of(Plain()), rows_of(linear_gaussian_model(24))) == (2**20, 2, 1, 24)


def test_a_row_of_a_network_counts_as_often_as_its_widest_layer_has_units(monkeypatch):
    inputs, outputs = np.linspace(-1.0, 1.0, 12)[:, None], np.arange(12.0)
    model = BayesianNeuralNetwork(inputs, outputs, (50, 7), noise_precision=1.0, weight_precision=1.0)
    whitened = Whitened(model, DiagonalMap(jnp.zeros(model.dim), jnp.ones(model.dim)))
    assert rows_of(model) == rows_of(whitened) == 12 * 50
    points = jax.random.normal(jax.random.key(0), (7, model.dim))
    calls, real = [], jax.lax.map
    monkeypatch.setattr(jax.lax, "map", lambda *a, **k: calls.append(k["batch_size"]) or real(*a, **k))
    monkeypatch.setattr(evaluate, "MAX_POINTS_TIMES_ROWS", 4 * 3 * 50)
    rows = jnp.array([0, 5, 7])
    np.testing.assert_allclose(
        scores_at(model, points, rows), jax.vmap(lambda x: model.score(x, rows))(points), rtol=1e-4
    )
    assert calls == [4]


def test_points_of_an_update_that_do_not_fit_into_memory(x64):
    y = jnp.zeros((1000, 1000))
    target = as_target(lambda x: jnp.sum(x[0] * y), 1)
    check_memory(target, 536)
    with pytest.raises(ValueError, match=r"1,000,000 numbers for one point, .* 4 GB for the 537 points"):
        check_memory(target, 537)
    check_memory(Plain(), 10**6)


class Plain(Target):
    dim: int = 2

    def log_prob(self, x, batch=None):
        return -0.5 * jnp.sum(x**2)


def test_what_a_target_says_of_its_arrays(as_a_user):
    class Shaped(Plain):
        def curvature_blocks(self, points):
            return ()

    class Longer(Plain):
        @property
        def layout(self):
            return Layout.vector(3)

    with pytest.raises(
        TypeError, match=r"Shaped has curvature_blocks, which is read only of a sivi\.targets\.KnowsCurvature"
    ):
        check_shapes(Shaped(), log_prob=True)
    with pytest.raises(ValueError, match="layout must have dim = 2 numbers; got 3"):
        check_shapes(Longer(), log_prob=True)


@pytest.mark.parametrize("shapes", [((3,),), ((2,), (1,)), (2,), [(2,)]])
def test_shapes_that_do_not_fit_the_unknowns(as_a_user, shapes):
    wrong = shapes

    class Curved(Plain, KnowsCurvature):
        @property
        def shapes(self):
            return wrong

        def curvature_blocks(self, points, array, axis, rotation):
            return jnp.eye(2)[None]

        def curvature_trace(self, points, array, axis):
            return jnp.eye(2)

    rule = r"shapes must be a tuple of shapes whose sizes add up to dim, 2, such as \(\(2,"
    with pytest.raises(ValueError, match=rule):
        check_shapes(Curved(), log_prob=True)


def test_fingerprints_agree_up_to_rounding_and_tell_models_apart():
    model = linear_gaussian_model(24)
    here = fingerprint_of(model)
    assert here.shape == (4, model.dim)
    points = np.random.default_rng(0).normal(size=here.shape)
    np.testing.assert_allclose(here, jax.vmap(model.score)(jnp.asarray(points)), rtol=1e-4, atol=1e-4)
    assert same_fingerprint(here, here * (1.0 + 1e-4))
    assert not same_fingerprint(here, here * 1.01)
    assert not same_fingerprint(here, here[:, :-1])
    assert not same_fingerprint(here, np.where(here == here.max(), np.nan, here))
