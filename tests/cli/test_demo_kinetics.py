"""The two modes of `sivi demo`: the exact answer against the symmetry of the model, and what is printed and drawn."""

import sys

import jax
import numpy as np
import pytest
from scipy import optimize

import sivi
from sivi.cli import _demo, _demo_kinetics, main
from sivi.cli import _kinetics as kinetics
from sivi.cli._kinetics_exact import exact
from sivi.samplers import SamplerRun
from sivi.targets import as_target
from sivi.verdict.inference import Inference, Step
from sivi.verdict.reference import Reference
from sivi.verdict.refined import Refined
from sivi.verdict.result import Cost

FAST = np.log([5.0, 33.0, 0.62, 0.08])  # CL, V, ka, sigma
SLOW = np.log([5.0, 8.0, 0.15, 0.08])


def swapped(points):
    """The rates exchanged and CL kept, in logarithms: a linear map with determinant −1."""
    clearance, volume, ka, sigma = points.T
    return np.stack([clearance, clearance - ka, clearance - volume, sigma], -1)


@pytest.fixture(scope="module")
def target():
    return as_target(kinetics.log_density, like=kinetics.unknowns())


def test_the_data_are_generated():
    np.testing.assert_array_equal(kinetics.CONCENTRATIONS, kinetics.generated_concentrations())


def test_the_curve_is_the_textbook_one_and_keeps_under_the_swap():
    ka, clearance, volume, hours = 0.7, 4.0, 30.0, np.array([0.3, 2.0, 11.0])
    ke = clearance / volume
    textbook = kinetics.DOSE * ka / (volume * (ka - ke)) * (np.exp(-ke * hours) - np.exp(-ka * hours))
    np.testing.assert_allclose(kinetics.concentration(ka, clearance, volume, hours), textbook, rtol=1e-5)
    swap = kinetics.concentration(ke, clearance, clearance / ka, hours)
    np.testing.assert_allclose(swap, textbook, rtol=1e-5)
    same_rates = kinetics.DOSE / volume * ke * hours * np.exp(-ke * hours)
    np.testing.assert_allclose(kinetics.concentration(ke, clearance, volume, hours), same_rates, rtol=1e-4)


def test_a_finer_grid_has_the_same_answer():
    coarse, fine = exact(), exact(451, 121)
    assert abs(coarse.slow_share - fine.slow_share) < 1e-5
    for grid in (coarse, fine):
        spacing = grid.log_rates[1] - grid.log_rates[0]
        assert abs(grid.density.sum() * spacing**2 - 1.0) < 1e-9
        # Neither mode reaches the edge or the other one.
        assert max(grid.density[0].max(), grid.density[-1].max(), grid.density[:, 0].max()) < 1e-6
        assert np.diag(grid.density).max() < 1e-5 * grid.density.max()


def test_the_exact_share_is_that_of_the_priors_under_one_mode(target):
    """The swap keeps the likelihood: the ratio of the masses is the mean ratio of the priors in the fast mode."""
    log_prob = jax.jit(jax.vmap(target.log_prob))
    score = jax.jit(lambda x: target.score(x))
    mode = optimize.minimize(
        lambda x: -float(log_prob(x[None])[0]), FAST, jac=lambda x: -np.asarray(score(x), float), method="BFGS"
    ).x
    covariance = np.linalg.inv(-np.asarray(jax.jacobian(score)(mode), float))
    rng = np.random.default_rng(0)
    num, degrees = 40_000, 6.0
    normal = rng.normal(size=(num, 4))
    scale = np.sqrt(degrees / rng.chisquare(degrees, size=(num, 1)))
    points = mode + scale * normal @ np.linalg.cholesky(covariance).T
    log_proposal = -0.5 * (degrees + 4.0) * np.log1p((scale[:, 0] ** 2) * (normal**2).sum(1) / degrees)
    here, there = (np.asarray(log_prob(x), float) for x in (points, swapped(points)))
    weights = np.exp(here - log_proposal - (here - log_proposal).max())
    weights *= points[:, 2] > points[:, 0] - points[:, 1]
    weights /= weights.sum()
    ratios = np.exp(there - here)
    ratio = weights @ ratios
    error = np.sqrt((weights**2) @ (ratios - ratio) ** 2)
    share = ratio / (1.0 + ratio)
    share_error = error / (1.0 + ratio) ** 2
    assert share_error < 0.001
    assert abs(share - exact().slow_share) < 4.0 * share_error  # fails by chance once in 16,000


def around(centres, num, seed):
    """(num, 4): points near a centre each, in turn."""
    points = np.repeat(np.asarray(centres), num // len(centres), 0)
    return points + 0.02 * np.random.default_rng(seed).normal(size=points.shape)


@pytest.fixture
def given(monkeypatch, target):
    """An inference with two fifths of its draws in the slow mode, and chains of which one is there."""
    points = around([SLOW, SLOW, FAST, FAST, FAST], 5000, 0)
    refined = Refined(points, target.layout, None, Cost(1.0, 5), "budget spent")
    inference = Inference(refined, "refine", (Step("fit", Cost(2.0, 5), "done"),), None, (), believed=True)
    draws = np.stack([around([centre], 500, i) for i, centre in enumerate([SLOW, FAST, FAST, FAST])])
    run = SamplerRun(draws, target.layout, step_size=0.1)
    monkeypatch.setattr(_demo_kinetics, "infer", lambda *arguments, **settings: inference)
    monkeypatch.setattr(_demo_kinetics, "run_reference", lambda *arguments, **settings: Reference(run, Cost(3.0, 7)))
    return run


def test_the_table_and_the_figure(given, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(_demo_kinetics, "default_sampler", lambda: "nuts")
    _demo_kinetics.show_kinetics(0, tmp_path)
    text = capsys.readouterr().out
    rows = {line.split("  ")[0]: line.split("  ", 1)[1].split() for line in text.splitlines() if "  " in line}
    assert rows["exact, by quadrature"] == ["0.388"]
    assert abs(float(rows["sivi.infer"][0]) - 0.4) < 0.02  # 4,000 of 5,000 draws
    assert rows["NUTS, 4 chains of 500"] == ["0.250", f"{given.rhat.max():.2f}", "3.0"]
    assert "by chain of NUTS: 1.00, 0.00, 0.00, 0.00" in text
    # ln 2 / ke, and ke = CL / V is 5 / 8 and 5 / 33.
    assert "elimination is 1.1 h if absorption is slow, and 4.6 h if not" in text
    assert (tmp_path / _demo.FIGURE).stat().st_size > 10_000


def test_without_blackjax_the_chains_are_hmc(given, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "blackjax", None)
    monkeypatch.setattr("sivi.verdict.reference.find_spec", lambda name: None)
    _demo_kinetics.show_kinetics(0, None, quick=True)
    assert "HMC, 4 chains of 500" in capsys.readouterr().out


@pytest.mark.slow
def test_infer_weighs_the_modes_and_its_fit_alone_does_not(tmp_path, capsys):
    inference = sivi.infer(kinetics.log_density, like=kinetics.unknowns(), key=1, progress=False)
    assert inference.believed
    assert abs(kinetics.slow_share(inference.sample(4000, 0)) - exact().slow_share) < 0.03
    assert inference.posterior is not None
    assert "refine" in inference.path
    assert inference.posterior.check().level == "bad"


def test_help_tells_of_both_parts(capsys):
    with pytest.raises(SystemExit):
        main(["demo", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "logistic regression" in text
    assert "unequal probabilities" in text
