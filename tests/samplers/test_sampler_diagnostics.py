from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from oracles import ar1
from sivi.constraints import simplex
from sivi.samplers import SamplerRun, effective_sample_size, sgld, split_rhat
from sivi.samplers.diagnostics import scale_sample_size
from sivi.targets import Layout


@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.5, 0.9])
def test_effective_sample_size_of_ar1(rho):
    chains = ar1(rho, (8, 5000, 6))
    share = effective_sample_size(chains) / 40_000
    # The mean of six coordinates scatters by 1 to 3 %; 15 % is beyond five standard errors.
    np.testing.assert_allclose(share.mean(), (1 - rho) / (1 + rho), rtol=0.15)
    assert (split_rhat(chains) < 1.01).all()


def test_scale_has_its_own_effective_sample_size():
    """Alternating chains are worth more than their length for x, and less for |x|.

    What is measured of |x| is g(x) = Φ⁻¹(2Φ(|x|) − 1) = Σ_k a_k He_k(x)/√k!, whose autocorrelation is Σ_k a_k² ρ^kt.
    """
    chains = ar1(-0.8, (8, 5000, 4))
    assert (effective_sample_size(chains) > 2 * 40_000).all()
    nodes, weights = np.polynomial.hermite_e.hermegauss(150)
    g = stats.norm.isf(2 * stats.norm.sf(np.abs(nodes)))
    orders = np.arange(2, 40, 2)
    terms = [special.eval_hermitenorm(k, nodes) / np.sqrt(special.factorial(k)) for k in orders]
    a = np.array([np.sum(weights * g * term) for term in terms]) / np.sqrt(2 * np.pi)
    tau = 1 + 2 * np.sum(a**2 * 0.8**orders / (1 - 0.8**orders))
    np.testing.assert_allclose(scale_sample_size(chains).mean() / 40_000, 1 / tau, rtol=0.1)


@pytest.mark.parametrize("num_samples", [20, 50, 200])
def test_short_chains_of_independent_draws(num_samples):
    """Halves of n draws are centred at their own means, hence ρ_1 ≈ −1/n and τ ≈ 1 − 2/n where 1 is right."""
    share = effective_sample_size(ar1(0.0, (2000, num_samples, 4))) / (2000 * num_samples)
    np.testing.assert_allclose(share, 1 / (1 - 4 / num_samples), rtol=0.05)


def test_rhat_sees_location_scale_and_drift_but_no_monotone_map():
    chains = ar1(0.0, (4, 1000, 1))
    assert (split_rhat(chains) < 1.01).all()
    np.testing.assert_allclose(split_rhat(np.exp(5 * chains)), split_rhat(chains), atol=5e-3)
    offsets = np.arange(4.0)[:, None, None]
    # Var(means 0, 1, 2, 3) = 5/3 over a variance within of 1; ranks shrink the tails, so R-hat stays a little below.
    assert 1.45 < split_rhat(chains + offsets)[0] < np.sqrt(1 + 5 / 3)
    assert split_rhat(chains * (1 + offsets))[0] > 1.1
    assert split_rhat(chains + np.linspace(0, 2, 1000)[None, :, None])[0] > 1.1


def test_chains_that_disagree_have_few_effective_draws():
    chains = ar1(0.0, (4, 1000, 1)) + np.arange(4.0)[:, None, None]
    assert effective_sample_size(chains)[0] < 20


def test_agrees_with_blackjax(x64):
    diagnostics = pytest.importorskip("blackjax.diagnostics")
    chains = ar1(0.7, (3, 400, 5), seed=2)
    chains[..., 0] = np.exp(3 * chains[..., 0])
    chains[1, :, 1] += 0.3
    np.testing.assert_allclose(split_rhat(chains), jax.jit(diagnostics.rhat)(chains), rtol=1e-10)
    np.testing.assert_allclose(effective_sample_size(chains), jax.jit(diagnostics.ess_bulk)(chains), rtol=1e-10)


def test_what_cannot_be_measured_is_nan_or_infinite():
    assert np.isnan(split_rhat(np.zeros((4, 3, 2)))).all()
    assert np.isnan(effective_sample_size(np.zeros((4, 3, 2)))).all()
    stuck = np.broadcast_to(np.arange(4.0)[:, None, None], (4, 100, 1)).copy()
    assert split_rhat(stuck)[0] > 1e6
    chains = ar1(0.0, (4, 100, 2))
    chains[0, 5, 1] = np.nan
    assert np.isnan(effective_sample_size(chains)).tolist() == [False, True]
    assert np.isnan(split_rhat(chains)).tolist() == [False, True]


