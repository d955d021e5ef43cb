"""Names that have changed since an earlier version raise an error that gives the new one."""

import importlib

import pytest

import sivi
from sivi import _renamed

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
