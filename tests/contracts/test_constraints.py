"""What every constraint must do: a row of `plugins.CONSTRAINTS`."""

import equinox as eqx
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra.numpy import arrays

from contracts.plugins import CONSTRAINTS
from sivi import constraints
from sivi.constraints.base import from_json, to_json

settings.register_profile("fixed", derandomize=True, deadline=None, database=None, max_examples=25)
settings.load_profile("fixed")


@pytest.fixture(params=CONSTRAINTS)
def case(request):
    return CONSTRAINTS[request.param]


def each_case(function):
    return pytest.mark.parametrize("name", CONSTRAINTS)(function)


def free_numbers(data, constraint, most):
    """A vector y, drawn by Hypothesis, with entries up to `most`."""
    values = st.floats(-most, most, width=32)
    return jnp.asarray(data.draw(arrays(np.float64, constraint.size, elements=values)), float)


@eqx.filter_jit
def forward(constraint, y):
    return constraint.forward(y)


@eqx.filter_jit
def inverse(constraint, x):
    return constraint.inverse(x)


@eqx.filter_jit
def log_dets(case, y):
    """The log determinant as written, and from the Jacobian: of an area, √det JᵀJ, where J has more rows."""
    jacobian = jax.jacobian(lambda y: case.free_entries(case.constraint.forward(y)))(y)
    if jacobian.shape[0] == jacobian.shape[1]:
        return case.constraint.log_det(y), jnp.linalg.slogdet(jacobian)[1]
    triangle = jnp.linalg.qr(jacobian, mode="r")
    return case.constraint.log_det(y), jnp.sum(jnp.log(jnp.abs(jnp.diagonal(triangle))))


@eqx.filter_jit
def edges(constraint, points):
    """x, ∂x/∂y and the gradient of the log determinant at many points."""
    return jax.vmap(
        lambda y: (constraint.forward(y), jax.jacobian(constraint.forward)(y), jax.grad(constraint.log_det)(y))
    )(points)


def test_every_constraint_has_a_row():
    functions = {name for name in constraints.__all__ if name != "Constraint"}
    assert {name.partition("-")[0] for name in CONSTRAINTS} == functions


@each_case
@given(data=st.data())
def test_log_determinant_is_that_of_the_jacobian(name, data):
    constraint = CONSTRAINTS[name].constraint
    with jax.enable_x64(True):
        written, of_jacobian = log_dets(CONSTRAINTS[name], free_numbers(data, constraint, 4.0))
        np.testing.assert_allclose(written, of_jacobian, rtol=1e-9, atol=1e-9)


@each_case
@given(data=st.data())
def test_free_numbers_come_back(name, data):
    constraint = CONSTRAINTS[name].constraint
    with jax.enable_x64(True):
        y = free_numbers(data, constraint, 6.0)
        x = forward(constraint, y)
        assert x.shape == constraint.shape
        np.testing.assert_allclose(inverse(constraint, x), y, atol=1e-9)


@each_case
@given(seed=st.integers(0, 2**32 - 1))
def test_values_come_back_in_single_precision(name, seed):
    constraint, _, draw, _ = CONSTRAINTS[name]
    x = np.asarray(draw(np.random.default_rng(seed)), np.float32)
    assert constraint.contains(x).all()
    again = np.asarray(forward(constraint, constraint.inverse(x)))
    np.testing.assert_allclose(again, x, rtol=2e-5, atol=2e-6)


@each_case
@given(data=st.data())
def test_constraint_holds_in_single_precision(name, data):
    constraint, keeps, *_ = CONSTRAINTS[name]
    x = np.asarray(forward(constraint, free_numbers(data, constraint, 15.0)))
    assert x.dtype == np.float32
    assert keeps(x)
    assert constraint.contains(x).all()


def test_constraint_and_gradients_hold_at_the_edges(case):
    """Where exp overflows too, x stays inside, so that log x or 1/x of a user's function is a number."""
    constraint, keeps, *_ = case
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (4, constraint.size))
    signs[0], signs[1] = 1.0, -1.0
    points = jnp.asarray(np.concatenate([size * signs for size in (30.0, 100.0, 1e4, 1e30)]), float)
    values, jacobians, slopes = map(np.asarray, edges(constraint, points))
    for x in map(np.asarray, values):
        assert keeps(x)
        assert np.isfinite(x).all()
        assert constraint.contains(x).all()
    assert np.isfinite(jacobians).all()
    # Every log determinant here has a slope of at most 1 per factor in which a free number occurs.
    assert (np.abs(slopes) <= 2 + max(constraint.shape, default=0)).all()


def test_name_and_numbers_come_back_from_a_file(case):
    constraint = case.constraint
    again = from_json(to_json(constraint))
    assert again == constraint
    assert type(again) is type(constraint)
    assert again.shape == constraint.shape


@pytest.mark.usefixtures("as_a_user")
def test_values_that_are_refused(case):
    constraint = case.constraint
    with pytest.raises(ValueError, match=r"x must have shape .*; got \(7, 7, 7\)\."):
        constraint.inverse(np.ones((7, 7, 7)))
    with pytest.raises(ValueError, match=r"x must be .*; got .*nan"):
        constraint.inverse(np.full(constraint.shape, np.nan))