def as_run(draws):
    return SamplerRun(draws, Layout.vector(draws.shape[2]), step_size=0.1)


def test_thinned_leaves_nearly_independent_draws_evenly_spaced():
    # The second coordinate alternates: it needs thinning for its scale, not for itself.
    chains = np.concatenate([ar1(0.3, (20, 8000, 1)), ar1(-0.8, (20, 8000, 1), seed=1)], axis=2)
    diverging = np.random.default_rng(2).random((20, 8000)) < 0.1
    run = replace(as_run(chains), diverging=diverging, max_depth_hits=3)
    thinned = run.thinned(0.9)
    left = thinned.draws.shape[1]
    num = 20 * left
    assert (thinned.ess >= 0.9 * num).all()
    assert (scale_sample_size(thinned.draws) >= 0.9 * num).all()
    k = next(k for k in range(1, 20) if -(-8000 // k) == left)
    assert 5 <= k <= 12  # 0.64^k must be about 0.05 = (1 − 0.9) / (1 + 0.9): k = 6.6, and a little more for noise
    np.testing.assert_array_equal(thinned.draws, chains[:, (8000 - 1) % k :: k])
    np.testing.assert_array_equal(thinned.diverging, diverging[:, (8000 - 1) % k :: k])
    assert run.divergences == diverging.sum() > thinned.divergences == thinned.diverging.sum()
    assert thinned.max_depth_hits == 3
    assert as_run(ar1(0.0, (20, 2000, 2))).thinned(0.9).draws.shape == (20, 2000, 2)


def test_thinned_says_when_it_cannot():
    with pytest.raises(ValueError, match=r"share: no thinning that leaves 20 of the 400 draws per chain reaches 0\.9"):
        as_run(ar1(0.99, (4, 400, 1))).thinned(0.9)
    with pytest.raises(ValueError, match=r"no thinning"):
        as_run(np.zeros((4, 1, 1))).thinned()
    with pytest.raises(ValueError, match=r"share must be in \(0, 1\]; got 1\.5\."):
        as_run(np.zeros((4, 10, 1))).thinned(1.5)


def test_equality_is_identity():
    run, other = as_run(np.zeros((2, 4, 3))), as_run(np.zeros((2, 4, 3)))
    assert run == run
    assert run != other
    assert len({run, other}) == 2


def test_without_trajectories_nothing_diverges():
    run = sgld(lambda x: -0.5 * jnp.sum(x**2), dim=1, num_particles=3, num_steps=2, step_size=0.1, progress=False)
    assert run.diverging is None
    assert run.max_depth_hits is None
    assert run.divergences == 0


def test_flat_and_named():
    draws = np.arange(24.0).reshape(2, 4, 3)
    run = SamplerRun(draws, Layout.like({"a": 0.0, "b": np.zeros(2)}), step_size=0.1)
    np.testing.assert_array_equal(run.flat(), draws.reshape(8, 3))
    named = run.named()
    np.testing.assert_array_equal(named["a"], draws[..., 0])
    np.testing.assert_array_equal(named["b"], draws[..., 1:])


def test_printed_it_names_the_worst_coordinates():
    chains = np.concatenate([ar1(0.0, (4, 100, 1)), ar1(0.9, (4, 100, 1)), ar1(0.0, (4, 100, 2), seed=1)], axis=2)
    chains[0, :, 2] += 5.0
    run = SamplerRun(
        chains,
        Layout.like({"a": 0.0, "b": np.zeros(1), "w": simplex(3)}),
        step_size=0.1,
        acceptance=np.array([0.75, 0.8, 0.8, 0.9]),
        diverging=np.arange(400).reshape(4, 100) % 200 == 0,
        max_depth_hits=7,
        sampler="nuts",
    )
    worst, fewest = run.rhat.max(), run.ess.min()
    assert (run.rhat.argmax(), run.ess.argmin()) == (2, 2)
    for text in (str(run), repr(run)):
        assert text.splitlines() == [
            "nuts: 4 chains of 100 draws, 4 unknowns",
            f"  R-hat: at most {worst:.3f}, at w (free number 0)",
            f"  effective sample size: at least {fewest:.0f} of 400 draws, at w (free number 0)",
            "  acceptance: 0.75 to 0.90",
            "  divergences: 2",
            "  trajectories cut short: 7",
        ]


def test_printed_without_enough_draws():
    assert str(as_run(np.zeros((1000, 1, 2)))).splitlines() == [
        "sampler run: 1,000 chains of 1 draws, 2 unknowns",
        "  R-hat and effective sample size: not known, of fewer than 4 draws a chain",
    ]
    assert "of chains that do not move" in str(as_run(np.zeros((4, 10, 2))))
