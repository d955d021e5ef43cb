"""What every sampler must do: a row of `plugins.SAMPLERS`."""

import inspect

import numpy as np
import pytest

from contracts.plugins import SAMPLERS
from sivi import samplers
from sivi.samplers.diagnostics import scale_sample_size
from sivi.targets import Banana, GaussianMixture

MEAN, COVARIANCE = np.array([1.0, -2.0]), np.array([[1.0, 0.6], [0.6, 1.4]])


@pytest.fixture(params=SAMPLERS)
def case(request):
    pytest.importorskip("blackjax")
    return SAMPLERS[request.param]


def test_every_sampler_has_a_row():
    public = [getattr(samplers, name) for name in samplers.__all__ if name != "SamplerRun"]
    returning = {f.__name__ for f in public if inspect.signature(f).return_annotation is samplers.SamplerRun}
    assert set(SAMPLERS) == returning


def test_shapes_and_types_and_whose_draws(case, x64):
    num_samples = 1 if case.interacting else 5
    arguments = {"num_chains": 3} | ({} if case.interacting else {"num_samples": num_samples})
    run = case.run(Banana(), key=1, chunk_size=100, **arguments)
    assert run.draws.shape == (3, num_samples, 2)
    assert run.interacting == case.interacting
    assert run.draws.dtype == np.float64
    assert run.layout.names == ("x",)
    assert np.shape(run.step_size) in ((), (3,))
    for values, shape in ((run.acceptance, (3,)), (run.diverging, (3, num_samples))):
        assert values is None or values.shape == shape
    what = "3 particles" if case.interacting else "3 chains of 5 draws"
    assert str(run).startswith(f"{run.sampler}: {what}, 2 unknowns\n")
    # The key decides, and nothing else: neither a second call nor the chunks.
    np.testing.assert_array_equal(case.run(Banana(), key=1, chunk_size=7, **arguments).draws, run.draws)
    other = case.run(Banana(), key=2, chunk_size=7, **arguments)
    assert (other.draws != run.draws).all(axis=(1, 2)).all()
    # No two chains, or particles, are the same.
    assert len(np.unique(run.draws[:, -1], axis=0)) == 3


@pytest.mark.parametrize("case", [name for name in SAMPLERS if not SAMPLERS[name].interacting], indirect=True)
def test_moments_of_a_gaussian(case):
    """Within five Monte Carlo errors, and the bias that the row states: fails by chance less than once in 10⁵."""
    run = case.run(GaussianMixture([MEAN], [COVARIANCE]), num_chains=10, num_samples=400, key=3)
    assert run.draws.dtype == np.float32
    draws, sd = run.flat().astype(float), np.sqrt(np.diag(COVARIANCE))
    assert (np.abs(draws.mean(0) - MEAN) / sd < 5.0 / np.sqrt(run.ess)).all()
    independent = np.minimum(run.ess, scale_sample_size(run.draws))
    variances = draws.var(0, ddof=1) / np.diag(COVARIANCE)
    assert (np.abs(variances - 1.0) < 5.0 * np.sqrt(2.0 / independent) + case.bias).all()
    correlation = COVARIANCE[0, 1] / np.prod(sd)
    found = np.corrcoef(draws, rowvar=False)[0, 1]
    assert abs(found - correlation) < 5.0 * (1.0 - correlation**2) / np.sqrt(independent.min()) + case.bias


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"num_samples": 0}, ValueError, r"num_samples must be at least 1; got 0\."),
        ({"num_chains": 0}, ValueError, r"num_(chains|particles) must be at least 1; got 0\."),
        ({"chunk_size": 0}, ValueError, r"chunk_size must be at least 1; got 0\."),
        ({"key": 1.5}, TypeError, r"key must be an int or one JAX random key; got 1\.5\."),
        ({"dim": 3}, ValueError, r"dim must agree with the target's, 2; got 3\."),
        ({"target": 3.0}, TypeError, r"target must be a sivi Target or a function"),
        ({"init": np.zeros((2, 2))}, ValueError, r"init must be .* shape \(3, 2\); got .* shape \(2, 2\)\."),
        ({"init": np.zeros((3, 2), complex)}, ValueError, r"init must be an array of numbers"),
        ({"init": np.full((3, 2), np.nan)}, ValueError, r"init: the .*score must be finite .* not so for 3 of 3"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(case, arguments, error, message):
    given = {"target": Banana(), "num_chains": 3, "num_samples": 5} | arguments
    if case.interacting:
        if "num_samples" in arguments:
            pytest.skip("its particles are all that comes back")
        del given["num_samples"]
    with pytest.raises(error, match=message) as caught:
        case.run(given.pop("target"), **given)
    assert "\n" not in str(caught.value)
