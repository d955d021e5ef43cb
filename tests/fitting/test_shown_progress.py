"""A fit whose progress is shown runs in short stretches, and is the same fit bit for bit."""

import functools
import itertools
import logging
import threading
from dataclasses import replace

import jax
import numpy as np
import pytest

import sivi
from contracts.plugins import small_family
from sivi import defaults
from sivi._fitting import driver, start
from sivi._progress import ProgressBar
from sivi.critics import MLPCritic
from sivi.objectives import ScoreMatching
from sivi.samplers import sgld
from sivi.stopping import Doubling
from sivi.targets import Banana
from test_progress import fake_terminal


@pytest.fixture
def shown(monkeypatch):
    """A terminal, and a clock by which every stretch takes a quarter of the time that it may."""
    ticks = itertools.count()
    monkeypatch.setattr(ProgressBar, "clock", staticmethod(lambda: 0.125 * next(ticks)))
    return fake_terminal(monkeypatch)


@pytest.fixture
def stretches(monkeypatch):
    """The updates of every call of the program."""
    calls, run = [], driver.run_chunk

    def spy(state, first, last, *rest):
        calls.append((int(first), int(last)))
        return run(state, first, last, *rest)

    monkeypatch.setattr(driver, "run_chunk", spy)
    return calls


def quick(**arguments):
    objective = ScoreMatching(num_particles=16, critic=MLPCritic((8,)))
    settings = {"family": small_family(), "objective": objective, "num_steps": 60, "chunk_size": 25, "whiten": None}
    return sivi.fit(Banana(), **settings | arguments)


def assert_same(one, other):
    assert one.history.keys() == other.history.keys()
    for name, values in one.history.items():
        np.testing.assert_array_equal(values, other.history[name])
    assert one.step == other.step
    for left, right in zip(jax.tree.leaves(one.run.state), jax.tree.leaves(other.run.state), strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"repeats": 2},
        {"stop": Doubling(first=5, share=1e-6), "num_steps": 70},
        {"stop": Doubling(first=5, share=1e6), "num_steps": 200},  # ends early, within a stretch
    ],
    ids=["one", "repeats", "rounds", "ends early"],
)
def test_the_bits_and_what_callbacks_see_are_those_of_a_hidden_fit(shown, stretches, settings):
    seen, posteriors = [], []
    for progress in (False, True):
        reports = []
        posteriors.append(quick(progress=progress, callbacks=[reports.append], **settings))
        seen.append(reports)
        assert (shown.getvalue() != "") == progress
    assert_same(*posteriors)
    hidden, visible = seen
    assert [report.step for report in hidden] == [report.step for report in visible]
    for one, other in zip(hidden, visible, strict=True):
        assert one.metrics.keys() == other.metrics.keys()
        for name, values in one.metrics.items():
            np.testing.assert_array_equal(values, other.metrics[name])
    assert len(stretches) > 2 * len(hidden)


def test_stretches_grow_and_end_where_chunks_do(shown, stretches):
    quick(num_steps=60)
    assert stretches == [(0, 1), (1, 2), (2, 6), (6, 22), (22, 25), (25, 50), (50, 60)]


def test_a_checkpoint_is_written_at_the_end_of_chunks_and_continues_to_the_same_bits(shown, tmp_path):
    path = tmp_path / "fit.sivi"
    steps = []

    def stop(report):
        steps.append((report.step, sivi.load(path).step))
        return report.step == 50

    quick(checkpoint=path, callbacks=[stop])
    assert steps == [(25, 25), (50, 50)]
    assert_same(quick(resume=path), quick(progress=False))


def test_ctrl_c_in_the_middle_of_a_chunk_returns_the_last_stretch(shown, stretches, monkeypatch):
    run = driver.run_chunk

    def interrupted(state, first, *rest):
        if int(first) == 6:
            raise KeyboardInterrupt
        return run(state, first, *rest)

    monkeypatch.setattr(driver, "run_chunk", interrupted)
    with pytest.warns(UserWarning, match="that of update 6 of 60"):
        part = quick()
    assert part.step == 6
    assert all(len(values) == 6 for values in part.history.values())
    assert "sivi-progress" not in {thread.name for thread in threading.enumerate()}
    monkeypatch.setattr(driver, "run_chunk", run)
    assert_same(quick(resume=part), quick(progress=False))


def test_a_fit_that_diverges_does_so_at_the_same_update(shown):
    from sivi.optimizers import Adam

    messages = []
    for progress in (False, True):
        objective = ScoreMatching(num_particles=16, critic=MLPCritic((8,)), optimizer=Adam(1e30))
        with pytest.raises(sivi.FitDiverged) as caught:
            quick(objective=objective, num_steps=400, chunk_size=90, progress=progress)
        messages.append((str(caught.value), caught.value.posterior.step))
    assert messages[0] == messages[1]


def test_the_phases_of_a_fit_in_their_order(caplog, monkeypatch):
    short = functools.partial(replace, warmup_starts=2, warmup_steps=10)
    monkeypatch.setattr(start, "recipe_for", lambda *sizes: short(defaults.recipe(*sizes)))
    monkeypatch.setattr(ProgressBar, "clock", staticmethod(lambda: 0.0))
    caplog.set_level(logging.INFO, "sivi")
    hidden = quick(whiten="auto", num_steps=4, progress=False)
    assert caplog.records == []
    posterior = quick(whiten="auto", num_steps=4)
    lines = [record.getMessage() for record in caplog.records]
    assert lines[:3] == ["sivi.fit: compiling", "sivi.fit: finding the scale", "sivi.fit: compiling"]
    assert lines[3].startswith("sivi.fit: update 1 of 4, loss ")
    assert lines[4].startswith("sivi.fit: 4 of 4 updates in 0.0 s, the first after 0.0 s, loss ")
    assert len(lines) == 5
    assert_same(posterior, hidden)


def test_samplers_show_steps_in_stretches_and_draw_the_same(shown):
    arguments = {"num_particles": 4, "num_steps": 70, "step_size": 0.1, "num_samples": 40, "key": 1, "chunk_size": 50}
    visible = sgld(Banana(), **arguments)
    screens = shown.screens()
    assert any(screen.startswith("sivi.samplers.sgld (compiling)") for screen in screens)
    assert any("1/70" in screen for screen in screens)
    assert "70/70" in screens[-1]
    np.testing.assert_array_equal(visible.draws, sgld(Banana(), progress=False, **arguments).draws)
