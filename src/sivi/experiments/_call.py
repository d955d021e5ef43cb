"""One call of `sivi.fit`: its arguments, and the same as text, so that a change of any number is seen."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import equinox as eqx
import jax

from .. import defaults
from ..families import DiagonalGaussian, NormalMixing, SemiImplicit
from ..objectives import Objective
from ._describe import describe


def build_family(key: int, dim: int, settings: Mapping[str, Any]) -> SemiImplicit:
    """z ~ N(0, I), x | z ~ N(μ(z), diag σ²), with fresh weights; `settings` are of `DiagonalGaussian`."""
    conditional = DiagonalGaussian(dim=dim, **settings, key=jax.random.key(key))
    return SemiImplicit(NormalMixing(conditional.latent_dim), conditional)


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
            family = describe(eqx.filter_eval_shape(recipe.family, jax.random.key(0)))
        if self.objective is None:
            return {"family": family, "objective": describe(recipe.objective()), "recipe": asdict(recipe)}
        batches = {} if self.batches is None else {"batches": self.batches}
        return {"family": family, "objective": describe(self.objective), **batches}


@dataclass(frozen=True)
class FittedMethod:
    """A line or a panel of a figure.

    Attributes:
        label: Its heading.
        colour: As in the paper's figure.
        call: How it is fitted.
        num_updates: Of a full fit, at most.
        line: How a curve is drawn.
    """

    label: str
    colour: str
    call: Callable[[], Call]
    num_updates: int
    line: str = "-"
