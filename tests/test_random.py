"""Random numbers drawn side by side are those of each key; many normal ones are normal and independent."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from sivi import _random
from sivi._random import normals, side_by_side


@pytest.mark.parametrize("most", [_random.MAX_TOGETHER, 10])
def test_normal_numbers_of_several_shapes_are_what_each_key_gives(monkeypatch, precision, most):
    monkeypatch.setattr(_random, "MAX_TOGETHER", most)
    one, several = jax.random.key(1), jax.random.split(jax.random.key(2), 3)
    first, rest = side_by_side([one, several], [(2, 5), (4,)], jax.random.normal)
    np.testing.assert_array_equal(first, jax.random.normal(one, (2, 5)))
    np.testing.assert_array_equal(rest, jnp.stack([jax.random.normal(key, (4,)) for key in several]))
    assert first.dtype == precision


def test_parameters_belong_to_their_arrays(monkeypatch):
    """The long array is drawn alone, the two short ones together."""
    monkeypatch.setattr(_random, "MAX_SIZE", 8)
    keys, shapes = jax.random.split(jax.random.key(3), 3), [(2, 3), (4, 5), (7,)]
    limits = jnp.array([1.0, 10.0, 100.0])
    drawn = side_by_side(list(keys), shapes, jax.random.uniform, -limits, limits)
    for key, shape, limit, values in zip(keys, shapes, limits, drawn, strict=True):
        np.testing.assert_allclose(values, jax.random.uniform(key, shape, minval=-limit, maxval=limit), rtol=1e-6)


def test_many_normal_numbers_are_normal(precision):
    """Kolmogorov and Smirnov's distance, and moments up to the fourth, each beyond four standard errors in 1 of 16,000
    cases; neighbours, both words of the generator, and numbers of two keys are not correlated.
    """
    num = 200_000
    (values,), (others,) = (normals(jax.random.key(i), (num,)) for i in (5, 6))
    assert values.dtype == precision
    values, others = np.asarray(values, float), np.asarray(others, float)
    assert stats.kstest(values, "norm").pvalue > 1e-4
    for power, mean, variance in ((1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)):
        assert abs(np.mean(values**power) - mean) < 4.0 * np.sqrt(variance / num)
    for one, two in ((values[1:], values[:-1]), (values[num // 2 :], values[: num // 2]), (values, others)):
        assert abs(np.mean(one * two)) < 4.0 / np.sqrt(len(one))


def test_the_normal_quantile_is_exact_to_seven_digits():
    steps = np.concatenate([np.arange(-(2**23), 2**23, 1009), [-(2**23), 2**23 - 1, 0, -1]])
    uniform = steps * 2.0**-23 + 2.0**-24
    found = np.asarray(_random._normal_quantile(jnp.asarray(uniform, jnp.float32)), float)
    exact = -np.sign(uniform) * stats.norm.ppf(0.5 * (1.0 - np.abs(uniform)))
    np.testing.assert_allclose(found, exact, rtol=5e-7)


def test_normal_numbers_depend_on_the_key_alone_and_fill_all_shapes():
    shapes = (3,), (2, 5), (), (7, 1)
    key = jax.random.key(1)
    together, flat = normals(key, *shapes), normals(key, (3 + 10 + 1 + 7,))[0]
    assert [array.shape for array in together] == list(shapes)
    np.testing.assert_array_equal(np.concatenate([np.ravel(array) for array in together]), flat)
    under_jit = jax.jit(lambda key: normals(key, *shapes))(key)
    for one, two in zip(together, under_jit, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-6)


def test_keys_of_other_generators_make_numbers_too():
    """Two different keys, of two words more than the default has."""
    one, two = (normals(jax.random.key(i, impl="rbg"), (1000,))[0] for i in (0, 1))
    assert abs(np.mean(np.asarray(one) * np.asarray(two))) < 4.0 / np.sqrt(1000)
    assert stats.kstest(one, "norm").pvalue > 1e-4
