"""Mistakes of one sampler's own arguments; those that all share are in the contract."""

import jax.numpy as jnp
import numpy as np
import pytest

from oracles import linear_gaussian_model
from sivi import MissingLogProb
from sivi.kernels import GaussianKernel
from sivi.samplers import hmc, nuts, sgld, svgd
from sivi.schedules import Ramp
from sivi.targets import Banana, ScoreFunction

pytestmark = pytest.mark.usefixtures("as_a_user")


def run_sgld(target=None, **arguments):
    target = Banana() if target is None else target
    return sgld(target, **{"num_particles": 3, "num_steps": 5, "step_size": 0.1, "progress": False} | arguments)


def run_svgd(target=None, **arguments):
    target = Banana() if target is None else target
    return svgd(target, **{"num_particles": 3, "num_steps": 5, "progress": False} | arguments)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"num_steps": -1}, ValueError, r"num_steps must be at least 1; got -1\."),
        ({"num_steps": 2.5}, TypeError, r"num_steps must be an integer of at least 1; got 2\.5\."),
        ({"num_samples": 4, "thin": 2}, ValueError, r"num_steps must be at least 1 \+ .* = 7; got 5\."),
        ({"step_size": -0.1}, ValueError, r"step_size must be a positive, finite number; got -0\.1\."),
        ({"step_size": float("nan")}, ValueError, r"step_size must be a positive, finite number; got nan\."),
        ({"step_size": "big"}, TypeError, r"step_size must be a positive number; got 'big'\."),
        ({"step_size": Ramp(0.1, -0.1, 1.0)}, ValueError, r"step_size must be positive .* every step; got .* step 3\."),
        ({"batch_size": 4}, ValueError, r"batch_size needs a target with data, such as a BayesianModel; got 4\."),
    ],
)
def test_sgld(arguments, error, message):
    with pytest.raises(error, match=message) as caught:
        run_sgld(**arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("batch_size", "message"), [(25, "at most the number of data, 24; got 25"), (0, "at least 1")])
@pytest.mark.parametrize("run", [run_sgld, run_svgd])
def test_batch_size(run, batch_size, message):
    with pytest.raises(ValueError, match=f"batch_size must be {message}"):
        run(linear_gaussian_model(), batch_size=batch_size)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"num_steps": 0}, ValueError, r"num_steps must be at least 1; got 0\."),
        ({"num_particles": 2.5}, TypeError, r"num_particles must be an integer of at least 1; got 2\.5\."),
        ({"kernel": "rbf"}, TypeError, r"kernel must be a sivi\.kernels\.Kernel; got 'rbf'\."),
        ({"kernel": GaussianKernel}, TypeError, r"kernel must be a sivi\.kernels\.Kernel; got .*GaussianKernel"),
        ({"optimizer": 0.1}, TypeError, r"optimizer must be a sivi\.optimizers\.Optimizer or an Optax .*; got 0\.1\."),
        ({"progress": 1}, TypeError, r"progress must be True or False; got 1\."),
        ({"batch_size": 4}, ValueError, r"batch_size needs a target with data, such as a BayesianModel; got 4\."),
        ({"init": [[0.0, 1.0]]}, ValueError, r"init must be an array of numbers of shape \(3, 2\); got .*\(1, 2\)\."),
    ],
)
def test_svgd(arguments, error, message):
    with pytest.raises(error, match=message) as caught:
        run_svgd(**arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("sampler", [hmc, nuts])
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"num_warmup": 19}, ValueError, r"num_warmup must be at least 20; got 19\."),
        ({"num_warmup": True}, TypeError, r"num_warmup must be an integer of at least 20; got True\."),
        ({"target_acceptance": 1.0}, ValueError, r"target_acceptance must be a probability below 1; got 1\.0\."),
        ({"target_acceptance": -0.2}, ValueError, r"target_acceptance must be a positive, finite number; got -0\.2\."),
    ],
)
def test_hmc_and_nuts(sampler, arguments, error, message):
    with pytest.raises(error, match=message) as caught:
        sampler(Banana(), progress=False, **arguments)
    assert "\n" not in str(caught.value)


def test_own_arguments():
    with pytest.raises(ValueError, match=r"step_size must be a positive, finite number; got 0\."):
        hmc(Banana(), step_size=0, progress=False)
    with pytest.raises(ValueError, match=r"num_leapfrog must be at least 1; got 0\."):
        hmc(Banana(), num_leapfrog=0, progress=False)
    with pytest.raises(ValueError, match=r"max_doublings must be at least 1; got 0\."):
        nuts(Banana(), max_doublings=0, progress=False)


@pytest.mark.parametrize("sampler", [hmc, nuts])
def test_targets_that_cannot_be_sampled(sampler):
    with pytest.raises(MissingLogProb, match=r"ScoreFunction knows only its score"):
        sampler(ScoreFunction(lambda x: -x, dim=2), progress=False)
    with pytest.raises(ValueError, match=r"log density must be a float32 or float64 array of shape \(\); got .*\(2,\)"):
        sampler(lambda x: -(x**2), dim=2, progress=False)
    with pytest.raises(
        ValueError, match=r"log density and the score must be finite .* 4 of 4 .* in 100 tries each; give init"
    ):
        sampler(lambda x: jnp.log(-jnp.sum(x**2)), dim=2, progress=False)
    with pytest.raises(KeyError) as caught:
        sampler(lambda x: {}["missing"], dim=2, progress=False)
    assert any("raised by the log density given as target" in note for note in caught.value.__notes__)


def test_random_starts_outside_the_support_are_drawn_again():
    """Half of N(0, 4) lies where this density is zero; chains that started there would never move."""
    run = hmc(lambda x: -x[0] + jnp.log(x[0]), dim=1, num_chains=30, num_samples=200, num_warmup=300, progress=False)
    assert (run.draws > 0).all()
    assert abs(run.flat().mean() - 2.0) < 6 * np.sqrt(2.0 / run.ess[0])  # Gamma(2, 1)


def test_one_bad_start_of_the_user_is_refused():
    with pytest.raises(ValueError, match=r"init: .* not so for 1 of 2 chains, for example at \[-1\.\]\."):
        hmc(lambda x: -x[0] + jnp.log(x[0]), dim=1, num_chains=2, init=[[1.0], [-1.0]], progress=False)
