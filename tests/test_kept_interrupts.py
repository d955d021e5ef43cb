"""Ctrl-C arrives also where Python would drop it: in callbacks of the garbage collector, in `__del__`."""

import gc
import signal
import sys
import threading
import time
import warnings

import jax.numpy as jnp
import pytest

import sivi
from sivi._interrupts import interrupts_kept


@pytest.fixture(autouse=True)
def default_handler():
    """A background job starts with the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Interrupting:
    """Is interrupted while it is deleted."""

    def __del__(self):
        signal.raise_signal(signal.SIGINT)


def interrupt_in_collection():
    def callback(phase, info):
        gc.callbacks.remove(callback)
        signal.raise_signal(signal.SIGINT)

    gc.callbacks.append(callback)
    gc.collect()


def wait():
    end = time.monotonic() + 10.0
    while time.monotonic() < end:
        time.sleep(0.01)


@pytest.mark.parametrize("interrupt", [interrupt_in_collection, Interrupting])
def test_a_dropped_interrupt_comes_again(interrupt, capfd):
    before = sys.unraisablehook
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt), interrupts_kept(), interrupts_kept():  # noqa: PT012
        interrupt()  # which returns
        wait()
    assert time.monotonic() - begin < 5.0
    assert sys.unraisablehook is before
    assert capfd.readouterr().err == ""


def test_other_errors_that_nobody_can_catch_go_where_they_went(monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: seen.append(lost.exc_type))

    class Failing:
        def __del__(self):
            raise ZeroDivisionError

    with interrupts_kept():
        Failing()
    assert seen == [ZeroDivisionError]


def test_a_hook_that_was_set_meanwhile_stays(monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    with interrupts_kept():
        sys.unraisablehook = mine = lambda lost: None
    assert sys.unraisablehook is mine


def test_other_threads_change_nothing():
    before, seen = sys.unraisablehook, []

    def look():
        with interrupts_kept():
            seen.append(sys.unraisablehook)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [before]


def quick(**settings):
    objective = sivi.objectives.ScoreMatching(num_particles=8, critic=sivi.critics.MLPCritic((4,)))
    settings = {"objective": objective, "whiten": None, "progress": False, "num_steps": 100_000, **settings}
    return sivi.fit(lambda x: -jnp.sum(x**2), dim=2, chunk_size=10, **settings)


@pytest.mark.parametrize("interrupt", [interrupt_in_collection, Interrupting])
def test_a_fit_returns_what_was_fitted(interrupt):
    def callback(report):
        if report.step == 20:
            interrupt()

    with pytest.warns(UserWarning, match="fit was interrupted"):
        posterior = quick(callbacks=[callback])
    assert 20 <= posterior.step < 100_000
    assert posterior.history["loss"].shape == (posterior.step,)


def test_at_its_end_a_fit_is_whole(monkeypatch):
    def interrupted(posterior):
        raise KeyboardInterrupt

    monkeypatch.setattr(sivi._fitting.ending, "remarks_of", interrupted)
    with pytest.warns(UserWarning, match="interrupted at its end: the posterior is whole"):
        assert quick(num_steps=20).finished


def test_no_warning_without_an_interrupt():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert quick(num_steps=20).finished
