"""Keys and numbers by NumPy are those of JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sivi import _host_random


@pytest.mark.parametrize("seed", [0, 3, 2**31 - 1])
def test_keys_are_those_of_jax(seed):
    key = jax.random.key(seed)
    assert jnp.all(_host_random.split(key, 5) == jax.random.split(key, 5))
    for data in (0, 1, 1000, 2**32 - 1):
        assert _host_random.fold_in(key, data) == jax.random.fold_in(key, data)


def test_keys_of_several_keys():
    keys = jax.random.split(jax.random.key(1), 3)
    assert jnp.all(_host_random.split(keys, 4) == jax.vmap(lambda key: jax.random.split(key, 4))(keys))
    assert jnp.all(_host_random.fold_in(keys, 7) == jax.vmap(lambda key: jax.random.fold_in(key, 7))(keys))
    assert jnp.all(_host_random.stack(_host_random.unstack(keys)) == keys)
    first, second = _host_random.children(keys, 2)
    assert jnp.all(jnp.stack([first, second], axis=1) == jax.vmap(jax.random.split)(keys))


def test_uniform_numbers_are_those_of_jax_up_to_rounding():
    keys = jax.random.split(jax.random.key(2))
    shapes, bounds = [(40, 7), (3,)], [0.3, 2.0]
    drawn = _host_random.uniforms(keys, shapes, bounds)
    assert drawn is not None
    for key, shape, bound, numbers in zip(keys, shapes, bounds, drawn, strict=True):
        expected = jax.random.uniform(key, shape, minval=-bound, maxval=bound)
        np.testing.assert_allclose(numbers, expected, rtol=0, atol=3e-7 * bound)
        assert numbers.dtype == np.float32


def test_other_generators_and_tracers_go_through_jax():
    key = jax.random.key(0, impl="rbg")
    assert jnp.all(jax.random.key_data(_host_random.split(key)) == jax.random.key_data(jax.random.split(key)))
    assert _host_random.uniforms(jax.random.split(key), [(2,), (2,)], [1.0, 1.0]) is None
    traced = jax.jit(lambda key: jax.random.key_data(_host_random.fold_in(key, 3)))
    assert jnp.all(traced(jax.random.key(4)) == jax.random.key_data(jax.random.fold_in(jax.random.key(4), 3)))


def test_normal_numbers_follow_the_key_alone():
    a, b = _host_random.normals(jax.random.key(5), (20_000,), (3, 2))
    again = _host_random.normals(jax.random.key(5), (20_000,), (3, 2))
    assert np.array_equal(a, again[0])
    assert np.array_equal(b, again[1])
    assert not np.array_equal(a, _host_random.normals(jax.random.key(6), (20_000,))[0])
    assert a.dtype == np.float32
    # Standard errors are 0.007 and 0.01; five of them.
    assert abs(a.mean()) < 0.036
    assert abs(a.var() - 1.0) < 0.05
