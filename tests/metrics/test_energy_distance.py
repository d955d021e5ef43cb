import math

import numpy as np
from scipy import stats
from scipy.spatial.distance import pdist

from oracles import bonferroni
from sivi.metrics import energy_distance


def mean_absolute(mean, sd):
    """E|x| for x ~ N(mean, sd²)."""
    z = mean / sd
    return sd * math.sqrt(2 / math.pi) * math.exp(-0.5 * z**2) + mean * (1 - 2 * stats.norm.cdf(-z))


def test_unbiased_for_the_closed_form_between_normals():
    """False-failure rate 1e-4: a z-score over 500 repeats."""
    rng = np.random.default_rng(0)
    mean, sd = 0.7, 1.6
    exact = 2 * mean_absolute(mean, math.hypot(1, sd)) - mean_absolute(0, math.sqrt(2)) * (1 + sd)
    values = np.array(
        [energy_distance(rng.normal(size=(40, 1)), rng.normal(mean, sd, size=(25, 1))) for _ in range(500)]
    )
    assert exact > 0.2
    assert abs(values.mean() - exact) / (values.std() / np.sqrt(500)) < bonferroni(1)


def test_closed_form_between_isotropic_gaussians_in_three_dimensions():
    """E‖x‖ for x ~ N(0, s² I) is s √2 Γ((d+1)/2) / Γ(d/2). The noise of the estimate is about 0.01 here."""
    rng = np.random.default_rng(1)
    length, sd = math.sqrt(2) * math.gamma(2.0) / math.gamma(1.5), 2.0
    exact = length * (2 * math.hypot(1, sd) - math.sqrt(2) * (1 + sd))
    value = energy_distance(rng.normal(size=(5000, 3)), sd * rng.normal(size=(4000, 3)))
    np.testing.assert_allclose(value, exact, atol=0.04)


def test_agrees_with_scipy_after_leaving_out_pairs_of_a_draw_with_itself():
    """SciPy's is the root of the V-statistic, whose averages within a set count the n zeros of i = j."""
    rng = np.random.default_rng(2)
    p, q = rng.gamma(2.0, size=30), rng.normal(size=45)
    squared = stats.energy_distance(p, q) ** 2
    for x in (p, q):
        mean = pdist(x[:, None]).mean()
        squared -= mean - mean * (len(x) - 1) / len(x)
    np.testing.assert_allclose(energy_distance(p[:, None], q[:, None]), squared, rtol=1e-10)


def test_around_zero_and_not_clipped_for_equal_distributions():
    rng = np.random.default_rng(3)
    values = np.array([energy_distance(rng.normal(size=(40, 2)), rng.normal(size=(30, 2))) for _ in range(400)])
    assert (values < 0).mean() > 0.3
    assert abs(values.mean()) / (values.std() / np.sqrt(400)) < bonferroni(1)
