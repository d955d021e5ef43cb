"""Structure and types are read from shapes, in both precisions; what needs numbers is compiled once, in float32."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from contracts.plugins import (
    CONDITIONALS,
    CUSTOM_OBJECTIVES,
    MIXINGS,
    OBJECTIVES,
    OPTIMIZERS,
    SAME_STATE,
    SCHEDULES,
    small_family,
)
from sivi import optimizers
from sivi.targets import Banana, Target

ALL_OBJECTIVES = OBJECTIVES | CUSTOM_OBJECTIVES
FITTED = [name for name in ALL_OBJECTIVES if name not in SAME_STATE]
BATCHES_SEEN = []


class Recording(Target):
    """A target with ten rows of data that notes the shapes of the batches it is called with."""

    dim: int = 2

    @property
    def num_data(self):
        return 10

    def log_prob(self, x, batch=None):
        BATCHES_SEEN.append(batch if batch is None else batch.shape)
        rows = jnp.arange(10) if batch is None else batch
        return -jnp.mean(rows) * jnp.sum(x**2) - jnp.sum(x**4)


def bound(objective, num_steps=10):
    return objective.bind(num_steps)


def leaves(tree):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array))]


def shapes(tree):
    """Shapes and dtypes of all arrays, or of what stands for them."""
    return [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(tree) if hasattr(leaf, "dtype")]


def assert_all_moved(new, old):
    assert all((a != b).any() for a, b in zip(leaves(new), leaves(old), strict=True))


def state_class(name):
    init = bound(ALL_OBJECTIVES[name]()).init
    return type(eqx.filter_eval_shape(init, jax.random.key(0), small_family(), Banana()))


@pytest.mark.parametrize("name", ALL_OBJECTIVES)
def test_an_update_keeps_structure_and_types_and_sees_the_minibatch(name, precision):
    objective, family, target = bound(ALL_OBJECTIVES[name]()), small_family(), Recording()
    objective.check(family, target)
    state = eqx.filter_eval_shape(objective.init, jax.random.key(0), family, target)
    BATCHES_SEEN.clear()
    update = jax.random.key(1), family, state, target, jnp.arange(4)
    new_family, new_state, metrics = eqx.filter_eval_shape(objective.step, *update)
    assert BATCHES_SEEN
    assert set(BATCHES_SEEN) <= {(4,), (2,)}, "all rows of the batch, or one of its two halves"
    assert jax.tree.structure(new_family) == jax.tree.structure(family)
    assert shapes(new_family) == shapes(family)
    assert shapes(new_state) == shapes(state)
    assert {dtype for _, dtype in shapes(new_family)} == {jnp.dtype(precision)}
    assert "loss" in metrics
    assert {value.shape for value in metrics.values()} == {()}


@pytest.mark.parametrize("name", SAME_STATE)
def test_an_update_moves_every_parameter_and_depends_on_the_key_alone(name):
    """For the rows that are not fitted below."""
    assert state_class(name) is state_class(SAME_STATE[name])
    objective, family, target = bound(ALL_OBJECTIVES[name]()), small_family(), Banana()
    state = eqx.filter_jit(objective.init)(jax.random.key(0), family, target)
    step = eqx.filter_jit(objective.step)
    new_family, _, metrics = step(jax.random.key(1), family, state, target, None)
    assert_all_moved(new_family, family)
    assert all(np.isfinite(value) for value in metrics.values())
    again, other = (step(jax.random.key(k), family, state, target, None)[2]["loss"] for k in (1, 2))
    assert metrics["loss"] == again != other


def fit(name, **arguments):
    settings = {"family": small_family(), "num_steps": 12, "key": 3, "whiten": None, "progress": False} | arguments
    return sivi.fit(Banana(), objective=ALL_OBJECTIVES[name](), **settings)


def assert_same_bits(one, other):
    for a, b in zip(leaves((one.family, one.state)), leaves((other.family, other.state)), strict=True):
        np.testing.assert_array_equal(a, b)
    for metric, values in one.history.items():
        np.testing.assert_array_equal(values, other.history[metric])


#: Their state is of the class of a row that is fitted in any case.
SLOW = {*CUSTOM_OBJECTIVES, "PathKL-structured"}
ALL_OPTIMISATIONS = [pytest.mark.optimised, pytest.mark.slow]


@pytest.mark.parametrize(
    ("name", "x64"),
    [
        *(pytest.param(name, False, marks=[pytest.mark.slow] if name in SLOW else []) for name in FITTED),
        pytest.param("ScoreMatching", True, marks=pytest.mark.slow),
        *(pytest.param(name, False, marks=ALL_OPTIMISATIONS, id=f"{name}-optimised") for name in FITTED),
    ],
    ids=str,
)
def test_other_chunks_a_file_and_a_resumed_run_give_the_same_bits(name, x64, tmp_path):
    """One whole run, against one in chunks of another size that is saved half-way, loaded and resumed."""
    with jax.enable_x64(x64):
        whole = fit(name, chunk_size=1000)
        fit(name, chunk_size=5, checkpoint=tmp_path / "part.sivi", callbacks=[lambda report: report.step == 5])
        assert sivi.load(tmp_path / "part.sivi", Banana(), objective=ALL_OBJECTIVES[name]()).step == 5
        given = {"objective": ALL_OBJECTIVES[name]()} if name in CUSTOM_OBJECTIVES else {}
        resumed = sivi.fit(Banana(), resume=tmp_path / "part.sivi", chunk_size=5, progress=False, **given)
        assert resumed.step == whole.step == 12
        assert_same_bits(whole, resumed)
        assert_all_moved(whole.family, small_family())
        other = fit(name, chunk_size=1000, key=4)
        assert (other.history["loss"] != whole.history["loss"]).all()
        if name == "ScoreMatching":
            assert_same_bits(whole, fit(name, chunk_size=1))


@pytest.mark.parametrize("mixing", MIXINGS)
@pytest.mark.parametrize("conditional", CONDITIONALS)
def test_an_update_keeps_structure_and_types_of_every_family(conditional, mixing, precision):
    objective, family, target = bound(ALL_OBJECTIVES["ScoreMatching"]()), small_family(conditional, mixing), Banana()
    state = eqx.filter_eval_shape(objective.init, jax.random.key(0), family, target)
    new_family = eqx.filter_eval_shape(objective.step, jax.random.key(1), family, state, target, None)[0]
    assert jax.tree.structure(new_family) == jax.tree.structure(family)
    assert shapes(new_family) == shapes(family)
    assert {dtype for _, dtype in shapes(new_family)} == {jnp.dtype(precision)}


@pytest.mark.parametrize(
    ("conditional", "mixing"),
    [
        ("DiagonalGaussian", "NormalMixing"),
        pytest.param("StudentT", "ImplicitMixing", marks=pytest.mark.slow),
        *(
            pytest.param(name, "ImplicitMixing", marks=pytest.mark.slow)
            for name in CONDITIONALS
            if name in ("DiagonalGaussian", "StudentT-network", "DiagonalGaussian-clamp")
        ),
    ],
)
def test_every_layer_fits_and_comes_back_from_a_file(conditional, mixing, tmp_path):
    family = small_family(conditional, mixing)
    posterior = fit("ScoreMatching", family=family, num_steps=3)
    assert_all_moved(posterior.family, family)
    posterior.save(tmp_path / "fit.sivi")
    loaded = sivi.load(tmp_path / "fit.sivi")
    np.testing.assert_array_equal(loaded.sample(50, key=1), posterior.sample(50, key=1))
    assert jax.tree.structure(loaded.family) == jax.tree.structure(posterior.family)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules_are_pure_functions_of_the_step(schedule, precision):
    bound = SCHEDULES[schedule]().bind(20)
    eager = jnp.stack([bound(step) for step in range(25)])
    traced = jax.jit(jax.vmap(bound))(jnp.arange(25))
    assert traced.dtype == precision
    np.testing.assert_allclose(eager, traced, rtol=1e-6)
    assert jnp.isfinite(traced).all()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizers_descend_a_quadratic(optimizer):
    settings = OPTIMIZERS[optimizer]().bind(1000)
    params = {"a": jnp.array([1.0, -2.0]), "b": jnp.array(0.5)}

    def update(_, carry):
        params, state = carry
        return optimizers.update(settings, params, state, params)  # gradient of ½‖params‖²

    params, _ = jax.jit(lambda *carry: jax.lax.fori_loop(0, 1000, update, carry))(
        params, optimizers.init(settings, params)
    )
    assert max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(params)) < 0.05
