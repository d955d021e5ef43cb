"""Public names that have changed: the old one raises an error that gives the new."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, NoReturn, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])


def renamed(owner: str, names: Mapping[str, str]) -> Callable[[str], NoReturn]:
    """A `__getattr__` for the old names of a module; the new ones are written out in full.

    The error is an `ImportError`: Python replaces the text of any other one in `from ... import ...`.
    """

    def __getattr__(name: str) -> NoReturn:  # noqa: N807
        if name in names:
            raise ImportError(f"{owner}.{name} is now {names[name]}.")
        raise AttributeError(f"module {owner!r} has no attribute {name!r}")

    return __getattr__


def old_names(names: Mapping[str, str]) -> Callable[[Any, str], Any]:
    """A `__getattr__` for the old names of a class."""

    def __getattr__(self: Any, name: str) -> Any:  # noqa: N807
        if name in names:
            raise AttributeError(f"{type(self).__name__}.{name} is now {names[name]}.")
        return object.__getattribute__(self, name)  # raises the error that led here, also that of a property

    return __getattr__


def old_arguments(owner: str, names: Mapping[str, str]) -> Callable[[_Function], _Function]:
    """A decorator for a function whose arguments had other names: an old one raises an error that gives the new."""

    def decorate(function: _Function) -> _Function:
        @wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            for old in names:
                if old in kwargs:
                    raise TypeError(f"{owner}: the argument {old} is now {names[old]}.")
            return function(*args, **kwargs)

        return checked  # pyright: ignore[reportReturnType]  (`wraps` keeps the signature, which its type does not say)

    return decorate


#: Arguments of samplers, of metrics and of `sivi.objectives.Bridged` in version 0.1.
NUM_DRAWS = {"num_draws": "num_samples"}

#: Fields of `sivi.Posterior` in version 0.1.
POSTERIOR = {
    "batch_size": "posterior.settings.batch_size",
    "batching": "posterior.settings.batching",
    "precision": "posterior.settings.precision",
    "anchored": "posterior.settings.control_variate",
    "stop_rule": "posterior.settings.stop_rule",
    "states": "posterior.run.state.states",
    "streak": "posterior.run.state.streak",
    "stop_state": "posterior.run.state.stop",
    "fingerprint": "stored in the fit file alone",
}

#: Names of `sivi.objectives` in version 0.1.
OBJECTIVES = {
    "CriticSpec": "sivi.critics.CriticSettings",
    "MLPCritic": "sivi.critics.MLPCritic",
    "StructuredCritic": "sivi.critics.StructuredCritic",
    "FamilyCritic": "sivi.critics.Critic",
    "DenoisingCritic": "sivi.critics.Critic",
    "MinimaxObjective": "sivi.objectives.CriticObjective",
}

#: Names of `sivi.targets` in version 0.1.
TARGETS = {"Anchored": "sivi.targets.ControlVariate", "Bridge": "sivi.targets.BridgedTarget"}

#: Names of `sivi.warmup` in version 0.1.
WARMUP = {
    name: f"sivi.coordinates.{name}"
    for name in ("AffineMap", "DenseMap", "DiagonalMap", "IdentityMap", "LowRankMap", "RotatedMap")
}

#: Methods of `sivi.objectives.Objective` in version 0.1.
OBJECTIVE = {
    "field": "critic_function(state, target, family)",
    "field_of": "full_critic(network, step)",
    "critic_noise": "critic_noise_source(critic, family)",
    "with_batching": "part of bind(plan), see sivi.schedules.RunPlan",
}

#: Fields of `sivi.objectives.Bridged` in version 0.1.
BRIDGED = OBJECTIVE | {"num_draws": "bridged.num_samples"}

#: Names of `sivi.schedules` in version 0.1, and of its `Timeline`.
SCHEDULES = {"Steps": "sivi.schedules.RunLike"}
TIMELINE = {"bend": "timeline.decay_start"}

#: Names of `sivi.experiments` in version 0.1.
EXPERIMENTS = {"stem": "sivi.experiments.result_name"}

#: Fields of `sivi.defaults.Recipe` in version 0.1.
RECIPE = {
    "held": "recipe.hold_share",
    "annealed": "recipe.annealed_share",
    "bridge": "recipe.bridge_share",
    "plateau": "recipe.plateau_tolerance",
}
