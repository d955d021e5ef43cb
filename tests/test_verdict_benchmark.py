"""Planted faults are what they say, true effects are those of closed forms, and the targets belong to their draws."""

import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
from battery.posteriors import POSTERIORS
from verdict import cli, report, table
from verdict.child import planted_rows
from verdict.effects import minibatch_effects, mode_effects, true_effects
from verdict.faults import FAULTS, moments_of, nearest_mode, wrong_weights
from verdict.known import Unscaled
from verdict.runner import planted_jobs
from verdict.sets import SETS

NEW = {name: known for known_set in SETS.values() for name, known in known_set.items()}
NUM = 20_000


def test_there_are_enough_targets_and_faults():
    assert len(SETS["first"]) >= 15
    assert len(SETS["second"]) >= 10
    assert not set(SETS["first"]) & set(SETS["second"])
    assert len(FAULTS) == 11
    for fault in FAULTS.values():
        assert any(fault.applies(known) for known in SETS["first"].values())
        assert any(fault.applies(known) for known in SETS["second"].values())


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(NEW) - set(POSTERIORS)))  # those have a test of their own
def test_draws_are_those_of_the_density(name, x64):
    """E[S] = 0 and E[x S] = −1, for the score S of an unknown x: scaled errors, falsely beyond 5.5 in 1 of 10⁵ runs."""
    known = NEW[name]
    target = type(known)(known.name, known.about, known.problem, known.exact).target  # made for float64
    x = known.exact(np.random.default_rng(3), 4000)
    score = np.asarray(jax.vmap(jax.grad(target.log_prob))(x))
    for values in (score * x.std(0), (x - x.mean(0)) * score + 1.0):
        assert np.abs(values.mean(0) / values.std(0) * np.sqrt(len(x))).max() < 5.5


def wrong_draws(name, fault, variant=0):
    known = NEW[name]
    moments = moments_of(known)
    return known, moments, FAULTS[fault].draws(known, moments, np.random.default_rng(7), NUM, variant)


def test_scales_and_shifts_are_of_the_unknowns_they_name():
    _, moments, x = wrong_draws("gaussian-2", "narrow-one", 1)
    assert np.allclose(x.std(0) / moments.sd, [1.0, 0.7], atol=0.03)
    _, moments, x = wrong_draws("gaussian-2", "shifted-one", 1)
    assert np.allclose((x.mean(0) - moments.mean) / moments.sd, [0.0, 0.3], atol=0.04)
    _, moments, x = wrong_draws("gaussian-2", "wide")
    assert np.allclose(x.std(0) / moments.sd, 1.3, atol=0.04)


def test_what_is_left_of_shape():
    _, moments, x = wrong_draws("banana", "product")
    assert abs(np.corrcoef(x.T)[0, 1]) < 0.04
    assert np.allclose(x.std(0), moments.sd, rtol=0.04)
    _, moments, x = wrong_draws("banana", "gaussian")
    assert np.allclose(np.cov(x.T), moments.covariance, atol=0.2)
    skewness = (((x - x.mean(0)) / x.std(0)) ** 3).mean(0)
    assert np.abs(skewness).max() < 0.1
    _, _, x = wrong_draws("funnel-2", "neck")
    assert x[:, 0].min() > -1.5 * 1.1  # the 15 % quantile of N(0, 1.5²) is −1.55


def test_modes_are_lost_and_reweighted():
    known, _, x = wrong_draws("two-modes-10", "lost-mode")
    assert np.bincount(nearest_mode(known, x), minlength=2)[1] <= 2
    assert mode_effects(known, x)["lost mass"] == pytest.approx(20.0)
    known, _, x = wrong_draws("eight-even", "weights", 3)
    shares = np.bincount(nearest_mode(known, x), minlength=8) / NUM
    assert shares[3] == pytest.approx(0.325, abs=0.02)
    assert np.allclose(np.delete(shares, 3), 0.675 / 7, atol=0.01)
    assert wrong_weights(np.array([0.8, 0.2]), 0) == pytest.approx([0.6, 0.4])


def test_true_effects_of_a_gaussian():
    """log 0.7 is 3.57 limits of the spread, 0.3 sd are 3 of the mean, and right draws are within all."""
    rng = np.random.default_rng(5)
    p, q = rng.normal(size=(2, 60_000, 2))

    def found(draws):
        return true_effects(p, draws, -0.5 * (p**2).sum(1), -0.5 * (draws**2).sum(1))

    assert max(found(q).values()) < 0.2
    assert found(0.7 * q)["spread"] == pytest.approx(-np.log(0.7) / 0.1, abs=0.15)
    assert found(q + np.array([0.3, 0.0]))["mean"] == pytest.approx(3.0, abs=0.2)
    mixed = np.stack([q[:, 0], 0.6 * q[:, 0] + 0.8 * q[:, 1]], 1)
    assert found(mixed)["correlation"] == pytest.approx(6.0, abs=0.2)
    assert minibatch_effects(240, 30)["minibatch scale"] == pytest.approx(17.5)


def test_a_forgotten_scale_is_of_minibatches_alone():
    model = NEW["coins-5"].target
    x, rows = jnp.full(5, 0.3), jnp.arange(12)
    unscaled = Unscaled(model)
    assert float(unscaled.log_prob(x)) == pytest.approx(float(model.log_prob(x)))
    scaled, prior = float(model.log_prob(x, rows)), float(model.log_prior(x))
    assert float(unscaled.log_prob(x, rows)) == pytest.approx(prior + (scaled - prior) * 12 / 60, rel=1e-4)


def test_jobs_have_every_case_once():
    jobs = planted_jobs("first", {"a": 2, "b": 9}, {"a": ["wide"], "b": ["wide", "neck"]}, [0, 1, 2], 4, 3)
    assert jobs[0]["target"] == "b"
    assert max(len(job["cases"]) for job in jobs) <= 3
    cases = [(job["target"], *case) for job in jobs for case in job["cases"]]
    assert len(cases) == len(set(cases)) == 3 + 4 + 6 + 4
    assert cli.without(jobs, [{"target": t, "fault": f, "seed": s} for t, f, s in cases]) == []


@pytest.mark.slow
def test_a_fault_is_found_and_reported(tmp_path):
    rows = list(planted_rows(NEW["gaussian-2"], [("gaussian", 0), ("wide", 0)]))
    assert rows[0]["skipped"]  # a Gaussian is as good as a Gaussian
    assert rows[1]["flagged"]
    assert rows[1]["severity"] > 2.0
    machine = {"kind": "CPU", "cores": 2, "processes_at_once": 1, "cores_each": 2}
    content = {"mode": "planted", "set": "first", "seeds": [0], "machine": machine, "versions": {}, "rows": rows}
    (tmp_path / "rows.json").write_text(json.dumps(content))
    report.write_page([tmp_path / "rows.json"], tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    assert "flagged: 1 of 1" in text
    assert "| gaussian-2 | 2 | 1 of 1 |" in text
    assert table.interval(0, 300)[1] == pytest.approx(0.0122, abs=2e-4)
