"""Random numbers drawn side by side are those of each key."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sivi import _random
from sivi._random import side_by_side


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
