"""HMC and NUTS against exact draws: their sliced Wasserstein distance is no larger than that of exact draws.

The bar is the 99th percentile over 50 pairs of exact sets of the same size, which exact draws pass in 98 of 100 runs.
Targets and settings are those of `benchmarks/reference_samplers.py`; the slow test is that benchmark, with its seeds.
"""

import importlib
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from sivi.metrics import noise_floor, sliced_wasserstein
from sivi.samplers import hmc, nuts

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
benchmark = importlib.import_module("reference_samplers")
TARGETS, DISTANCE = benchmark.TARGETS, benchmark.DISTANCE


@cache
def bar(name, num_samples):
    floor = noise_floor(sliced_wasserstein, TARGETS[name](), num_samples=num_samples, repeats=50, key=2000, **DISTANCE)
    return np.quantile(floor, 0.99)


def check(name, run, num_samples, share):
    """Thin until nearly independent, keep `num_samples` spread over all chains, and compare with exact draws."""
    kept = benchmark.last_draws(run.thinned(share), num_samples)
    exact = benchmark.exact_draws(TARGETS[name](), num_samples, 1000)
    assert sliced_wasserstein(exact, kept.flat(), **DISTANCE) < bar(name, num_samples)
    return kept


def run_hmc(name, **arguments):
    return hmc(TARGETS[name](), progress=False, **benchmark.OWN_SETTINGS.get((name, "hmc"), {}), **arguments)


def run_nuts(name, **arguments):
    run = nuts(TARGETS[name](), progress=False, **benchmark.OWN_SETTINGS.get((name, "nuts"), {}), **arguments)
    assert (run.rhat <= benchmark.MAX_RHAT).all()
    return run


# With 1,000 draws the effective sample size of the worst of 20 coordinates is itself uncertain by 15 %.
@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_hmc(name):
    check(name, run_hmc(name, num_chains=20, num_samples=1500, num_warmup=400, key=1), 1000, 0.8)


@pytest.mark.slow
def test_nuts():
    run = run_nuts("gaussian-20", num_chains=10, num_samples=1000, num_warmup=300, key=2)
    assert run.step_size.shape == run.acceptance.shape == (10,)
    assert 0.7 < run.acceptance.mean() < 0.97
    assert run.divergences == 0
    assert run.draws.dtype == np.float32
    check("gaussian-20", run, 1000, 0.8)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", [run_hmc, run_nuts])
@pytest.mark.parametrize("name", TARGETS)
def test_10_000_draws(name, sampler):
    kept = check(name, sampler(name, key=0, **benchmark.CHAINS), 10_000, benchmark.SHARE + benchmark.MARGIN)
    assert (kept.ess >= benchmark.SHARE * 10_000).all()
