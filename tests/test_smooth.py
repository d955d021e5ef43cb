"""softplus and log sigmoid against those of JAX, in double precision, and their derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sivi._smooth import log_sigmoid, softplus

POINTS = np.concatenate([np.linspace(-100.0, 100.0, 401), np.linspace(-2.0, 2.0, 401), [0.0, -1e4, 1e4, 1e-30]])


@pytest.mark.parametrize(("ours", "theirs"), [(softplus, jax.nn.softplus), (log_sigmoid, jax.nn.log_sigmoid)])
def test_values_and_two_derivatives(precision, ours, theirs):
    points = jnp.asarray(POINTS)
    assert points.dtype == precision
    tolerance = {"rtol": 4e-7, "atol": 1e-30} if points.dtype.itemsize == 4 else {"rtol": 1e-13, "atol": 1e-300}
    with jax.enable_x64(True):
        double = jnp.asarray(np.asarray(points), jnp.float64)
        exact = [jax.vmap(f)(double) for f in (theirs, jax.grad(theirs), jax.grad(jax.grad(theirs)))]
        exact = [np.asarray(values) for values in exact]
    found = [jax.vmap(f)(points) for f in (ours, jax.grad(ours), jax.grad(jax.grad(ours)))]
    np.testing.assert_allclose(found[0], exact[0], **tolerance)
    np.testing.assert_allclose(found[1], exact[1], rtol=1e-6, atol=1e-30)
    np.testing.assert_allclose(found[2], exact[2], rtol=1e-5, atol=1e-7)


def test_infinite_arguments():
    assert softplus(jnp.array([-jnp.inf, jnp.inf])).tolist() == [0.0, float("inf")]
    assert np.isnan(softplus(jnp.array(jnp.nan)))
