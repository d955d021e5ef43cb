"""What is shown of a run, with a clock of the tests' own and a terminal in memory."""

import functools
import io
import itertools
import logging
import threading

import numpy as np
import pytest

from sivi._progress import ProgressBar, displays
from sivi._progress.ticker import Ticker


class Terminal(io.StringIO):
    def isatty(self):
        return True

    def screens(self):
        return [line.strip() for line in self.getvalue().split("\r") if line.strip()]


def fake_terminal(monkeypatch):
    """What would be seen where the standard error is a terminal, which pytest's is not."""
    terminal = Terminal()
    monkeypatch.setattr(displays, "_Bar", functools.partial(displays._Bar, file=terminal))
    return terminal


@pytest.fixture
def terminal(monkeypatch):
    return fake_terminal(monkeypatch)


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass by hand: `clock[0] += 1`."""
    now = [0.0]
    monkeypatch.setattr(ProgressBar, "clock", staticmethod(lambda: now[0]))
    return now


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, "sivi")
    return caplog


def of_progress():
    return [thread.name for thread in threading.enumerate() if thread.name == "sivi-progress"]


def test_shows_the_mean_of_each_metric_and_follows_a_run_that_ends_early(terminal):
    with ProgressBar(100, 0, True) as bar:
        bar.phase("compiling")
        bar.update(40, {"loss": np.array([1.0, 3.0]), "beta": np.array([])}, 60)
        bar.update(20, {"loss": np.array([0.5])})
    assert any("40/60" in screen and "loss=2" in screen for screen in terminal.screens())
    last = terminal.screens()[-1]
    assert "60/60" in last
    assert "loss=0.5" in last
    assert "beta" not in last


def test_the_bar_names_phases_and_then_steps(terminal):
    with ProgressBar(None, 0, True) as bar:
        bar.phase("compiling")
        bar.phase("finding the scale")
        bar.begin(10, 0)
        for first, last in bar.stretches(0, 10):
            bar.update(last - first, {})
    heads = [screen.partition(":")[0] for screen in terminal.screens()]
    order = [head for head, _ in itertools.groupby(heads)]
    assert order[-4:] == ["sivi.fit (compiling)", "sivi.fit (finding the scale)", "sivi.fit (compiling)", "sivi.fit"]
    assert "10/10" in terminal.screens()[-1]


def test_a_bar_of_a_run_that_is_continued_begins_there(terminal):
    with ProgressBar(None, 0, True) as bar:
        bar.phase("compiling")
        bar.begin(10, 4)
        bar.update(1, {})
        bar.update(5, {})
        bar.begin(20, 0)  # another run
        bar.update(7, {})
    assert any("5/10" in screen for screen in terminal.screens())
    assert "7/20" in terminal.screens()[-1]


@pytest.mark.parametrize("enabled", [True, False])
def test_is_silent_without_a_terminal(capsys, enabled):
    with ProgressBar(10, 0, enabled) as bar:
        assert list(bar.stretches(0, 10)) == [(0, 10)]
        bar.update(10, {"loss": np.array([1.0])})
        assert of_progress() == []
    assert capsys.readouterr() == ("", "")


def test_is_silent_if_it_is_not_wanted(terminal, log):
    with ProgressBar(10, 0, False) as bar:
        bar.phase("compiling")
        assert list(bar.stretches(0, 10)) == [(0, 10)]
        bar.update(10, {})
    assert terminal.getvalue() == ""
    assert log.records == []


def test_what_is_refused_before_the_first_phase_shows_nothing(terminal, log):
    with pytest.raises(ValueError, match="bad"), ProgressBar(10, 0, True):
        raise ValueError("bad")
    assert terminal.getvalue() == ""
    assert log.records == []


def test_stretches_take_as_long_as_the_display_may_stand_still(terminal, clock):
    lengths = []
    with ProgressBar(None, 0, True) as bar:
        bar.begin(1000, 0)
        for chunk in ((0, 600), (600, 1000)):
            for first, last in bar.stretches(*chunk):
                lengths.append(last - first)
                clock[0] += 5.0 if first == 0 else (last - first) / 256  # the first one compiles
    assert lengths == [1, 1, 8, 64, 128, 128, 128, 128, 14, 128, 128, 128, 16]


def test_one_slow_step_is_not_followed_by_many(terminal, clock):
    with ProgressBar(10, 0, True) as bar:
        for first, last in bar.stretches(0, 10):
            assert last - first == 1
            clock[0] += 3.0


def test_lines_of_the_log_come_more_and_more_rarely(log, clock):
    losses = itertools.count()
    with ProgressBar(None, 0, True, unit="update") as bar:
        bar.phase("compiling")
        clock[0] = 4.0
        bar.phase("finding the scale")
        clock[0] = 5.0
        bar.phase("compiling")
        bar.begin(900, 0)
        for _ in range(900):
            clock[0] += 1.0
            bar.update(1, {"loss": np.array([next(losses)])})
    lines = [record.getMessage() for record in log.records]
    assert lines[:6] == [
        "sivi.fit: compiling",
        "sivi.fit: finding the scale",
        "sivi.fit: compiling",
        "sivi.fit: update 1 of 900, loss 0",
        "sivi.fit: update 11 of 900, loss 10",
        "sivi.fit: update 21 of 900, loss 20",
    ]
    gaps = np.diff([int(line.split()[2]) for line in lines[3:-1]])
    assert gaps[0] == 10
    assert (np.diff(gaps) >= 0).all()
    assert gaps[-1] == 60
    assert lines[-1] == "sivi.fit: 900 of 900 updates in 905.0 s, the first after 6.0 s, loss 899"
    assert {record.levelno for record in log.records} == {logging.INFO}
    assert {record.name for record in log.records} == {"sivi"}


def test_a_long_phase_is_told_again(log, clock):
    display = displays.LogDisplay("sivi.fit", "update", lambda: clock[0])
    display.phase("compiling")
    for _ in range(25):
        clock[0] += 1.0
        display.tick()
    assert [record.getMessage() for record in log.records] == [
        "sivi.fit: compiling",
        "sivi.fit: compiling, 10 s so far",
        "sivi.fit: compiling, 20 s so far",
    ]


def test_the_last_line_names_the_error_that_ended_the_run(log, clock):
    def run():
        with ProgressBar(10, 0, True, "sivi.samplers.hmc") as bar:
            bar.phase("compiling")
            bar.update(4, {})
            raise FloatingPointError

    with pytest.raises(FloatingPointError):
        run()
    assert log.records[-1].getMessage() == (
        "sivi.samplers.hmc: 4 of 10 steps in 0.0 s, the first after 0.0 s, ended by FloatingPointError"
    )


def test_the_terminal_is_refreshed_while_nothing_comes_back(terminal):
    with ProgressBar(10, 0, True) as bar:
        bar.phase("compiling")
        before = len(terminal.screens())
        bar._display.tick()
        assert len(terminal.screens()) > before
        assert of_progress() == ["sivi-progress"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_no_thread_is_left_behind(terminal, error):
    def run():
        with ProgressBar(10, 0, True) as bar:
            bar.phase("compiling")
            assert of_progress() == ["sivi-progress"]
            raise error

    with pytest.raises(error):
        run()
    assert of_progress() == []


def test_a_tick_that_fails_ends_the_thread_in_silence(capsys):
    ticked = threading.Event()

    def fail():
        ticked.set()
        raise BrokenPipeError

    ticker = Ticker(fail, 0.0)
    assert ticked.wait(60.0)
    ticker.stop()
    assert of_progress() == []
    assert capsys.readouterr() == ("", "")
