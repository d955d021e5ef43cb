"""What `sivi.infer` returns: draws, which path led to them, what it cost, and whether they are believed."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtyping import Array, Float, PyTree

from .._arguments import needs_key
from .._at_draws import predictions_at
from .._layout import Layout
from .._types import KeyLike
from ..posterior import Posterior
from ..samplers import SamplerRun
from ..targets import Target
from . import limits
from .refined import Refined
from .result import Cost, Verdict

if TYPE_CHECKING:
    from xarray import DataTree

_MOST_WARNINGS, _LONGEST = 3, 160


class Step(NamedTuple):
    """A step of `sivi.infer`.

    Attributes:
        name: "fit", "check", "refine", "nuts" or "hmc".
        cost: Its seconds and gradients.
        said: What came of it, in a few words.
    """

    name: str
    cost: Cost
    said: str


@dataclass(frozen=True, eq=False, repr=False)
class Inference:
    """Draws of a target, by the cheapest of fit, refinement and Markov chains in which no fault was found.

    Attributes:
        result: What draws come from: the fit, or draws that chains have carried on.
        source: The step that made it: "fit", "refine", "nuts" or "hmc".
        steps: All steps, in order, with their cost.
        verdict: That of the draws; None if an interruption or an error came before it.
        warnings: What speaks against the draws, and what was left out, a sentence each.
        believed: Whether nothing speaks against the draws: no fault was found, and the density can be normalised. False
            too where most was not looked at: data too many for chains, or an interrupted search for modes.
        posterior: The fit; None if it diverged at once.
        run: The Markov chains; None if there were none, or in an inference that was loaded.
    """

    result: Posterior | Refined
    source: str
    steps: tuple[Step, ...]
    verdict: Verdict | None
    warnings: tuple[str, ...]
    believed: bool
    posterior: Posterior | None = None
    run: SamplerRun | None = None

    @property
    def layout(self) -> Layout:
        """Names, shapes and constraints of the unknowns."""
        return self.result.layout

    @property
    def dim(self) -> int:
        return self.result.dim

    @property
    def path(self) -> tuple[str, ...]:
        """Names of the steps that were taken, such as ("fit", "check", "refine")."""
        return tuple(step.name for step in self.steps)

    @property
    def cost(self) -> dict[str, Cost]:
        """Seconds and gradients by step; those of the fit are its updates', without the warm-up."""
        return {step.name: step.cost for step in self.steps}

    @property
    def level(self) -> str:
        """The level of the verdict; "not judged" without one."""
        return "not judged" if self.verdict is None else self.verdict.level

    @needs_key
    def sample(self, num_samples: int, key: KeyLike) -> PyTree:
        """Draws in the form of `Posterior.sample`.

        A fit makes any number of independent draws. Those of chains are picked from the stored ones, without repetition
        as long as those suffice.

        Args:
            num_samples: How many.
            key: An int or a JAX key.
        """
        return self.result.sample(num_samples, key)

    @needs_key
    def unconstrained(self, num_samples: int, key: KeyLike) -> Float[Array, "num_samples dim"]:
        """The draws of `sample` as plain vectors of real numbers, (num_samples, dim)."""
        return self.result.unconstrained(num_samples, key)

    @needs_key
    def predict(self, inputs: Any, key: KeyLike, *, num_samples: int = 1000) -> PyTree:
        """The predictions of the model's `predict` for new inputs, at each of the draws; see `Posterior.predict`.

        Args:
            inputs: What `predict` takes: an array, or a pytree of arrays.
            key: An int or a JAX key.
            num_samples: Draws.
        """
        return predictions_at(self._target("predictions"), self.unconstrained(num_samples, key), inputs)

    def _target(self, what: str) -> Target:
        target = None if self.posterior is None else self.posterior.target
        if target is None:
            raise ValueError(f"the target is needed for {what}, and this inference has no fit with its target.")
        return target

    def to_arviz(self, num_samples: int = 1000, key: KeyLike = 0) -> "DataTree":
        """The draws as an ArviZ 1.x `DataTree`; needs the packages of `pip install 'sivi[arviz]'`.

        Args:
            num_samples: Draws, of every repeat of a fit. Of Markov chains it is all of them, chain by chain.
            key: An int or a JAX key.
        """
        if self.run is None or self.source == "fit":
            return self.result.to_arviz(num_samples, key)
        from ..interop.arviz import draws_to_arviz

        return draws_to_arviz(self.run.draws, self.layout)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the draws, the fit, the verdict and the path to one file; see `sivi.load_verdict`.

        Args:
            path: The file's name. An existing file is replaced.
        """
        from .inference_file import save_inference

        save_inference(self, path)

    def __str__(self) -> str:
        judged = "believed" if self.believed else "not believed"
        lines = [f"draws of {self.source}, {judged}: {self.level}"]
        lines += [f"  {step.name:7s} {step.cost}: {' '.join(step.said.split())}" for step in self.steps]
        lines += [f"  warning {' '.join(sentence.split())}" for sentence in self.warnings[:_MOST_WARNINGS]]
        if len(self.warnings) > _MOST_WARNINGS:
            lines.append(f"  and {len(self.warnings) - _MOST_WARNINGS} more, in .warnings")
        elif self.believed and self.verdict is not None and self.level == limits.NO_FAULT:
            lines.append("  This does not prove the draws right: a mode that no chain reached is not seen.")
        return "\n".join(line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…" for line in lines)

    def __repr__(self) -> str:
        return str(self)


def judged_of(posterior: Any, target: Any) -> tuple[Any, Any]:
    """What an inference hands to `sivi.check` and `sivi.compare`: its draws, and its target if none is given.

    Args:
        posterior: An `Inference`; anything else is handed on as it is.
        target: As given.
    """
    if not isinstance(posterior, Inference):
        return posterior, target
    if target is None and posterior.posterior is not None:
        target = posterior.posterior.target
    if posterior.run is not None:
        return posterior.run, target
    result, num_chains = posterior.result, limits.REFERENCE_CHAINS
    if isinstance(result, Refined) and posterior.source in ("nuts", "hmc") and len(result.draws) % num_chains == 0:
        # Loaded from a file: the draws of Markov chains, chain after chain.
        chains = result.draws.reshape(num_chains, -1, result.dim)
        return SamplerRun(chains, result.layout, step_size=float("nan"), sampler=posterior.source), target
    return result, target
