"""The table of draws: ArviZ's numbers, and text that a person can read."""

import builtins

import arviz_stats
import jax.numpy as jnp
import numpy as np
import pytest

import unfitted
from oracles import linear_gaussian_family
from sivi._layout import Layout
from sivi.constraints import positive, simplex
from sivi.coordinates import DiagonalMap, IdentityMap
from sivi.interop.arviz import draws_to_arviz
from sivi.samplers import SamplerRun, Summary

LAYOUT = Layout.like({"shares": simplex(3), "tau": positive()})


def assert_equal_to_arviz(summary, tree):
    theirs, ours = arviz_stats.summary(tree, round_to="none"), summary.to_pandas()
    shared = [name for name in ours if name in theirs]
    assert shared == list(ours)
    # ArviZ writes `w[0, 1]`, and has the variables in alphabetical order.
    theirs.index = [name.replace(", ", ",") for name in theirs.index]
    for name in shared:
        np.testing.assert_allclose(
            ours[name], theirs.loc[ours.index, name].astype(float), rtol=2e-4, atol=1e-6, err_msg=name
        )


@pytest.mark.parametrize("shifts", [(0.0,), (0.0, 0.3, 2.0)])
def test_of_a_fit_has_the_numbers_of_arviz(shifts):
    family = linear_gaussian_family()
    maps = [DiagonalMap(jnp.full(3, shift), jnp.ones(3)) for shift in shifts]
    posterior = unfitted.posterior_of(family, maps, LAYOUT)
    summary = posterior.summary(500, key=2)
    assert list(summary.columns) == ["mean", "sd", "eti89_lb", "eti89_ub"] + ["r_hat"] * (len(shifts) > 1)
    assert summary.names == ("shares[0]", "shares[1]", "shares[2]", "tau")
    assert_equal_to_arviz(summary, posterior.to_arviz(500, key=2))
    if len(shifts) > 1:
        assert summary.columns["r_hat"].max() > 1.02


def test_of_markov_chains_has_the_numbers_of_arviz():
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(4, 400, 3))
    for t in range(1, 400):
        draws[:, t] = 0.7 * draws[:, t - 1] + np.sqrt(1 - 0.49) * draws[:, t]
    run = SamplerRun(draws.astype(np.float32), LAYOUT, step_size=0.1)
    assert list(run.summary().columns)[-3:] == ["ess_bulk", "r_hat", "mcse_mean"]
    assert_equal_to_arviz(run.summary(), draws_to_arviz(run.draws, LAYOUT))


def test_of_normal_draws():
    draws = np.random.default_rng(1).normal([1.0, -2.0], [1.0, 3.0], size=(1, 200_000, 2))
    columns = Summary.of(draws, Layout.vector(2), prob=0.9, independent=True).columns
    np.testing.assert_allclose(columns["mean"], [1.0, -2.0], atol=0.03)
    np.testing.assert_allclose(columns["eti90_lb"], [1.0 - 1.645, -2.0 - 3 * 1.645], atol=0.05)
    np.testing.assert_allclose(columns["eti90_ub"], [1.0 + 1.645, -2.0 + 3 * 1.645], atol=0.05)


def test_text_of_many_unknowns():
    draws = np.random.default_rng(2).normal(size=(2, 50, 100))
    summary = Summary.of(draws, Layout.vector(100), independent=True)
    lines = str(summary).splitlines()
    assert len(lines) == 3 + 40 + 1
    assert lines[0].startswith("2 x 50 independent draws; interval: 89 %, equal tails; error of a mean: sd / 10")
    assert lines[3].startswith("x[0] ")
    assert lines[23].startswith("… 60 more …")
    assert lines[24].startswith("x[80] ")
    assert len({len(line) for line in lines[3:23]}) == 1
    assert len(summary.to_pandas()) == 100


def test_html_has_escaped_names():
    layout = Layout.like({"<b>": 0.0})
    html = Summary.of(np.random.default_rng(3).normal(size=(1, 9, 1)), layout)._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<b>" not in html


@pytest.mark.parametrize("prob", [0.0, 1.0, -0.5])
def test_a_mass_that_is_none(prob):
    posterior = unfitted.posterior_of(linear_gaussian_family(), [IdentityMap(3)])
    with pytest.raises(ValueError, match=f"^prob must be between 0 and 1; got {prob}"):
        posterior.summary(prob=prob)


def test_without_pandas(monkeypatch):
    summary, real = Summary.of(np.zeros((1, 9, 1)), Layout.vector(1)), builtins.__import__

    def without(name, *args, **kwargs):
        if name == "pandas":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"^Summary\.to_pandas needs pandas: pip install pandas$"):
        summary.to_pandas()
