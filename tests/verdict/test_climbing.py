"""Ascents against densities whose tops are known."""

import jax.numpy as jnp
import numpy as np
import pytest

from sivi.targets import Banana, GaussianMixture, LogDensity
from sivi.verdict import climbing


def two_modes(dim=2, apart=6.0, height=0.5):
    means = np.zeros((2, dim))
    means[1, 0] = apart
    return GaussianMixture(means, np.stack([np.eye(dim)] * 2), [1.0 - height, height])


def starts(num, dim, spread=3.0, seed=0):
    return spread * np.random.default_rng(seed).standard_normal((num, dim))


@pytest.mark.parametrize("num", [3, 256, 300])
def test_every_start_reaches_one_of_two_tops(num):
    target = two_modes()
    begin = starts(num, 2)
    begin[0] = [7.0, 2.0]
    tops = climbing.climb(target, begin)
    assert tops.is_top.all()
    distance = np.linalg.norm(tops.positions[:, None] - np.array([[0.0, 0.0], [6.0, 0.0]]), axis=-1)
    assert (distance.min(axis=1) < 0.3).all()
    leaders, label = climbing.distinct(tops, max_distance=1.0)
    assert len(leaders) == 2
    assert set(label) == {0, 1}
    assert climbing.merged(target, tops.positions[leaders]).tolist() == [0, 1]


def test_the_bent_ridge_of_a_banana_has_one_top():
    tops = climbing.climb(Banana(), starts(64, 2, spread=6.0))
    assert tops.is_top.all()
    np.testing.assert_allclose(tops.positions, np.tile([0.0, 1.0], (64, 1)), atol=0.35)


def test_a_density_without_a_top_has_none():
    target = LogDensity(lambda x: 0.5 * x[0] - 0.5 * x[1] ** 2, 2)
    assert not climbing.climb(target, starts(8, 2)).is_top.any()


def test_outside_the_support_nothing_climbs_and_inside_it_stays():
    # log x − x of a positive unknown, which is not a number below zero; its top is at 1.
    target = LogDensity(lambda x: jnp.log(x[0]) - x[0], 1)
    tops = climbing.climb(target, np.array([[-1.0], [0.01], [30.0]]))
    assert tops.is_top.tolist() == [False, True, True]
    np.testing.assert_allclose(tops.positions[1:, 0], 1.0, atol=0.3)
    # From one point of the support to another that is not in it.
    assert climbing.dips(target, np.array([[[1.0], [-1.0]], [[1.0], [2.0]]])).tolist() == [np.inf, 0.0]


def test_the_dip_between_two_modes_is_the_depth_of_the_saddle():
    # Equal modes at a distance of 6: log p falls by 3²/2 − log 2 halfway.
    ends = np.array([[[0.0, 0.0], [6.0, 0.0]], [[0.0, 0.0], [1.0, 1.0]]])
    found = climbing.dips(two_modes(), ends)
    np.testing.assert_allclose(found, [4.5 - np.log(2.0), 0.0], atol=0.05)


def test_tops_in_a_row_are_one_mode():
    flat = LogDensity(lambda x: -(jnp.maximum(jnp.abs(x[0]) - 5.0, 0.0) ** 2) - x[1] ** 2, 2)
    assert climbing.merged(flat, np.array([[-5.0, 0.0], [0.0, 0.0], [5.0, 0.0]])).tolist() == [0, 0, 0]


def test_tops_round_a_bend_are_one_mode():
    # A half ring: from one end to the other the segment leaves it, from neighbour to neighbour it does not.
    ring = LogDensity(lambda x: -0.5 * ((jnp.linalg.norm(x) - 5.0) / 0.3) ** 2, 2)
    angle = np.linspace(0.0, np.pi, 30)
    points = 5.0 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    assert climbing.dips(ring, points[[0, -1]][None])[0] > 100.0
    assert set(climbing.merged(ring, points)) == {0}
