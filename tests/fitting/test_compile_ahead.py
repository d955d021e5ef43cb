"""Compiling ahead in a thread: the same fit, and nothing left to compile for the updates."""

import contextlib
import threading

import jax
import numpy as np
import pytest

import sivi
from sivi._fitting import compile_ahead, start
from sivi.targets import Banana

COMPILED = "/jax/core/compile/backend_compile_duration"


@pytest.mark.slow
def test_the_same_fit(monkeypatch):
    settings = {"key": 0, "num_steps": 5, "progress": False}
    ahead = sivi.fit(Banana(), **settings)
    monkeypatch.setattr(start, "compiling_in_background", lambda compile_next: contextlib.nullcontext())
    jax.clear_caches()
    plain = sivi.fit(Banana(), **settings)
    np.testing.assert_array_equal(plain.history["loss"], ahead.history["loss"])
    np.testing.assert_array_equal(plain.sample(10, key=1), ahead.sample(10, key=1))


@pytest.mark.parametrize("x64", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_updates_are_compiled_in_the_thread(x64):
    """In the types of the thread that asks for it, which a context may have changed."""
    compiled = []

    def note(name, seconds, **details):
        if name == COMPILED:
            compiled.append((threading.current_thread().name, details.get("fun_name", "")))

    jax.clear_caches()
    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        with jax.enable_x64(x64):
            sivi.fit(Banana(), key=0, num_steps=4, chunk_size=7, progress=False)
    finally:
        jax.monitoring.clear_event_listeners()
    updates = [thread for thread, function in compiled if "run_chunk" in function]
    assert updates == ["sivi-compile-ahead"]


def test_what_fails_in_the_thread_is_silent():
    def fail():
        raise ValueError("nobody hears this")

    with compile_ahead.compiling_in_background(fail):
        done = True
    assert done


def test_what_fails_beside_it_waits_for_the_thread():
    done = threading.Event()
    with pytest.raises(RuntimeError, match="the body"), compile_ahead.compiling_in_background(done.set):
        raise RuntimeError("the body")
    assert done.is_set()
    assert "sivi-compile-ahead" not in {thread.name for thread in threading.enumerate()}


def test_zeros_in_the_shape_of_what_a_function_returns():
    made = compile_ahead.zeros_like_output(
        lambda n: {"a": jax.numpy.ones(n), "key": jax.random.key(3), "text": "as it is"}, 4
    )
    assert made["a"].tolist() == [0.0] * 4
    assert made["text"] == "as it is"
    assert made["key"].dtype == jax.random.key(0).dtype
