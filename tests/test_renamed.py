"""Names that have changed since an earlier version raise an error that gives the new one."""

import importlib
import inspect
from functools import partial

import numpy as np
import pytest

import sivi
from sivi import _renamed
from sivi._storage.old_names import field_names
from sivi.objectives import Bridged, PathKL
from sivi.targets import IsotropicGaussian

ROOMS = {
    "experiments": _renamed.EXPERIMENTS,
    "objectives": _renamed.OBJECTIVES,
    "schedules": _renamed.SCHEDULES,
    "targets": _renamed.TARGETS,
    "warmup": _renamed.WARMUP,
}


@pytest.mark.parametrize("room", ROOMS)
def test_names_of_a_room(room):
    module = importlib.import_module(f"sivi.{room}")
    for old, new in ROOMS[room].items():
        assert old not in vars(module)
        with pytest.raises(ImportError, match=rf"sivi\.{room}\.{old} is now {new}\."):
            getattr(module, old)
        with pytest.raises(ImportError, match=rf"is now {new}\."):
            exec(f"from sivi.{room} import {old}")
        owner, _, name = new.rpartition(".")
        assert name in vars(importlib.import_module(owner))


@pytest.mark.parametrize(
    ("owner", "old", "new"),
    [
        (sivi.objectives.PathKL(), "field", r"PathKL\.field is now critic_function"),
        (sivi.objectives.PathKL(), "with_batching", r"is now part of bind\(plan\)"),
        (sivi.schedules.Timeline(10, 5, 8), "bend", r"Timeline\.bend is now timeline\.decay_start"),
        (sivi.defaults.recipe(2), "held", r"Recipe\.held is now recipe\.hold_share"),
    ],
)
def test_names_of_a_class(owner, old, new):
    with pytest.raises(AttributeError, match=new):
        getattr(owner, old)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = owner.nothing


def test_todays_names_of_classes_exist():
    objective, recipe = sivi.objectives.PathKL(), sivi.defaults.recipe(2)
    assert hasattr(objective, "critic_function")
    for new in _renamed.RECIPE.values():
        assert hasattr(recipe, new.removeprefix("recipe."))
    for old, new in _renamed.POSTERIOR.items():
        assert not hasattr(sivi.Posterior, old)
        if new.startswith("posterior.settings."):
            assert new.rpartition(".")[2] in sivi._run.FitSettings.__dataclass_fields__


@pytest.mark.parametrize(
    ("call", "owner"),
    [
        (sivi.samplers.hmc, "sivi.samplers.hmc"),
        (sivi.samplers.nuts, "sivi.samplers.nuts"),
        (sivi.samplers.sgld, "sivi.samplers.sgld"),
        (sivi.metrics.noise_floor, "sivi.metrics.noise_floor"),
        (sivi.metrics.fisher_divergence, "sivi.metrics.fisher_divergence"),
        (sivi.objectives.Bridged, "sivi.objectives.Bridged"),
        (partial(sivi.compare, np.zeros((200, 2)), sivi.targets.Banana(), reference="hmc"), "sivi.samplers.hmc"),
    ],
)
def test_names_of_arguments(call, owner):
    with pytest.raises(TypeError, match=rf"^{owner}: the argument num_draws is now num_samples\.$"):
        call(num_draws=5)
    named = call.func if isinstance(call, partial) else call
    assert {"num_samples", "settings"} & set(inspect.signature(named).parameters)


def test_a_field_of_an_objective_and_of_files():
    bridged = Bridged(PathKL(), 0.0, base=IsotropicGaussian(2), num_samples=7)
    with pytest.raises(AttributeError, match=r"Bridged\.num_draws is now bridged\.num_samples"):
        _ = bridged.num_draws
    assert field_names("Bridged", {"num_draws": 7}) == {"num_samples": 7}
