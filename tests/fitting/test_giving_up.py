"""A default run whose components do not meet is given up for one with a critic."""

import numpy as np
import pytest

import sivi
from sivi._fitting.driver import _given_up
from sivi._run import FitSettings
from sivi.objectives import Annealed, MixtureKL, PathKL
from sivi.stopping import Doubling
from sivi.targets import Banana

RULE = Doubling(first=10)


def given_up(weights, limit=0.25, rule=RULE, step=None):
    settings = FitSettings(sivi._arguments.as_key(0), None, 1000, stop_rule=rule, most_own_weight=limit)
    weights = np.asarray(weights)
    return _given_up(settings, step or weights.shape[-1], {"own_weight": [weights]})


def test_from_the_second_round_on():
    high = np.full(30, 0.4)
    assert given_up(high)
    assert not given_up(high[:29])
    assert not given_up(np.r_[high[:10], np.full(20, 0.1)])
    assert not given_up(high, limit=None)
    assert not given_up(high, rule=None)


def test_by_the_tail_of_a_round_and_the_mean_of_repeats():
    weights = np.r_[np.full(26, 0.9), np.full(4, 0.1)]
    assert not given_up(weights)
    assert given_up(np.stack([weights, np.full(30, 0.6)]))


def test_without_rounds_past_the_middle_of_a_long_run():
    settings = FitSettings(sivi._arguments.as_key(0), None, 4000, most_own_weight=0.25)
    weights = np.r_[np.full(2000, 0.1), np.full(400, 0.4)]
    assert _given_up(settings, 2400, {"own_weight": [weights]})
    assert not _given_up(settings, 2399, {"own_weight": [weights]})
    assert not _given_up(settings, 2400, {"own_weight": [weights[::-1]]})


def tiny(monkeypatch, limit):
    """Recipes with small networks and short rounds."""
    from sivi import defaults

    original = defaults._critic

    def small(dim, num_data):
        changes = {"hidden": (4,), "critic_hidden": (4,), "num_particles": 8, "warmup_starts": 2, "warmup_steps": 10}
        return defaults.replace(original(dim, num_data), **changes, num_steps=40)

    def recipe(dim, num_data=None):
        changes = {"mixture": True, "num_steps": 70, "first_round": 10, "round_share": 0.5, "bridge_share": 0.0}
        return defaults.replace(small(dim, num_data), **changes, annealed_share=0.5, most_own_weight=limit)

    monkeypatch.setattr(defaults, "_critic", small)
    monkeypatch.setattr("sivi._fitting.start.recipe_for", recipe)


@pytest.mark.parametrize(
    "cut", [pytest.param(None, marks=pytest.mark.slow), pytest.param(5, marks=pytest.mark.slow), 15]
)
def test_the_critic_takes_over_whatever_the_chunks_and_after_resuming(monkeypatch, cut):
    tiny(monkeypatch, limit=1e-6)
    settings = {"key": 3, "repeats": 2, "progress": False}
    if cut is None:
        posterior = sivi.fit(Banana(), **settings, chunk_size=7)
    else:
        part = sivi.fit(Banana(), **settings, chunk_size=1, callbacks=[lambda report: report.step == cut])
        assert isinstance(part.objective.objective, MixtureKL)
        posterior = sivi.fit(Banana(), resume=part, progress=False)
    assert isinstance(posterior.objective, Annealed)
    assert isinstance(getattr(posterior.objective.objective, "objective", posterior.objective.objective), PathKL)
    assert (posterior.num_steps, posterior.repeats) == (40, 2)
    assert "own_weight" not in posterior.history
    whole = sivi.fit(Banana(), **settings)
    np.testing.assert_array_equal(posterior.history["loss"], whole.history["loss"])
    np.testing.assert_array_equal(posterior.sample(20, key=1), whole.sample(20, key=1))


def test_a_run_without_a_rule_is_followed_by_one_without(monkeypatch):
    tiny(monkeypatch, limit=1e-6)
    monkeypatch.setattr("sivi._fitting.driver._LONG_RUN", 10)
    posterior = sivi.fit(Banana(), progress=False, num_steps=30, stop=None, chunk_size=4)
    assert (posterior.step, posterior.settings.stop_rule) == (30, None)
    assert "own_weight" not in posterior.history


def test_a_longer_run_of_few_unknowns_has_no_longer_critic(monkeypatch):
    tiny(monkeypatch, limit=1e-6)
    monkeypatch.setattr("sivi._fitting.driver._LONG_RUN", 10)
    posterior = sivi.fit(Banana(), progress=False, num_steps=60, stop=None, chunk_size=4)
    assert (posterior.step, posterior.num_steps, posterior.finished) == (40, 40, True)


def test_the_mixture_stays_where_its_components_meet(monkeypatch):
    tiny(monkeypatch, limit=1.0)
    posterior = sivi.fit(Banana(), progress=False)
    assert isinstance(posterior.objective.objective, MixtureKL)
    assert {"loss", "negative_elbo", "own_weight", "beta"} == set(posterior.history)
