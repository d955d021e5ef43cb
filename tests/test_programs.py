"""The library's own store of compiled programs: what it finds, what it drops, and what it leaves alone."""

import gc
import threading
import weakref

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sivi import _compiler, _programs
from sivi._programs import ProgramCache, compiled


@pytest.fixture
def cache(monkeypatch):
    """An empty store of four programs, in place of the library's."""
    cache = ProgramCache(max_programs=4)
    monkeypatch.setattr(_programs, "PROGRAMS", cache)
    return cache


def counted():
    """A function under `compiled`, and the list of what it was traced with."""
    traces = []

    @compiled
    def scaled(x, by, how="times"):
        traces.append((by, how))
        return {"value": x * by, "how": how}

    return scaled, traces


def test_arrays_are_inputs_and_the_rest_is_part_of_the_program(cache):
    scaled, traces = counted()
    for value in (1.0, 2.0):
        out = scaled(jnp.full(3, value), 3)
        np.testing.assert_array_equal(out["value"], np.full(3, 3 * value))
        assert out["how"] == "times"
    assert traces == [(3, "times")]
    scaled(jnp.ones(3), 3, how="other")
    scaled(jnp.ones(4), 3)
    assert len(traces) == 3
    assert len(cache) == 3


def test_equal_numbers_of_other_types_are_other_programs(cache):
    scaled, traces = counted()
    types = [scaled(jnp.ones(2, int), by)["value"].dtype for by in (1, True, 1.0)]
    assert types[0] == types[1] != types[2]
    assert len(traces) == 3
    divided = compiled(lambda x, zero: x / zero)
    assert [float(divided(jnp.ones(()), zero)) for zero in (0.0, -0.0)] == [np.inf, -np.inf]


def test_weak_types_and_float_types_are_seen(cache):
    scaled, _ = counted()
    assert scaled(jnp.ones(2, jnp.float16), jnp.asarray(2.0))["value"].dtype == jnp.float16  # a weak type gives way
    assert scaled(jnp.ones(2, jnp.float16), jnp.float32(2.0))["value"].dtype == jnp.float32
    with jax.enable_x64(True):
        assert scaled(jnp.ones(2), 2.0)["value"].dtype == jnp.float64
    assert scaled(jnp.ones(2), 2.0)["value"].dtype == jnp.float32


def test_precision_of_products_is_seen(cache):
    traces = []

    @compiled
    def product(a):
        traces.append(jax.make_jaxpr(lambda a: a @ a)(a))
        return a @ a

    for name in ("default", "highest", "default"):
        with jax.default_matmul_precision(name):
            product(jnp.ones((2, 2)))
    assert ["HIGHEST" in str(jaxpr) for jaxpr in traces] == [False, True]


def test_the_one_used_longest_ago_is_dropped(cache):
    scaled, traces = counted()
    for by in (1, 2, 3, 4, 1, 5, 1, 2):
        scaled(jnp.ones(2), by)
        assert len(cache) <= 4
    assert [by for by, _ in traces] == [1, 2, 3, 4, 5, 2]


@pytest.mark.slow
def test_what_a_dropped_program_was_made_of_is_freed(cache):
    class Held(eqx.Module):
        name: str

        def __call__(self, x):
            return jnp.sin(x)

    class Named:
        """Hashable, and can be referred to weakly."""

    apply = compiled(lambda held, label, x: held(x))
    label = Named()
    reference = weakref.ref(label)
    apply(Held("one"), label, jnp.ones(2))
    del label
    gc.collect()
    assert reference() is not None
    for by in range(4):
        apply(Held(str(by)), None, jnp.ones(2))
    gc.collect()
    assert reference() is None


@pytest.mark.slow
@pytest.mark.skipif(not _programs._MAPS.exists(), reason="the system does not list its memory maps")
def test_memory_maps_of_dropped_programs_are_given_back(cache):
    @compiled
    def long(x, times):
        for i in range(8):
            x = jax.lax.fori_loop(0, 3, lambda _, y, i=i: jnp.tanh(y * times + jnp.sort(y) + i), x)
        return x

    def maps():
        gc.collect()
        return _programs._MAPS.read_bytes().count(b"\n")

    counts = []
    for times in range(12):
        long(jnp.ones(6), times)
        counts.append(maps())
    assert counts[3] > counts[0]  # a program holds some
    assert max(counts[4:]) <= counts[3] + 5
    cache.clear()
    assert maps() < counts[3]


