"""One method of the paper: how it calls `sivi.fit`, and the same as text, so that a change of any number is seen."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np

from .. import defaults
from ..critics import MLPCritic
from ..families import DiagonalGaussian, NormalMixing, SemiImplicit
from ..objectives import Objective, PlugInFisher, ScoreMatching, UnbiasedELBO
from ..optimizers import RMSProp
from ..schedules import Schedule

#: x | z ~ N(μ(z), diag σ²) with a ReLU network μ; log σ² starts at 0 and is clamped at −6. Its widths are per problem.
_FAMILY = {
    "latent_dim": None,
    "hidden": None,
    "activation": "relu",
    "skip": False,
    "scale": "global",
    "sigma_init": 1.0,
    "sigma_floor": math.exp(-3),
    "floor": "clamp",
}


def paper_family(latent_dim: int, hidden: tuple[int, int]) -> dict[str, Any]:
    """Settings of the family that the paper has in all experiments: z ~ N(0, I), and μ with these hidden widths."""
    return _FAMILY | {"latent_dim": latent_dim, "hidden": hidden}


def build_family(key: int, dim: int, settings: Mapping[str, Any]) -> SemiImplicit:
    """z ~ N(0, I), x | z ~ N(μ(z), diag σ²), with fresh weights; `settings` are of `DiagonalGaussian`."""
    conditional = DiagonalGaussian(dim=dim, **settings, key=jax.random.key(key))
    return SemiImplicit(NormalMixing(conditional.latent_dim), conditional)


def with_critic(
    objective: type[ScoreMatching] | type[PlugInFisher], width: int, **settings: Any
) -> ScoreMatching | PlugInFisher:
    """SIVI-SM as in all experiments, or its biased twin: one critic update a step, two hidden ReLU layers."""
    critic = MLPCritic((width, width), activation="relu")
    return objective(critic_steps=1, critic=critic, **settings)


def unbiased(rate: Schedule, num_particles: int = 1) -> UnbiasedELBO:
    """UIVI as in all experiments: 10 iterations of inner HMC of which 5 are dropped, and RMSProp."""
    return UnbiasedELBO(
        num_particles=num_particles,
        num_iterations=10,
        burn_in=5,
        num_leapfrog=5,
        step_size=0.2,
        target_acceptance=0.9,
        jitter=0.0,
        optimizer=RMSProp(rate, decay=0.9, eps=1.0),
    )


@dataclass(frozen=True)
class Call:
    """How a target is fitted.

    With an objective, all is as it is given: in x itself, and to the last update (`whiten=None`, `stop=None`). Without
    one it is the default call, `sivi.fit(target, key=seed)`.

    Attributes:
        objective: The objective; None for the default call.
        family: Settings of the family; None for the library's own.
        batches: Size of a minibatch and how they follow each other; None for what the library does by itself.
    """

    objective: Objective | None = None
    family: Mapping[str, Any] | None = None
    batches: tuple[int, str] | None = None

    def arguments(self, dim: int, seed: int) -> dict[str, Any]:
        """Arguments of `sivi.fit` besides the target and `num_steps`."""
        if self.objective is None:
            return {"key": seed}
        arguments: dict[str, Any] = {"objective": self.objective, "key": seed, "whiten": None, "stop": None}
        if self.family is not None:
            arguments["family"] = build_family(1000 + seed, dim, self.family)
        if self.batches is not None:
            arguments |= {"batch_size": self.batches[0], "batching": self.batches[1]}
        return arguments

    def described(self, dim: int, num_data: int | None = None) -> dict[str, Any]:
        """Family and objective as JSON values, to be stored with a result."""
        recipe = defaults.recipe(dim, num_data)
        if self.family is not None:
            family: Any = dict(self.family)
        else:
            # Shapes are enough, and need no computing.
            family = settings_text(eqx.filter_eval_shape(recipe.family, jax.random.key(0)))
        if self.objective is None:
            return {"family": family, "objective": settings_text(recipe.objective()), "recipe": asdict(recipe)}
        batches = {} if self.batches is None else {"batches": self.batches}
        return {"family": family, "objective": settings_text(self.objective), **batches}


@dataclass(frozen=True)
class Method:
    """A column of a table, a line or a panel of a figure.

    Attributes:
        label: Its heading.
        call: How it is fitted; what it takes, if anything, is said where the methods are listed.
        num_updates: Of a full fit, at most.
        colour: As in the paper's figure.
        line: How a curve is drawn.
    """

    label: str
    call: Callable[..., Call]
    num_updates: int
    colour: str = "black"
    line: str = "-"


def settings_text(value: Any) -> str:
    """Settings of an objective or a family, the same in every process.

    Class names and fields, functions by name, arrays by dtype and shape.

    `repr` would show addresses of functions, which differ from run to run, and leave out fields at their defaults,
    so that a changed default would go unseen. Fields that are None, and so say nothing, are left out.

    Example:
        >>> from sivi.schedules import StepDecay
        >>> settings_text(StepDecay(1e-3, factor=0.9, every=1000))
        'StepDecay(initial=0.001, factor=0.9, every=1000)'
    """
    if isinstance(value, (jax.Array, np.ndarray, jax.ShapeDtypeStruct)):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, eqx.Module):
        names = (field.name for field in dataclasses.fields(value))  # pyright: ignore[reportArgumentType]
        fields = {name: getattr(value, name) for name in names}
        given = [f"{name}={settings_text(field)}" for name, field in fields.items() if field is not None]
        return f"{type(value).__name__}({', '.join(given)})"
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(settings_text, value))}]"
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    return repr(value)
