import sys

import jax.numpy as jnp
import numpy as np
import pytest

from sivi.samplers import nuts
from sivi.targets import Banana, IsotropicGaussian

pytest.importorskip("blackjax")
QUIET = {"progress": False}


def test_diagnostics_tell_of_trouble_and_chunks_do_not_matter(x64):
    """Two far modes, and a banana with the standard step: chains that disagree, and divergences."""

    def log_density(p):
        return jnp.logaddexp(-0.5 * (p["far"] - 30) ** 2, -0.5 * (p["far"] + 30) ** 2) + Banana().log_prob(p["banana"])

    starts = np.array([[0.0, 1.0, 30.0], [0.0, 1.0, -30.0]] * 4)
    arguments = {"num_chains": 8, "num_samples": 150, "num_warmup": 150, "init": starts, "target_acceptance": 0.6}
    like = {"far": 0.0, "banana": np.zeros(2)}
    run = nuts(log_density, like=like, key=2, **arguments, **QUIET)
    assert run.draws.dtype == np.float64
    assert run.named()["far"].shape == (8, 150)
    assert run.rhat[2] > 1.5
    assert run.ess[2] < 20
    assert run.divergences > 0
    again = nuts(log_density, like=like, key=2, chunk_size=47, **arguments, **QUIET)
    np.testing.assert_array_equal(run.draws, again.draws)
    np.testing.assert_array_equal(run.diverging, again.diverging)
    assert run.diverging.shape == (8, 150)
    assert run.divergences == run.diverging.sum()
    assert run.max_depth_hits == again.max_depth_hits == 0


def test_trajectories_that_are_cut_short_are_counted():
    """Two states cannot span a Gaussian at the step sizes tuned for it; in the test above 2^10 always turned back."""
    run = nuts(
        IsotropicGaussian(5), num_chains=3, num_samples=40, num_warmup=60, target_acceptance=0.95, max_doublings=1,
        key=3, **QUIET,
    )  # fmt: skip
    assert 0.9 * 120 < run.max_depth_hits <= 120
    assert run.num_gradients == 3 * (60 + 40)
    assert run.divergences == 0


def test_without_blackjax(monkeypatch):
    monkeypatch.setitem(sys.modules, "blackjax", None)
    with pytest.raises(ImportError, match=r"nuts needs BlackJAX: pip install 'sivi\[mcmc\]'"):
        nuts(Banana(), **QUIET)