@pytest.mark.slow
def test_many_memory_maps_drop_the_older_half(cache, monkeypatch):
    scaled, traces = counted()
    for by in (1, 2, 3):
        scaled(jnp.ones(2), by)
    shares = iter([0.9, 0.9, 0.1])
    monkeypatch.setattr(_programs, "_share_of_maps", lambda: next(shares, 0.1))
    scaled(jnp.ones(2), 4)
    assert len(cache) == 2
    scaled(jnp.ones(2), 3)
    assert len(traces) == 4


def test_where_maps_are_not_listed_only_the_number_counts(cache, monkeypatch, tmp_path):
    assert 0.0 <= _programs._share_of_maps() < 1.0
    monkeypatch.setattr(_programs, "_MAPS", tmp_path / "none")
    assert _programs._share_of_maps() == 0.0


def test_programs_of_the_user_stay(cache):
    traces = []

    @jax.jit
    def own(x):
        traces.append(1)
        return x + 1.0

    own(jnp.ones(2))
    apply = compiled(lambda f, x: f(x))
    for i in range(8):
        apply(eqx.Partial(lambda i, x: own(x) + i, i), jnp.ones(2))
    traces.clear()
    own(jnp.ones(2))
    assert traces == []


def test_inside_another_trace_the_function_is_called_as_it_is(cache):
    scaled, _ = counted()
    values = jax.jit(jax.vmap(lambda x: scaled(x, 2)["value"]))(jnp.arange(3.0))
    np.testing.assert_array_equal(values, [0.0, 2.0, 4.0])
    gradient = jax.grad(lambda x: scaled(x, 2)["value"])(1.0)
    assert float(gradient) == 2.0
    assert len(cache) == 0


def test_without_jit_it_runs_in_python(cache):
    seen = []
    look = compiled(lambda x: seen.append(float(x)) or x)
    with jax.disable_jit():
        look(jnp.float32(3.0))
    assert seen == [3.0]


def test_options_reach_the_compiler(cache):
    with pytest.raises(Exception, match="no_such_option"):
        compiled(lambda x: x + 1, lambda: {"xla_no_such_option": "1"})(jnp.ones(2))
    plus_one = compiled(lambda x: x + 1, lambda: {"xla_cpu_enable_fast_math": "False"})
    np.testing.assert_array_equal(plus_one(jnp.ones(2)), 2.0)


@pytest.mark.parametrize(("backend", "searched"), [("gpu", [False, True]), ("cpu", [False, False])])
def test_on_a_gpu_a_long_run_searches_for_kernels(monkeypatch, backend, searched):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    assert [_compiler.searches_kernels(num_steps) for num_steps in (39_999, 40_000)] == searched


def test_an_error_of_equinox_says_its_sentence_and_no_more(cache, capfd):
    checked = compiled(lambda x: eqx.error_if(x, x > 1.0, "x is too large"))
    assert float(checked(jnp.float32(0.5))) == 0.5
    with pytest.raises(eqx.EquinoxRuntimeError, match=r"^x is too large$"):
        checked(jnp.float32(2.0))
    assert capfd.readouterr().err == ""

    def fail(x):
        raise ZeroDivisionError("by nought")

    failing = compiled(lambda x: jax.pure_callback(fail, x, x))
    with pytest.raises((jax.errors.JaxRuntimeError, ValueError), match="by nought"):
        failing(jnp.float32(2.0))


def test_threads_share_programs(cache):
    scaled, _ = counted()
    scaled(jnp.ones(2), 0)
    wrong = []

    def work(first):
        for i in range(40):
            by = (first + i) % 6
            if not np.array_equal(scaled(jnp.full(2, 2.0), by)["value"], np.full(2, 2.0 * by)):
                wrong.append(by)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(cache) == 4


def test_after_jax_forgets_its_programs_they_are_compiled_again(cache):
    scaled, traces = counted()
    scaled(jnp.ones(2), 7)
    jax.clear_caches()
    np.testing.assert_array_equal(scaled(jnp.ones(2), 7)["value"], [7.0, 7.0])
    assert len(traces) == 2
