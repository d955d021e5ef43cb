"""Noise, rows and blocks of the warm-up."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oracles import bonferroni, linear_gaussian_model
from sivi.warmup import draws
from sivi.warmup.draws import BalancedNoise, Rows, normals, scores_at


@pytest.mark.parametrize(("dim", "num_pairs"), [(2, 32), (5, 10), (70, 70)])
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


def test_rows_see_all_data_equally_often():
    model = linear_gaussian_model(24)
    rows = Rows.of(jax.random.key(0), model, 4, 100)
    seen = np.concatenate([np.asarray(rows.at(jnp.int32(t))) for t in range(12)])
    np.testing.assert_array_equal(np.bincount(seen, minlength=24), 2)
    # Too few rows for half of 8 steps to see all 24: they are made 6.
    assert Rows.of(jax.random.key(0), model, 1, 8).size == 6
    assert Rows.of(jax.random.key(0), model, None, 8).at(jnp.int32(0)) is None


def test_parts_of_the_rows():
    """All together they are all rows; of very many, eight windows each."""
    order = jax.random.permutation(jax.random.key(0), 100)
    rows = Rows(order, 7)
    for first in (0, 3, 14, 15, 1000):
        parts = [np.asarray(rows.part(jnp.int32(k), 4, jnp.int32(first))) for k in range(4)]
        assert [len(part) for part in parts] == [25] * 4
        assert sorted(np.concatenate(parts)) == list(range(100))
        np.testing.assert_array_equal(parts[0][:7], rows.at(jnp.int32(first)))
    few = Rows(order, 2)
    assert few.part(jnp.int32(0), 4, jnp.int32(0)).shape == (16,)
    wide = Rows(order, 40)
    np.testing.assert_array_equal(wide.part(jnp.int32(1), 4, jnp.int32(0)), wide.at(jnp.int32(1)))
    assert Rows(None, 100).part(jnp.int32(0), 4, jnp.int32(0)) is None


def test_blocks_change_nothing(monkeypatch):
    model = linear_gaussian_model(24)
    points = jax.random.normal(jax.random.key(0), (3, 5, 3))
    whole = scores_at(model, points, None)
    monkeypatch.setattr(draws, "MAX_POINTS_TIMES_ROWS", 24 * 4)
    np.testing.assert_allclose(scores_at(model, points, None), whole, rtol=1e-5)


@pytest.mark.parametrize("most", [draws.MAX_TOGETHER, 10])
def test_normal_numbers_of_several_shapes_are_what_each_key_gives(monkeypatch, precision, most):
    monkeypatch.setattr(draws, "MAX_TOGETHER", most)
    one, several = jax.random.key(1), jax.random.split(jax.random.key(2), 3)
    first, rest = normals([one, several], [(2, 5), (4,)])
    np.testing.assert_array_equal(first, jax.random.normal(one, (2, 5)))
    np.testing.assert_array_equal(rest, jnp.stack([jax.random.normal(key, (4,)) for key in several]))
    assert first.dtype == precision
