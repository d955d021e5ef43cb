"""`sivi.compare`: the numbers are those of closed forms, and a reference that fails its guards judges nothing."""

import re
import sys
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from oracles import linear_gaussian_family
from sivi.coordinates import DiagonalMap
from sivi.samplers.run import SamplerRun
from sivi.targets import LogDensity
from sivi.verdict.refined import Refined
from sivi.verdict.result import Cost
from unfitted import posterior_of

QUICK = {"num_samples": 300, "num_warmup": 200, "progress": False}


def gaussian(x):
    return -0.5 * jnp.sum(x**2)


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def test_errors_are_those_of_a_shifted_and_narrowed_gaussian():
    comparison = sivi.compare(normal(0, 8000, 2) * [1.0, 0.7] + [0.5, 0.0], gaussian, reference=normal(1, 8000, 2))
    np.testing.assert_allclose(comparison.mean_error, [0.5, 0.0], atol=5 * comparison.mean_noise.max())
    np.testing.assert_allclose(comparison.mean_noise, np.sqrt([2 / 8000, 1.49 / 8000]), rtol=0.1)
    np.testing.assert_allclose(np.log(comparison.sd_ratio), np.log([1.0, 0.7]), atol=5 * comparison.sd_noise.max())
    np.testing.assert_allclose(comparison.sd_noise, np.sqrt(2 / 8000 / 2), rtol=0.1)
    # sup |Φ(x) − Φ(x − ½)| = 2Φ(¼) − 1, and sup |Φ(x) − Φ(x / 0.7)| = 0.0837.
    np.testing.assert_allclose(comparison.ks, [0.1974, 0.0837], atol=0.025)
    assert (comparison.level, comparison.reference, comparison.run) == ("bad", "draws", None)
    assert "bad, against draws: means are at most 0." in str(comparison)
    assert "no R-hat" in str(comparison)


def test_equal_draws_have_no_fault_and_the_noise_is_as_stated():
    errors, distances = [], []
    for seed in range(20):
        comparison = sivi.compare(normal(2 * seed, 2000, 5), gaussian, reference=normal(2 * seed + 1, 2000, 5))
        assert comparison.level == "no fault found"
        errors.append(comparison.mean_error / comparison.mean_noise)
        distances.append(comparison.ks / comparison.ks_noise)
    assert 0.8 < np.std(errors) < 1.2  # the standard deviation of 100 errors: 1 ± 0.07
    assert 0.9 < np.mean(distances) < 1.1


def test_hmc_in_place_of_nuts_says_so_and_is_believed(monkeypatch):
    monkeypatch.setitem(sys.modules, "blackjax", None)
    posterior = replace(
        posterior_of(linear_gaussian_family(), [DiagonalMap(jnp.zeros(3), jnp.ones(3))]), target=LogDensity(gaussian, 3)
    )
    comparison = sivi.compare(posterior, **QUICK | {"num_chains": 16})
    assert comparison.believed
    assert comparison.reference == "HMC"
    assert "HMC in place of NUTS, since BlackJAX is not installed" in str(comparison)
    lines = str(comparison).splitlines()
    assert [line.split()[0] for line in lines[2:5]] == ["x[0]", "x[1]", "x[2]"]
    np.testing.assert_allclose(comparison.reference_mean, 0.0, atol=0.1)
    assert comparison.cost.gradients == comparison.run.num_gradients > 16 * 500
    with pytest.raises(ImportError, match="nuts needs BlackJAX"):
        sivi.compare(posterior, reference="nuts", **QUICK)


def chains(shift):
    draws = normal(0, 4, 500, 2)
    draws[0] += shift
    return SamplerRun(draws, sivi.targets.Layout.vector(2), step_size=0.1, sampler="nuts")


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (chains([0.0, 3.0]), r"the chains disagree: R-hat is 1\.\d+ at x\[1\], above 1.01"),
        (replace(chains(0.0), diverging=np.arange(2000).reshape(4, 500) < 30), "30 of 2,000 transitions diverged"),
        (replace(chains(0.0), draws=normal(0, 4, 50, 2)), "are worth .* independent ones, below 400"),
        (replace(chains(0.0), draws=normal(0, 1, 500, 2)), "R-hat needs two chains"),
    ],
)
def test_a_reference_that_is_not_believed_judges_nothing(run, why):
    comparison = sivi.compare(normal(5, 2000, 2), gaussian, reference=run)
    assert (comparison.believed, comparison.level) == (False, None)
    (line,) = str(comparison).splitlines()
    assert line.startswith("The reference, NUTS, is not believed, so nothing is judged: ")
    assert re.search(why, line)


def test_chains_that_agree_are_believed_and_refined_draws_are_taken():
    refined = Refined(normal(3, 8000, 2), sivi.targets.Layout.vector(2), None, Cost(0.0, 0), "not judged")
    comparison = sivi.compare(refined, gaussian, reference=chains(0.0))
    assert comparison.level == "no fault found"
    assert "R-hat of NUTS: at most 1.0" in str(comparison)


def test_constrained_unknowns_are_compared_as_sampled():
    like = {"corr": sivi.correlation_cholesky(2), "tau": sivi.positive()}
    target = LogDensity(lambda p: -p["tau"] + 0.0 * jnp.sum(p["corr"]), like=like)
    angle = 0.5 * np.random.default_rng(0).uniform(-1, 1, 4000)
    corr = np.zeros((4000, 2, 2))
    corr[:, 0, 0], corr[:, 1, 0], corr[:, 1, 1] = 1.0, angle, np.sqrt(1 - angle**2)
    draws = {"corr": corr, "tau": np.random.default_rng(1).exponential(size=4000)}
    wide = draws | {"tau": 2.0 * draws["tau"]}
    comparison = sivi.compare(wide, target, reference=draws)
    assert comparison.unknowns == ("corr[0,0]", "corr[0,1]", "corr[1,0]", "corr[1,1]", "tau")
    np.testing.assert_array_equal(np.isnan(comparison.mean_error), [True, True, False, False, False])
    np.testing.assert_allclose([comparison.sd_ratio[4], comparison.mean[4] / comparison.reference_mean[4]], 2.0, 1e-3)
    assert [line.split()[-1] for line in str(comparison).splitlines()[2:4]] == ["-", "-"]


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"reference": "stan"}, 'reference must be "nuts", "hmc" or draws; got \'stan\''),
        ({"reference": normal(0, 10, 2)}, "reference must have at least 50 draws; got 10"),
        ({"reference": np.full((100, 2), np.nan)}, "reference must be finite; 100 draws are not"),
        ({"reference": normal(0, 100, 3)}, "must have the target's 2 unknowns; got 3"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        sivi.compare(normal(0, 2000, 2), gaussian, **arguments)
    with pytest.raises(TypeError, match="settings are those of a sampler"):
        sivi.compare(normal(0, 2000, 2), gaussian, reference=normal(1, 2000, 2), num_samples=3)
    with pytest.raises(ValueError, match="target must be given"):
        sivi.compare(normal(0, 2000, 2))
