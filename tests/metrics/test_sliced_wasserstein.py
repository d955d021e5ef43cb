import math

import jax
import numpy as np
import pytest
from scipy import stats

from oracles import bonferroni
from sivi.metrics import sliced_wasserstein
from sivi.metrics._sliced_wasserstein import _directions


@pytest.mark.parametrize("order", [1, 2, 3.5])
def test_of_a_shift_is_known_exactly(order):
    rng = np.random.default_rng(0)
    shift = np.array([0.7, -0.3, 1.1])
    p = rng.normal(size=(50, 3))
    exact = np.mean(np.abs(_directions(4, 30, 3) @ shift) ** order) ** (1 / order)
    value = sliced_wasserstein(p, rng.permutation(p) + shift, order=order, num_slices=30, key=4)
    np.testing.assert_allclose(value, exact, rtol=1e-12)


def test_directions_are_uniform_on_the_sphere():
    """E|θ·a| and E(θ·a)² for uniform θ are known: |a| Γ(d/2) / (√π Γ((d+1)/2)) and |a|²/d."""
    directions, dim = _directions(0, 20_000, 4), 4
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1.0, rtol=1e-12)
    a = np.array([0.5, -1.0, 2.0, 0.1])
    size = np.linalg.norm(a)
    first = size * math.gamma(dim / 2) / (math.sqrt(math.pi) * math.gamma((dim + 1) / 2))
    for values, exact in [(np.abs(directions @ a), first), ((directions @ a) ** 2, size**2 / dim), (directions @ a, 0)]:
        z = (values.mean() - exact) / (values.std() / np.sqrt(len(values)))
        assert abs(z) < bonferroni(3)


@pytest.mark.parametrize(("n", "m"), [(40, 40), (7, 12), (30, 45), (1, 9), (64, 5)])
def test_agrees_with_scipy_slice_by_slice(n, m):
    rng = np.random.default_rng(n)
    p, q = rng.gamma(2.0, size=(n, 2)), rng.normal(size=(m, 2))
    exact = [stats.wasserstein_distance(p @ theta, q @ theta) for theta in _directions(0, 100, 2)]
    np.testing.assert_allclose(sliced_wasserstein(p, q), np.mean(exact), rtol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_unequal_sizes_equal_repeated_draws(order):
    """Every draw repeated until the sizes agree: the same distributions, and the optimal plan pairs sorted draws."""
    rng = np.random.default_rng(1)
    p, q = rng.normal(size=(12, 1)), rng.exponential(size=(20, 1))
    pairs = np.sort(np.repeat(p, 5)) - np.sort(np.repeat(q, 3))
    exact = np.mean(np.abs(pairs) ** order) ** (1 / order)
    np.testing.assert_allclose(sliced_wasserstein(p, q, order=order), exact, rtol=1e-12)


def test_second_order_between_gaussians():
    """W₂² between N(0, 1) and N(μ, s²) is μ² + (1 − s)²; the noise of the estimate is about 0.01 here."""
    rng = np.random.default_rng(2)
    mean, root = np.array([0.6, -0.2]), np.array([[1.4, 0.0], [0.5, 0.6]])
    p, q = rng.normal(size=(40_000, 2)), mean + rng.normal(size=(30_000, 2)) @ root.T
    theta = _directions(0, 50, 2)
    exact = np.sqrt(np.mean((theta @ mean) ** 2 + (np.linalg.norm(theta @ root, axis=1) - 1.0) ** 2))
    np.testing.assert_allclose(sliced_wasserstein(p, q, order=2, num_slices=50), exact, atol=0.03)
    np.testing.assert_allclose(
        sliced_wasserstein(p[:, :1], q[:, :1], order=2), math.sqrt(0.6**2 + (1.0 - 1.4) ** 2), atol=0.03
    )


def test_slices_depend_on_the_key_alone():
    rng = np.random.default_rng(3)
    p, q = rng.normal(size=(20, 3)), rng.normal(1.0, 2.0, size=(30, 3))
    value = sliced_wasserstein(p, q, key=5)
    assert sliced_wasserstein(p, q, key=jax.random.key(5)) == value
    assert sliced_wasserstein(p, q, key=6) != value
    with jax.enable_x64(True):
        assert sliced_wasserstein(p, q, key=5) == value


def test_scale():
    rng = np.random.default_rng(4)
    p, q = rng.normal(size=(80, 2)) * [1.0, 100.0], rng.normal(0.5, 1.0, size=(50, 2)) * [1.0, 90.0]
    ranges = stats.iqr(p, axis=0)
    expected = sliced_wasserstein(p / ranges, q / ranges)
    np.testing.assert_allclose(sliced_wasserstein(p, q, scale="iqr"), expected, rtol=1e-12)
    np.testing.assert_allclose(sliced_wasserstein(p, q, scale=ranges), expected, rtol=1e-12)
    np.testing.assert_allclose(sliced_wasserstein(p, q, scale=4.0), sliced_wasserstein(p, q) / 4.0, rtol=1e-12)
    # The reference is the first set.
    assert abs(sliced_wasserstein(q, p, scale="iqr") - expected) > 0.01
    # Units do not matter once they are divided by.
    units = np.array([1e3, 1e-5])
    np.testing.assert_allclose(sliced_wasserstein(p * units, q * units, scale="iqr"), expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("settings", "kind", "message"),
    [
        ({"order": 0.5}, ValueError, r"^order must be at least 1; got 0.5\.$"),
        ({"order": -1}, ValueError, r"^order must be a positive, finite number; got -1.0\.$"),
        ({"order": np.inf}, ValueError, r"^order must be a positive, finite number; got inf\.$"),
        ({"order": "two"}, TypeError, r"^order must be a positive number; got 'two'\.$"),
        ({"num_slices": 0}, ValueError, r"^num_slices must be at least 1; got 0\.$"),
        ({"key": 0.5}, TypeError, r"^key must be an int or one JAX random key; got 0.5\.$"),
        ({"scale": "sd"}, ValueError, r"^scale must be None, \"iqr\", a number or an array \(dim,\); got 'sd'\.$"),
        ({"scale": [1.0, 2.0, 3.0]}, ValueError, r"^scale must be a positive number or 2 of them; got \[1.0"),
        ({"scale": [1.0, 0.0]}, ValueError, r"^scale must be a positive number or 2 of them; got \[1.0, 0.0\]\.$"),
        ({"scale": "iqr"}, ValueError, "every interquartile range of draws_p is positive; that of coordinate 1 is 0"),
    ],
)
def test_wrong_settings(settings, kind, message, as_a_user):
    draws = np.stack([np.arange(9.0), np.zeros(9)], axis=1)
    with pytest.raises(kind, match=message):
        sliced_wasserstein(draws, draws, **settings)
