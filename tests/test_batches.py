"""Which rows an update sees, and in which precision it is computed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from oracles import linear_gaussian_model
from sivi._batches import BATCHING, BatchWindows, ParticleBatches, RotatingBatches, ShuffledBatches
from sivi.critics import MLPCritic
from sivi.objectives import ScoreMatching

OBJECTIVE = ScoreMatching(num_particles=16, critic=MLPCritic((8,)))


def quick(**arguments):
    settings = {"objective": OBJECTIVE, "num_steps": 9, "chunk_size": 2, "whiten": None, "progress": False}
    return sivi.fit(linear_gaussian_model(10), **settings | arguments)


def rows_of(batches, num_steps, first=0):
    """(num_steps, batch_size), as the loop takes them."""
    order, rows = batches.order(jnp.int32(first)), []
    for step in range(first, first + num_steps):
        order = batches.next_order(jnp.int32(step), order)
        rows.append(np.asarray(batches.batch(jnp.int32(step), order)))
    return np.array(rows)


def test_shuffled_every_row_once_per_epoch():
    epochs = rows_of(ShuffledBatches(jax.random.key(0), num_data=12, batch_size=4), 6).reshape(2, 12)
    assert (np.sort(epochs, axis=1) == np.arange(12)).all()
    assert (epochs[0] != epochs[1]).any()


def test_rotating_the_same_batches_over_and_over():
    rows = rows_of(RotatingBatches(jax.random.key(0), num_data=12, batch_size=4), 9)
    assert (np.sort(rows[:3].ravel()) == np.arange(12)).all()
    assert (rows[:3].ravel() != np.arange(12)).any()
    np.testing.assert_array_equal(rows, np.tile(rows[:3], (3, 1)))


def test_rotating_goes_over_the_end_and_leaves_no_row_out():
    rows = rows_of(RotatingBatches(jax.random.key(3), num_data=10, batch_size=4), 5)
    assert (np.bincount(rows.ravel(), minlength=10) == 2).all()
    np.testing.assert_array_equal(rows.ravel()[10:], rows.ravel()[:10])


@pytest.mark.parametrize("step", [0, 1, 12_345, 2_000_000_000])
def test_rotating_is_right_where_the_product_of_step_and_size_does_not_fit(step):
    batches = RotatingBatches(jax.random.key(0), num_data=1_000_003, batch_size=2_000)
    assert int(batches._start(jnp.int32(step))) == step * 2_000 % 1_000_003


@pytest.mark.parametrize("batching", BATCHING)
@pytest.mark.parametrize("first", [1, 4, 7])
def test_entered_anywhere_the_rows_are_the_same(batching, first):
    batches = BATCHING[batching](jax.random.key(1), 10, 3)
    np.testing.assert_array_equal(rows_of(batches, 3, first), rows_of(batches, 10)[first : first + 3])


def test_windows_see_all_data_equally_often():
    windows = BatchWindows.for_run(jax.random.key(0), 24, 4, 100)
    seen = np.concatenate([np.asarray(windows.at(jnp.int32(t))) for t in range(12)])
    np.testing.assert_array_equal(np.bincount(seen, minlength=24), 2)
    # Too few rows for half of 8 steps to see all 24: they are made 6.
    assert BatchWindows.for_run(jax.random.key(0), 24, 1, 8).size == 6
    # Windows as large as the data are all rows.
    assert BatchWindows.for_run(jax.random.key(0), 24, 1, 2) is None


def test_parts_of_the_windows():
    """All together they are all rows; of very many, eight windows each."""
    order = jax.random.permutation(jax.random.key(0), 100)
    windows = BatchWindows(order, 7)
    for first in (0, 3, 14, 15, 1000):
        parts = [np.asarray(windows.part(jnp.int32(k), 4, jnp.int32(first))) for k in range(4)]
        assert [len(part) for part in parts] == [25] * 4
        assert sorted(np.concatenate(parts)) == list(range(100))
        np.testing.assert_array_equal(parts[0][:7], windows.at(jnp.int32(first)))
    few = BatchWindows(order, 2)
    assert few.part(jnp.int32(0), 4, jnp.int32(0)).shape == (16,)
    wide = BatchWindows(order, 40)
    np.testing.assert_array_equal(wide.part(jnp.int32(1), 4, jnp.int32(0)), wide.at(jnp.int32(1)))


def test_particles_read_one_epoch_from_different_positions():
    batches = ParticleBatches(ShuffledBatches(jax.random.key(0), 12, 4), jax.random.key(1), num_particles=200)
    order = batches.shuffled.order(jnp.int32(0))
    epoch = np.concatenate([np.asarray(batches.rows(jnp.int32(step), order)) for step in range(3)], axis=1)
    assert (np.sort(epoch, axis=1) == np.arange(12)).all()
    assert len(np.unique(epoch[:, 0])) == 12  # P[one is missed] < 12 (11/12)²⁰⁰ = 3e-7


@pytest.mark.parametrize("batching", ["shuffle", pytest.param("rotate", marks=pytest.mark.slow)])
def test_resume_inside_an_epoch_sees_the_same_batches(batching, tmp_path):
    whole = quick(batch_size=3, batching=batching)
    part = quick(batch_size=3, batching=batching, callbacks=[lambda report: report.step == 4])
    part.save(tmp_path / "fit.sivi")
    resumed = sivi.fit(linear_gaussian_model(10), resume=tmp_path / "fit.sivi", progress=False)
    assert (part.step, resumed.settings.batching) == (4, batching)
    np.testing.assert_array_equal(whole.history["loss"], resumed.history["loss"])


def test_the_two_see_different_rows():
    losses = [quick(batch_size=3, batching=batching).history["loss"] for batching in BATCHING]
    assert losses[0][-1] != losses[1][-1]


class TestPrecision:
    def test_is_in_the_program_and_in_the_file(self, tmp_path):
        plain = quick(num_steps=2)
        posterior = quick(num_steps=2, precision="float32")
        posterior.save(tmp_path / "fit.sivi")
        assert (plain.settings.precision, posterior.settings.precision) == (None, "float32")
        assert sivi.load(tmp_path / "fit.sivi").settings.precision == "float32"

    def test_reaches_the_products_of_an_update_and_nothing_else(self):
        seen = []

        class Watched(ScoreMatching):
            def step(self, key, family, state, target, batch):
                seen.append(jax.config.jax_default_matmul_precision)
                return super().step(key, family, state, target, batch)

        objective = Watched(num_particles=4, critic=MLPCritic((3,)))
        outside = []
        watch = [lambda report: outside.append(jax.config.jax_default_matmul_precision)]
        quick(num_steps=2, objective=objective, precision="bfloat16", callbacks=watch)
        assert set(seen) == {"bfloat16"}
        assert set(outside) == {jax.config.jax_default_matmul_precision} == {None}


@pytest.mark.usefixtures("as_a_user")
class TestBadInput:
    def test_another_name(self):
        with pytest.raises(ValueError, match=r"batching must be one of 'shuffle', 'rotate'; got 'random'\."):
            quick(batching="random")
        with pytest.raises(ValueError, match=r"precision must be None or one that .*; got 'float7'\."):
            quick(precision="float7")
        with pytest.raises(TypeError, match=r"precision must be a name, such as 'float32', or None; got 32"):
            quick(precision=32)

    def test_another_than_the_resumed_fits(self):
        posterior = quick(batch_size=3, num_steps=2, precision="float32")
        for name, value in {"batching": "rotate", "precision": "bfloat16", "batch_size": 4}.items():
            with pytest.raises(ValueError, match=f"{name} must be that of the resumed fit, .*; got {value}"):
                sivi.fit(linear_gaussian_model(10), resume=posterior, progress=False, **{name: value})
