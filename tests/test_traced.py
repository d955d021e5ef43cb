"""A function as it was traced: the same function is the same, what has changed is seen, and nothing is mistaken."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sivi import _jaxprs
from sivi._traced import traced

X = jnp.array([0.3, -0.7, 1.1])
OFFSET, TABLE = 2.0, jnp.arange(4.0)


def host_sine(x):
    return np.sin(x)


@jax.custom_jvp
def forward_sine(x):
    return jnp.sin(x)


@forward_sine.defjvp
def _(primals, tangents):
    return forward_sine(primals[0]), OFFSET * jnp.cos(primals[0]) * tangents[0]


@jax.custom_vjp
def reverse_sine(x):
    return jnp.sin(x)


reverse_sine.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (OFFSET * g * jnp.cos(x),))

#: Each makes a new function with the same code.
FUNCTIONS = {
    "plain": lambda: lambda x: -0.5 * jnp.sum(x**2),
    "globals": lambda: lambda x: OFFSET * jnp.sum(x) + jnp.sum(TABLE * x[0]),
    "numpy": lambda: lambda x: jnp.sum(np.arange(3.0) * x),
    "jitted": lambda: jax.jit(lambda x: jnp.sum((x[0] - TABLE) ** 2)),
    "jitted inside": lambda: lambda x: jax.jit(jax.jit(lambda y: jnp.sum((y - TABLE) ** 2)))(x[0]) + x[1],
    "partial": lambda: functools.partial(lambda a, x: a * jnp.sum(x), 3.0),
    "scan": lambda: lambda x: jax.lax.scan(lambda c, t: (jnp.sin(c) * t + x[0], None), x[1], TABLE)[0],
    "jitted in a scan": lambda: (
        lambda x: jax.lax.scan(lambda c, t: (jax.jit(lambda c: c * t + TABLE[2:].sum())(c), None), x[0], TABLE)[0]
    ),
    "cond": lambda: lambda x: jax.lax.cond(x[0] > 0, lambda: jnp.sum(x), lambda: jnp.sum(x[0] * TABLE)),
    "loop": lambda: lambda x: jax.lax.fori_loop(0, 3, lambda i, c: jnp.sin(c) + x[0] * i, x[1]),
    "rules of JAX": lambda: lambda x: jnp.logaddexp(x[0], x[1]) + jnp.sum(jax.nn.relu(x) + jax.nn.log_softmax(x)),
    "rule forward": lambda: lambda x: jnp.sum(forward_sine(x)),
    "rule backward": lambda: lambda x: jnp.sum(reverse_sine(x)),
    "linear algebra": lambda: (
        lambda x: (
            jnp.linalg.solve(jnp.outer(x, x) + jnp.eye(3), x)[0] + jnp.linalg.slogdet(jnp.outer(x, x) + jnp.eye(3))[1]
        )
    ),
    "special": lambda: lambda x: jnp.sum(jax.scipy.special.gammaln(x**2 + 1.0)) + jax.scipy.stats.norm.logcdf(x[0]),
    "random": lambda: lambda x: jax.random.normal(jax.random.key(0), (3,)) @ x,
    "indices": lambda: lambda x: jnp.sort(x)[0] + x.at[0].set(2.0) @ x + jnp.cumsum(x)[1],
    "remat": lambda: jax.checkpoint(lambda x: jnp.sum(jnp.sin(x))),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_same_code_is_the_same_trace_and_computes_the_same(name, precision):
    x = X.astype(precision)
    function = FUNCTIONS[name]()
    first, second = traced(function, x), traced(FUNCTIONS[name](), x)
    assert first.trace == second.trace == traced(function, x).trace
    assert hash(first.trace) == hash(second.trace)
    for ours, theirs in ((first, function), (jax.grad(lambda x: first(x)), jax.grad(function))):
        found, expected = (jax.jit(lambda x, f=f: f(x))(x) for f in (ours, theirs))
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_different_functions_are_different():
    @jax.custom_jvp
    def rule(x, by):
        return jnp.sin(x)

    rule.defjvp(lambda p, t: (rule(*p), p[1] * t[0]))
    twice = jax.custom_jvp(jnp.sin)  # equal to the next in its value and first derivative
    twice.defjvp(lambda p, t: (jnp.sin(p[0]), jnp.cos(p[0]) * t[0]))
    other = jax.custom_jvp(jnp.sin)
    cosine = jax.custom_jvp(jnp.cos)
    cosine.defjvp(lambda p, t: (jnp.cos(p[0]), 5.0 * t[0]))
    other.defjvp(lambda p, t: (jnp.sin(p[0]), cosine(p[0]) * t[0]))
    functions = [
        *(make() for make in FUNCTIONS.values()),
        lambda x: jnp.sum(twice(x)),
        lambda x: jnp.sum(other(x)),
        lambda x: rule(x[0], 1.0),
        lambda x: rule(x[0], x[1]),
        lambda x: 0.0 * x[0],
        lambda x: -0.0 * x[0],
        lambda x: math.nan * x[0],
        lambda x: x[0] + jnp.float32(1.0),
        lambda x: x[0] + 1.0000001,
        lambda x: x[0] - x[1],
        lambda x: x[1] - x[0],
        lambda x: x[2],
        lambda x: jnp.sum(TABLE[:3] * x),
        lambda x: jnp.sum(jnp.ones((1, 3)) * x),
        lambda x: jax.lax.scan(lambda c, t: (jnp.cos(c) * t + x[0], None), x[1], TABLE)[0],
        lambda x: jax.lax.cond(x[0] > 0, lambda: jnp.sum(x[0] * TABLE), lambda: jnp.sum(x)),
        lambda x: jax.random.normal(jax.random.key(1), (3,)) @ x,
        lambda x: (x[0], x[1]),
        lambda x: [x[0], x[1]],
        lambda x: {"a": x[0], "b": x[1]},
        lambda x: 0.0,
        lambda x: -0.0,
        lambda x: 1,
        lambda x: jax.pure_callback(host_sine, jax.ShapeDtypeStruct((), x.dtype), x[0]),
        lambda x: jax.pure_callback(np.cos, jax.ShapeDtypeStruct((), x.dtype), x[0]),
    ]
    traces = [traced(function, X).trace for function in functions]
    same = [(i, j) for i in range(len(traces)) for j in range(i) if traces[i] == traces[j]]
    assert same == []


def test_shapes_and_types_are_part_of_it(x64):
    def function(x):
        return jnp.sum(x)

    examples = [X, X[:2], X.astype(jnp.float64), X[None]]
    assert len({traced(function, x).trace for x in examples}) == 4
    assert traced(lambda p: p["a"], {"a": X}).trace != traced(lambda p: p["b"], {"b": X}).trace


def test_a_number_that_changed_is_seen():
    values = [2.0]

    def function(x):
        return values[0] * jnp.sum(x) + OFFSET

    before = traced(function, X)
    values[0] = 3.0
    after = traced(function, X)
    assert before.trace != after.trace
    assert [float(f(jnp.ones(3))) for f in (before, after)] == [8.0, 11.0]


def test_a_global_that_changed_is_seen(monkeypatch):
    function = FUNCTIONS["globals"]()
    before = traced(function, X)
    monkeypatch.setitem(globals(), "OFFSET", 5.0)
    after = traced(function, X)
    assert before.trace != after.trace
    assert float(after(jnp.ones(3)) - before(jnp.ones(3))) == 9.0


@pytest.mark.parametrize("name", ["rule forward", "rule backward"])
def test_a_global_that_changed_in_a_rule_is_seen(monkeypatch, name):
    function = FUNCTIONS[name]()
    before = traced(function, X)
    slope = jax.grad(lambda x: before(x))(X)
    monkeypatch.setitem(globals(), "OFFSET", 4.0)
    after = traced(function, X)
    assert before.trace != after.trace
    np.testing.assert_allclose(jax.grad(lambda x: after(x))(X), 2.0 * slope, rtol=1e-6)


@pytest.mark.parametrize("kind", [jnp.asarray, np.asarray])
def test_an_array_that_changed_is_another_argument_of_the_same_program(kind):
    arrays = [kind(np.arange(5.0, dtype=np.float32))]
    functions = [lambda x: jnp.sum(arrays[0] * x[0]), lambda x: jax.jit(lambda y: jnp.sum(arrays[0] * y))(x[0])]
    before = [traced(function, X) for function in functions]
    arrays[0] = kind(np.arange(5.0, dtype=np.float32) + 1.0)
    for old, function in zip(before, functions, strict=True):
        new = traced(function, X)
        assert old.trace == new.trace
        assert [float(f(jnp.ones(3))) for f in (old, new)] == [10.0, 15.0]
        assert jax.tree.leaves(new)[0].shape == (5,)


def test_an_array_inside_a_loop_is_compared_by_its_numbers():
    def function(table):
        step = jax.jit(lambda c: c * jnp.sum(table))
        return lambda x: jax.lax.fori_loop(0, 2, lambda i, c: step(c), x[0])

    first, second = (traced(function(TABLE + add), X) for add in (0.0, 1.0))
    assert float(first(jnp.ones(3))) == 36.0
    assert float(second(jnp.ones(3))) == 100.0
    assert traced(function(TABLE + 0.0), X).trace == first.trace


def test_what_cannot_be_looked_into_is_equal_to_itself_alone():
    def function(x):
        return jax.pure_callback(lambda x: np.sin(x), jax.ShapeDtypeStruct((), x.dtype), x[0])

    first = traced(function, X)
    assert first.trace == first.trace
    assert first.trace != traced(function, X).trace  # its callback is another function every time

    def known(x):
        return jax.pure_callback(host_sine, jax.ShapeDtypeStruct((), x.dtype), x[0])

    assert traced(known, X).trace == traced(known, X).trace


def test_a_rule_that_depends_on_which_inputs_change_is_not_looked_into():
    @jax.custom_jvp
    def rule(x, y):
        return x * y

    rule.defjvp(lambda p, t: (rule(*p), p[0]), symbolic_zeros=True)
    function = lambda x: rule(x[0], x[1])  # noqa: E731
    assert traced(function, X).trace != traced(function, X).trace


def test_functions_in_parameters_are_trusted_only_where_they_cannot_change():
    assert _jaxprs.key_of(jax.tree.map) == _jaxprs.key_of(jax.tree.map)
    assert _jaxprs.key_of(host_sine) != _jaxprs.key_of(host_sine)
    assert _jaxprs.key_of((1, "a", None)) == _jaxprs.key_of((1, "a", None)) != _jaxprs.key_of([1, "a", None])
    assert _jaxprs.key_of(jnp.ones(100)) == _jaxprs.key_of(jnp.ones(100)) != _jaxprs.key_of(jnp.ones(100).at[7].set(0))
    assert _jaxprs.key_of({1, 2}) == _jaxprs.key_of({2, 1})


def test_products_have_the_precision_of_the_moment():
    matrix = jnp.eye(3)
    functions = [
        lambda x: jnp.sum(matrix @ x),
        lambda x: jax.lax.fori_loop(0, 2, lambda i, c: matrix @ c, x)[0],
        lambda x: jax.lax.cond(x[0] > 0, lambda: jnp.sum(matrix @ x), lambda: x[0]),
        lambda x: jnp.sum(jnp.matmul(matrix, x, precision="default")),
    ]
    for function in functions:
        ours = traced(function, X)
        for name in ("highest", "tensorfloat32", None):
            with jax.default_matmul_precision(name):
                texts = [str(jax.make_jaxpr(lambda x, f=f: f(x))(X)) for f in (ours, function)]
            lines = [[line for line in text.splitlines() if "precision" in line] for text in texts]
            assert lines[0] == lines[1]


def test_other_types_than_those_it_was_given_for_are_refused():
    function = traced(lambda x: jnp.sum(x), X)
    with pytest.raises(TypeError, match=r"given for float32\[3\] cannot take float32\[2\].*jax_enable_x64"):
        function(X[:2])


@pytest.mark.parametrize(
    ("function", "numbers"),
    [
        (lambda x: jnp.sum(x), 1),
        (lambda x: jnp.sum((x[0] - jnp.zeros(1000)) ** 2), 1000),
        (lambda x: jnp.sum(jnp.zeros((1000, 3)) @ x), 1000),
        (lambda x: jnp.sum(jnp.zeros((1000, 3)) * x), 3000),
        (lambda x: jnp.sum(jnp.zeros((1000, 3)) ** 2) * x[0], 1),  # does not depend on x: there once for all points
        (lambda x: jax.jit(lambda x, y: jnp.sum(x[0] * y))(x, jnp.zeros(500)), 500),
        (lambda x: jax.lax.scan(lambda c, t: (c + jnp.sum(x[0] - t), None), x[0], jnp.zeros((9, 70)))[0], 70),
        (lambda x: jax.lax.cond(x[0] > 0, lambda: jnp.sum(x[0] * jnp.zeros(80)), lambda: x[1]), 80),
        (lambda x: jax.lax.while_loop(lambda c: c < 1, lambda c: c + jnp.sum(x[0] * jnp.zeros(60)), x[0]), 60),
    ],
)
def test_numbers_that_every_point_needs_for_itself(function, numbers):
    found = traced(function, X).numbers_per_point
    assert found == numbers
