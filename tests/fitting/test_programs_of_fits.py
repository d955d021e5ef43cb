"""Programs of fits: the same density is compiled once, what has changed is seen, and many fits do not pile up."""

import functools
import gc
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from sivi._programs import PROGRAMS
from sivi.targets import BayesianModel, LogDensity, ScoreFunction

COMPILED = "/jax/core/compile/backend_compile_duration"
MAPS = Path("/proc/self/maps")
SLOPE = 1.0


@pytest.fixture
def compilations():
    """The names of the functions compiled so far."""
    seen = []

    def note(name, seconds, **details):
        if name == COMPILED:
            seen.append(details.get("fun_name", ""))

    jax.monitoring.register_event_duration_secs_listener(note)
    yield seen
    jax.monitoring.clear_event_listeners()


def quick_fit(target, dim=2, whiten=None, **settings):
    objective = sivi.objectives.PathKL(num_particles=16, critic_steps=1, critic_warmup=0)
    return sivi.fit(target, dim, objective=objective, num_steps=3, whiten=whiten, progress=False, **settings)


def closure(scale=1.5):
    data = jnp.arange(7.0)
    return lambda x: -0.5 * scale * jnp.sum((x[0] - data) ** 2) - jnp.logaddexp(x[1], -x[1])


@pytest.mark.parametrize("make", [lambda f: f, jax.jit, lambda f: functools.partial(lambda a, x: a * f(x), 1.0)])
def test_the_second_fit_of_one_function_compiles_nothing(compilations, make):
    PROGRAMS.clear()
    function = make(closure())
    first = quick_fit(function)
    first.sample(10, key=0)
    done = len(compilations)
    assert done > 0
    second = quick_fit(function)
    second.sample(10, key=0)
    assert compilations[done:] == []
    np.testing.assert_array_equal(first.sample(10, key=0), second.sample(10, key=0))


def test_nor_does_that_of_a_function_made_anew_nor_with_other_data(compilations):
    quick_fit(closure()).sample(10, key=0)
    data = jnp.arange(7.0) + 2.0
    done = len(compilations)
    quick_fit(closure()).sample(10, key=0)
    moved = quick_fit(lambda x: -0.5 * 1.5 * jnp.sum((x[0] - data) ** 2) - jnp.logaddexp(x[1], -x[1]))
    moved.sample(10, key=0)
    assert compilations[done:] == []
    np.testing.assert_allclose(moved.target.score(jnp.zeros(2)), [1.5 * float(data.sum()), 0.0], rtol=1e-6)


def test_the_default_call_too(compilations):
    function = closure()
    sivi.fit(function, 2, num_steps=2, progress=False).sample(10, key=0)
    done = len(compilations)
    sivi.fit(function, 2, key=1, num_steps=2, progress=False).sample(10, key=0)
    assert compilations[done:] == []


def test_targets_made_of_a_function(compilations):
    """Also in a sampler and in a metric."""
    data = jnp.arange(3.0)
    makes = [
        lambda: LogDensity(lambda x: -jnp.sum((x - data[:2]) ** 2), 2),
        lambda: ScoreFunction(lambda x: data[:2] - x, 2),
    ]
    for make in makes:
        quick_fit(make(), None)
        done = len(compilations)
        quick_fit(make(), None)
        assert compilations[done:] == []
    points = np.arange(10.0).reshape(5, 2)
    for _ in range(2):
        done = len(compilations)
        sivi.samplers.hmc(makes[0](), num_chains=2, num_samples=4, num_warmup=20, num_leapfrog=2, progress=False)
        sivi.metrics.ksd(points, makes[0]())
    assert compilations[done:] == []


