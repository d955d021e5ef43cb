import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sivi._errors import FitFileError
from sivi._layout import Layout
from sivi.constraints import correlation_cholesky, interval, ordered, positive, real, simplex

LIKE = {"mu": 0.0, "scale": {"tau": positive(), "p": interval(0.0, 1.0, 2)}, "w": [simplex(3), np.zeros((2, 2))]}
NAMES = ("mu", "scale.p", "scale.tau", "w.0", "w.1")


@pytest.fixture
def layout():
    return Layout.like(LIKE)


def test_a_constraint_is_one_leaf(layout):
    assert layout.names == NAMES
    assert [v.shape for v in layout.variables] == [(), (2,), (), (3,), (2, 2)]
    assert [v.size for v in layout.variables] == [1, 2, 1, 2, 4]
    assert layout.dim == 10
    assert layout.is_constrained
    assert not layout.is_vector


def test_values_are_those_of_the_constraints(layout):
    x = jnp.linspace(-1.0, 2.0, 10)
    tree = layout.unravel(x)
    assert jax.tree.structure(tree) == jax.tree.structure({**LIKE, "scale": {"tau": 0, "p": 0}, "w": [0, 0]})
    np.testing.assert_array_equal(tree["mu"], x[0])
    np.testing.assert_allclose(tree["scale"]["p"], 1.0 / (1.0 + np.exp(-x[1:3])), rtol=1e-6)
    np.testing.assert_allclose(tree["scale"]["tau"], np.exp(x[3]), rtol=1e-6)
    np.testing.assert_allclose(tree["w"][0].sum(), 1.0, rtol=1e-6)
    np.testing.assert_array_equal(tree["w"][1].ravel(), x[6:])
    np.testing.assert_allclose(layout.ravel(tree), x, atol=1e-6)
    for name, leaf in zip(NAMES, jax.tree.leaves(tree), strict=True):
        np.testing.assert_array_equal(layout.named(x)[name], leaf)


def test_many_points(layout, precision):
    """They are those of one point at a time, whichever arrays or lists the points are given as."""
    layout = Layout.like(layout)
    x = np.random.default_rng(0).normal(size=(4, 10))
    trees = layout.unravel_many(x.astype(precision))
    assert [leaf.shape for leaf in jax.tree.leaves(trees)] == [(4,), (4, 2), (4,), (4, 3), (4, 2, 2)]
    for i in range(4):
        one = layout.unravel(jnp.asarray(x[i], precision))
        for leaf, leaves in zip(jax.tree.leaves(one), jax.tree.leaves(trees), strict=True):
            np.testing.assert_allclose(leaves[i], leaf, rtol=1e-6)
    again = layout.ravel_many(trees)
    assert (again.shape, again.dtype) == ((4, 10), precision)
    np.testing.assert_allclose(again, x, atol=2e-6)
    listed = {**trees, "mu": trees["mu"].tolist()}
    for points in (listed, jax.tree.map(np.asarray, trees)):
        np.testing.assert_array_equal(layout.ravel_many(points), again)
    np.testing.assert_array_equal(jax.jit(layout.ravel_many)(trees).shape, (4, 10))
    assert layout.ravel_many(layout.unravel_many(jnp.zeros((0, 10)))).shape == (0, 10)


def test_many_points_of_a_plain_vector():
    x = np.arange(6.0).reshape(3, 2)
    layout = Layout.vector(2)
    np.testing.assert_array_equal(layout.unravel_many(layout.ravel_many(x)), x)


def test_log_det_is_the_sum(layout):
    x = jnp.linspace(-1.0, 2.0, 10)
    share = 1.0 / (1.0 + np.exp(-x[1:3]))
    w = np.asarray(layout.unravel(x)["w"][0])
    expected = np.log(share * (1 - share)).sum() + x[3] + np.log(w).sum() + 0.5 * np.log(3.0)
    np.testing.assert_allclose(layout.log_det(x), expected, rtol=1e-6)
    free = Layout.like({"a": 0.0, "b": np.zeros(2)})
    assert float(free.log_det(jnp.ones(3))) == 0.0
    assert not free.is_constrained


def test_elements_have_names():
    layout = Layout.like({"L": correlation_cholesky(2), "mu": 0.0, "w": simplex(2)})
    assert layout.element_names() == ["L[0,0]", "L[0,1]", "L[1,0]", "L[1,1]", "mu", "w[0]", "w[1]"]
    elements = layout.elements(jnp.array([0.3, -1.0, 0.0]))
    np.testing.assert_allclose(elements, [1.0, 0.0, np.tanh(0.3), 1 / np.cosh(0.3), -1.0, 0.5, 0.5], rtol=1e-6)
    assert Layout.vector(2).element_names() == ["x[0]", "x[1]"]


@pytest.mark.parametrize(
    ("like", "is_vector"),
    [
        (np.zeros(3), True),
        (real((3,)), False),
        (positive((3,)), False),
        (ordered(3), False),
        (0.0, False),
        ({"x": np.zeros(3)}, False),
    ],
)
def test_only_a_free_vector_is_one(like, is_vector):
    assert Layout.like(like).is_vector is is_vector


def test_a_constraint_alone():
    layout = Layout.like(simplex(3))
    assert layout.names == ("x",)
    np.testing.assert_allclose(layout.unravel(jnp.zeros(2)), np.full(3, 1 / 3), rtol=1e-6)


