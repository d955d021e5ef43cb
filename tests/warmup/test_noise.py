"""The balanced noise of the warm-up."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oracles import bonferroni
from sivi._random import BalancedNoise


@pytest.mark.parametrize(("dim", "num_pairs"), [(2, 32), (5, 10), pytest.param(70, 70, marks=pytest.mark.slow)])
def test_noise_is_normal_and_balanced(dim, num_pairs):
    keys = jax.random.split(jax.random.key(0), 4000)
    noise = jax.vmap(lambda k: BalancedNoise(k, num_pairs, dim).draw(jax.random.fold_in(k, 1)))(keys)
    assert noise.shape == (4000, 2 * num_pairs, dim)
    np.testing.assert_array_equal(noise[:, :num_pairs], -noise[:, num_pairs:])
    second = jnp.einsum("kni,knj->kij", noise[:5], noise[:5]) / (2 * num_pairs)
    np.testing.assert_allclose(second, second[:, :1, :1] * np.eye(dim), atol=2e-5 * dim)
    # One draw of each: second and fourth moments of a normal, and of its length.
    first = np.asarray(noise[:, 0], float)
    values = np.stack([first[:, 0] ** 2 - 1, first[:, 0] ** 4 - 3, (first**2).sum(1) - dim, first[:, 0] * first[:, 1]])
    z = np.abs(values.mean(1)) / (values.std(1) / np.sqrt(len(first)))
    assert z.max() < bonferroni(3 * len(values))


def test_fewer_pairs_than_dimensions_are_independent():
    noise = BalancedNoise(jax.random.key(0), 4, 50)
    assert noise.frames is None
    u = noise.draw(jax.random.key(1))
    np.testing.assert_array_equal(u[:4], -u[4:])
    np.testing.assert_allclose(jnp.mean(u[:4] ** 2), 1.0, atol=0.5)  # 200 numbers: 5 standard errors