@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: LogDensity(f, 2)])
def test_what_a_function_reads_and_has_changed_is_seen(monkeypatch, wrap):
    values, arrays = [1.0], [jnp.ones(3)]

    def function(x):
        return -0.5 * values[0] * x[0] ** 2 + SLOPE * x[1] - jnp.sum(arrays[0]) * x[1] ** 2

    def score():
        target = wrap(function)
        dim = None if isinstance(target, LogDensity) else 2
        posterior = quick_fit(target, dim)
        return np.asarray(posterior.target.score(jnp.ones(2))), posterior.history["loss"]

    at_first, losses = score()
    np.testing.assert_allclose(at_first, [-1.0, 1.0 - 6.0])
    values[0] = 2.0
    monkeypatch.setitem(globals(), "SLOPE", 7.0)
    arrays[0] = 2.0 * jnp.ones(3)
    then, other_losses = score()
    np.testing.assert_allclose(then, [-2.0, 7.0 - 12.0])
    assert not np.array_equal(losses, other_losses)


def test_a_model_with_data_is_compiled_once_whatever_the_data(compilations):
    class Mean(BayesianModel):
        data: jax.Array
        dim: int = 1

        def log_prior(self, x):
            return -0.5 * x[0] ** 2

        def log_likelihood(self, x, datum):
            return -0.5 * (datum - x[0]) ** 2

    for i in range(2):
        done = len(compilations)
        quick_fit(Mean(jnp.arange(10.0) + i), None)
    assert compilations[done:] == []


@pytest.mark.parametrize("is_score", [False, True])
def test_a_fit_is_saved_where_float_types_are_others(tmp_path, is_score):
    def target():
        return ScoreFunction(lambda x: -x, 2) if is_score else LogDensity(lambda x: -0.5 * jnp.sum(x**2), 2)

    with jax.enable_x64(True):
        posterior = quick_fit(target(), None)
    posterior.save(tmp_path / "fit.sivi")
    with jax.enable_x64(True):
        assert sivi.load(tmp_path / "fit.sivi", target=target()).target is not None
        posterior = quick_fit(target(), None)
    quick_fit(target(), None).save(tmp_path / "fit.sivi")
    with pytest.raises(TypeError, match=r"given for float64\[2\] cannot take float32\[2\]"):
        posterior.target.score(jnp.ones(2))


def test_a_long_chunk_takes_no_more_memory_than_the_run():
    posterior = quick_fit(closure(), chunk_size=10**9)  # 8 GB for two metrics, if all of it were allocated
    np.testing.assert_array_equal(posterior.history["loss"], quick_fit(closure()).history["loss"])


def test_a_density_over_millions_of_numbers_is_refused_with_advice(compilations, as_a_user):
    y = jnp.zeros(20_000_000)
    done = len(compilations)
    with pytest.raises(
        ValueError, match=r"an array of 20,000,000 numbers for one point.*20 GB for the 256.*batch_size"
    ):
        sivi.fit(lambda x: -0.5 * jnp.mean((x[0] - y) ** 2) - x[1] ** 2, dim=2, num_steps=5)
    few = sivi.objectives.PathKL(num_particles=50)
    with pytest.raises(ValueError, match=r"8 GB for the 50 points"):
        sivi.fit(
            lambda x: -0.5 * jnp.mean((x[0] - jnp.append(y, y)) ** 2), dim=2, objective=sivi.objectives.Annealed(few)
        )
    assert not any("run_chunk" in name or "_warm_up" in name for name in compilations[done:])


@pytest.mark.slow
@pytest.mark.skipif(not MAPS.exists(), reason="the system does not list its memory maps")
def test_many_fits_of_different_functions_leave_nothing_behind():
    """By default calls; the store of programs is full after about twelve."""

    def maps():
        gc.collect()
        return MAPS.read_bytes().count(b"\n")

    counts = []
    for i in range(60):
        scale = 1.0 + i / 100
        posterior = sivi.fit(lambda x: -0.5 * scale * jnp.sum(x**2), dim=2, num_steps=2, progress=False)  # noqa: B023
        counts.append(maps())
    assert np.isfinite(posterior.sample(3, key=0)).all()
    assert counts[1] - counts[0] > 100
    assert max(counts[20:]) <= 1.05 * max(counts[:20])