def test_types(precision):
    layout = Layout.like({"a": positive(), "b": simplex(2), "c": np.zeros(1, "float32")})
    values = layout.named(jnp.zeros(3, precision))
    assert [str(value.dtype) for value in values.values()] == [precision, precision, "float32"]
    assert [v.dtype for v in layout.variables] == [precision, precision, "float32"]


def test_a_layout_is_an_example_of_itself(layout):
    assert Layout.like(layout) == layout
    with jax.enable_x64(True):
        double = Layout.like(LIKE)
        assert Layout.like(double) == double
    assert double != layout
    assert Layout.like(double) == Layout.like({**LIKE, "mu": np.float64(0.0)})


class TestFiles:
    def test_comes_back(self, layout):
        import json

        assert Layout.from_json(json.loads(json.dumps(layout.to_json()))) == layout

    def test_files_without_constraints_are_still_read(self):
        old = {"variables": [["a", [], "float32"], ["b", [2], "float32"]], "structure": {"dict": {"a": 0, "b": 1}}}
        assert Layout.from_json(old) == Layout.like({"a": 0.0, "b": np.zeros(2)})
        assert Layout.like({"a": 0.0, "b": np.zeros(2)}).to_json() == old

    def test_an_unknown_container_comes_back_as_a_dict_by_name(self, layout):
        loaded = Layout.from_json(layout.to_json() | {"structure": None})
        assert tuple(loaded.unravel(jnp.zeros(10))) == NAMES

    def test_an_unknown_constraint_is_refused(self, layout):
        text = layout.to_json()
        text["variables"][2][3]["constraint"] = "Sphere"
        with pytest.raises(FitFileError, match="a constraint that is not defined here: 'Sphere'"):
            Layout.from_json(text)

    def test_a_shape_that_is_not_the_constraints_is_refused(self, layout):
        text = layout.to_json()
        text["variables"][1][1] = [3]
        with pytest.raises(FitFileError, match=r"'scale.p' has shape \(3,\), its constraint \(2,\)"):
            Layout.from_json(text)


class TestBadInput:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"mu": np.zeros(2)}, r"variable 'mu' must have shape \(\); got \(2,\)"),
            ({"scale": {"tau": -1.0, "p": np.full(2, 0.5)}}, r"variable 'scale.tau' must be positive; got -1"),
            ({"scale": {"tau": 1.0, "p": np.array([0.5, 2.0])}}, r"'scale.p' must be between 0.0 and 1.0.* got 2.* at"),
            ({"scale": {"tau": 1.0, "p": 0.5}}, r"variable 'scale.p' must have shape \(2,\); got \(\)"),
            (
                {"w": [np.ones(3), np.zeros((2, 2))]},
                r"variable 'w.0' must be positive numbers that sum to 1; got \[1\.",
            ),
        ],
    )
    def test_points(self, layout, change, message):
        point = layout.unravel(jnp.zeros(10))
        layout.check(point)
        with pytest.raises(ValueError, match=message):
            layout.ravel({**point, **change})

    @pytest.mark.parametrize(
        ("points", "message"),
        [
            ({"mu": np.zeros(4)}, r"structure of the unknowns, mu, scale\.p, .*got a dict with the keys \['mu'\]"),
            (3.0, r"a point must have the structure of the unknowns, .*; got 3\.0"),
            (
                np.zeros((4, 10)),
                r"a point must have the structure .*; got an array of dtype float64 and shape \(4, 10\)",
            ),
        ],
    )
    def test_other_structures(self, layout, points, message):
        for function in (layout.ravel, layout.ravel_many):
            with pytest.raises(ValueError, match=message):
                function(points)

    def test_many_points_of_different_number(self, layout):
        points = layout.unravel_many(jnp.zeros((4, 10)))
        with pytest.raises(ValueError, match=r"the same number of points; got \[3, 4\]"):
            layout.ravel_many({**points, "mu": np.zeros(3)})
        points["scale"]["tau"] = points["scale"]["tau"].at[2].set(-1.0)
        with pytest.raises(ValueError, match=r"variable 'scale.tau' must be positive; got -1\.?0? at \[2\]"):
            layout.ravel_many(points)

    def test_sets_of_points(self, layout):
        points = jax.vmap(layout.unravel)(jnp.zeros((4, 10)))
        layout.check(points, num_axes=1)
        points["scale"]["tau"] = points["scale"]["tau"].at[2].set(-1.0)
        with pytest.raises(ValueError, match=r"variable 'scale.tau' must be positive; got -1\.?0? at \[2\]"):
            layout.check(points, num_axes=1)
        points["mu"] = points["mu"][0]
        with pytest.raises(ValueError, match=r"variable 'mu' must have shape \(\) after the first 1; got \(\)"):
            layout.check(points, num_axes=1)

    def test_traced_points_are_not_looked_at(self, layout):
        points = jax.vmap(layout.unravel)(jnp.zeros((4, 10)))
        np.testing.assert_allclose(jax.vmap(layout.ravel)(points), 0.0, atol=1e-6)

    def test_a_function_in_like(self):
        with pytest.raises(TypeError, match=r"sivi\.positive\(\), called; variable 'tau' is a function"):
            Layout.like({"tau": positive})


def test_two_unknowns_may_not_share_a_name():
    with pytest.raises(ValueError, match=r"a unique name; got two called 'a\.b'"):
        Layout.like({"a.b": 0.0, "a": {"b": 0.0}})
