"""What every metric of draws owes, whatever it measures: clear refusals, and no dependence on what is irrelevant."""

import tracemalloc

import jax.numpy as jnp
import numpy as np
import pytest

from sivi.metrics import (
    _pairs,
    covariance_rmse,
    energy_distance,
    knn_kl,
    ksd,
    mmd,
    moment_errors,
    sliced_wasserstein,
)
from sivi.targets import GaussianMixture

TARGET = GaussianMixture([[0.3, -0.2]], [[[1.0, 0.4], [0.4, 0.7]]])


def shifted(offset):
    return GaussianMixture([[0.3 + offset, -0.2 + offset]], [[[1.0, 0.4], [0.4, 0.7]]])


def largest_mean_error(draws, reference):
    return moment_errors(draws, reference).largest_mean_error


#: Metric of two sets of draws, and the names of its two arguments.
TWO_SAMPLE = {
    "knn_kl": (knn_kl, "draws_p", "draws_q"),
    "sliced_wasserstein": (sliced_wasserstein, "draws_p", "draws_q"),
    "mmd": (mmd, "draws_p", "draws_q"),
    "energy_distance": (energy_distance, "draws_p", "draws_q"),
    "covariance_rmse": (covariance_rmse, "draws", "reference"),
    "moment_errors": (largest_mean_error, "draws", "reference"),
}
IN_BLOCKS = ["mmd", "energy_distance"]


@pytest.fixture(params=TWO_SAMPLE)
def metric(request):
    return TWO_SAMPLE[request.param]


def two_sets(n=300, m=410, dim=2):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, dim)), rng.normal(0.4, 1.3, size=(m, dim))


def test_wrong_input_is_refused_in_one_sentence(metric, as_a_user):
    distance, first, second = metric
    good = np.random.default_rng(0).normal(size=(9, 2))
    holed = good.copy()
    holed[[2, 5], 1] = np.nan
    endless = np.where(np.isnan(holed), np.inf, holed)
    for bad, rule in [
        (good[:, 0], r"must have shape \(n, dim\) with n at least \d; got \(9,\)\.$"),
        (good[None], r"must have shape \(n, dim\) .* got \(1, 9, 2\)\.$"),
        (np.zeros((0, 2)), r"must have shape \(n, dim\) .* got \(0, 2\)\.$"),
        (np.zeros((9, 0)), r"must have shape \(n, dim\) .* got \(9, 0\)\.$"),
        (holed, r"must be finite; 2 rows are not\.$"),
        (endless, r"must be finite; 2 rows are not\.$"),
    ]:
        with pytest.raises(ValueError, match=f"^{first} {rule}"):
            distance(bad, good)
        with pytest.raises(ValueError, match=f"^{second} {rule}"):
            distance(good, bad)
    with pytest.raises(ValueError, match=rf"^{first} and {second} must have the same dim; got 2 and 1\.$"):
        distance(good, good[:, :1])
    with pytest.raises(TypeError, match=rf"^{first} must be an array of numbers of shape \(n, dim\); got \{{'x'"):
        distance({"x": 0.0}, good)


def test_order_of_the_draws_and_kind_of_array_do_not_matter(metric):
    distance = metric[0]
    p, q = two_sets()
    p, q = p.astype(np.float32), q.astype(np.float32)
    value = distance(p, q)
    np.testing.assert_allclose(distance(p[::-1], np.roll(q, 7, axis=0)), value, rtol=1e-10)
    assert distance(jnp.asarray(p), q.tolist()) == value


def test_a_common_shift_does_not_matter_nor_cost_digits(metric):
    distance = metric[0]
    p, q = two_sets()
    np.testing.assert_allclose(distance(p + 1e6, q + 1e6), distance(p, q), rtol=1e-6)


@pytest.mark.parametrize("name", IN_BLOCKS)
def test_blocks_change_nothing_and_keep_memory_flat(name, monkeypatch):
    distance = TWO_SAMPLE[name][0]
    p, q = two_sets(n=3000, m=2600)
    tracemalloc.start()
    value = distance(p, q)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e7  # the matrix of all pairs alone has 6e7 bytes
    monkeypatch.setattr(_pairs, "_BLOCK", 997)
    np.testing.assert_allclose(distance(p, q), value, rtol=1e-9)


def test_ksd_refuses_wrong_input(as_a_user):
    good = np.random.default_rng(0).normal(size=(9, 2))
    for draws, rule in [
        (good[0], r"^draws must have shape \(n, dim\) with n at least 2; got \(2,\)\.$"),
        (good[:1], r"^draws must have shape .* got \(1, 2\)\.$"),
        (np.full((4, 2), np.nan), r"^draws must be finite; 4 rows are not\.$"),
        (good[:, :1], r"^draws and target must have the same dim; got 1 and 2\.$"),
    ]:
        with pytest.raises(ValueError, match=rule):
            ksd(draws, TARGET)
    with pytest.raises(ValueError, match=r"^kernel must be 'imq' or 'gaussian'; got 'rbf'\.$"):
        ksd(good, TARGET, kernel="rbf")
    with pytest.raises(TypeError, match="target must be a sivi Target or a function"):
        ksd(good, "normal")
    log_of_the_first = lambda x: jnp.log(x[0])  # noqa: E731
    good[:, 0] = np.abs(good[:, 0])
    good[:3, 0] = 0.0
    with pytest.raises(ValueError, match=r"^target must have a finite score at every draw; at 3 of 9 it has not\.$"):
        ksd(good, log_of_the_first)


def test_ksd_does_not_depend_on_order_blocks_or_a_common_shift(monkeypatch, x64):
    draws = two_sets()[1]
    value = ksd(draws, shifted(0.0))
    np.testing.assert_allclose(ksd(draws[::-1], shifted(0.0)), value, rtol=1e-9)
    np.testing.assert_allclose(ksd(draws + 1e4, shifted(1e4)), value, rtol=1e-6)
    monkeypatch.setattr(_pairs, "_BLOCK", 100)
    np.testing.assert_allclose(ksd(draws, shifted(0.0)), value, rtol=1e-9)


@pytest.mark.parametrize("distance", [mmd, lambda p, q, **settings: ksd(p, TARGET, **settings)], ids=["mmd", "ksd"])
def test_wrong_bandwidth(distance, as_a_user):
    p, q = two_sets(9, 9)
    for bad, kind, rule in [
        (0.0, ValueError, "positive, finite number; got 0.0"),
        (-1.0, ValueError, "positive, finite number; got -1.0"),
        (np.inf, ValueError, "positive, finite number; got inf"),
        (np.nan, ValueError, "positive, finite number; got nan"),
        ("median", TypeError, "positive number; got 'median'"),
        ([1.0, 2.0], TypeError, r"positive number; got \[1.0, 2.0\]"),
    ]:
        with pytest.raises(kind, match=rf"^bandwidth must be a {rule}\.$"):
            distance(p, q, bandwidth=bad)
    with pytest.raises(ValueError, match=r"^bandwidth must be given: the median distance between the draws is 0\.$"):
        distance(np.ones((9, 2)), np.ones((9, 2)))
