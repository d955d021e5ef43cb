"""A run of updates as plain data: its settings, which stay, and its state, which every update changes.

What is returned, the training loop and the fit files share these; none of them imports another for it.
"""

from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray, PyTree

from ._random import NOISE
from ._repeats import only, repeat_keys
from .families import Family
from .stopping import DoublingState, StopRule, StopState
from .warmup.status import UNKNOWN


@dataclass(frozen=True, eq=False)
class FitSettings:
    """What a run was asked to do.

    Attributes:
        key: The run's key.
        objective: How it fits; None if a file could not hold it.
        num_steps: Updates, at most.
        repeats: Independent fits.
        batch_size: Rows of data per update; None for all.
        batching: The order of minibatches, by its name in `sivi.fit`.
        precision: Of matrix products; None for JAX's own.
        control_variate: Whether scores of minibatches have a control variate, the score on all data at the centre of
            the coordinates.
        stop_rule: The rule that may end the run before `num_steps`.
        most_own_weight: The run is given up for another method where the mean weight of the generating component, which
            `sivi.objectives.MixtureKL` records, stays above this; None for a run that is not given up.
        rounds_from: The update at which the rounds of the rule began: another than 0 where a run has gone on under
            another rule or to another length. None if that is not known.
        noise: How the noise of an update is made, see `sivi._random.NOISE`: a run goes on as it began.
    """

    key: PRNGKeyArray
    objective: Any  # an Objective: what is returned does not import those
    num_steps: int
    repeats: int = 1
    batch_size: int | None = None
    batching: str = "shuffle"
    precision: str | None = None
    control_variate: bool = False
    stop_rule: StopRule | None = None
    most_own_weight: float | None = None
    rounds_from: int | None = 0
    noise: str = NOISE[0]


class RunState(eqx.Module):
    """What one update hands to the next: the carry of the compiled loop. All but `stop` has a leading axis of repeats.

    Attributes:
        families: The families, in the coordinates of the fit.
        states: The objective's states: critics, optimisers; None in a fit that was loaded without its target.
        skipped: Updates that were not finite and left out.
        streak: Number of consecutive skipped updates up to now.
        stop: Where the run ends.
        best: The best families of the rounds so far; None for a rule without rounds.
        start: The families of update zero; None for a rule that does not go back to them.
    """

    families: Family
    states: PyTree
    skipped: Int[Array, " repeats"]
    streak: Int[Array, " repeats"]
    stop: StopState
    best: Family | None = None
    start: Family | None = None


class Remark(str):
    """A sentence that a fit says of itself at its end: what was seen, and what to try.

    Attributes:
        kind: A short name of what was seen, the same for all sentences of its kind.
        unknowns: Names of the unknowns that it is about; none if it is about all of them.
        repeats: Numbers of the repeats that it is about.

    Example:
        >>> remark = Remark("unused-unknown", "The score of x[1] is zero.", ("x[1]",))
        >>> remark.kind, str(remark)
        ('unused-unknown', 'The score of x[1] is zero.')
    """

    kind: str
    unknowns: tuple[str, ...]
    repeats: tuple[int, ...]

    def __new__(
        cls, kind: str, sentence: str, unknowns: tuple[str, ...] = (), repeats: tuple[int, ...] = (0,)
    ) -> "Remark":
        remark = str.__new__(cls, sentence)
        remark.kind, remark.unknowns, remark.repeats = kind, unknowns, repeats
        return remark

    def __getnewargs__(self) -> tuple[str, str, tuple[str, ...], tuple[int, ...]]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.kind, str(self), self.unknowns, self.repeats


@dataclass(frozen=True, eq=False)
class Run:
    """A run after `step` updates.

    Attributes:
        settings: What it was asked to do.
        step: Updates done.
        state: The state after them.
        warmup_status: How the coordinates were found, a word of `sivi.warmup.status` by repeat; empty if not known.
        warnings: What the fit said of itself when it ended.
    """

    settings: FitSettings
    step: int
    state: RunState
    warmup_status: tuple[str, ...] = ()
    warnings: tuple[Remark, ...] = ()

    @property
    def finished(self) -> bool:
        """Whether it is complete: `num_steps`, or the end of the decay after a plateau."""
        return self.step >= int(self.state.stop.end)

    @property
    def families(self) -> Family:
        """The families to draw from: between the ends of two rounds, the best so far."""
        stop = self.state.stop
        if self.finished or not isinstance(stop, DoublingState) or not np.isfinite(stop.best).all():
            return self.state.families
        assert self.state.best is not None
        return self.state.best

    def repeat(self, index: int) -> "Run":
        """One of the repeats, as a separate run."""
        key = repeat_keys(self.settings.key, self.settings.repeats)[index]
        parts = (self.state.families, self.state.states, self.state.skipped, self.state.streak)
        kept = only((self.state.best, self.state.start), index)
        return Run(
            replace(self.settings, key=key, repeats=1),
            self.step,
            RunState(*only(parts, index), self.state.stop.repeat(index), *kept),
            self.warmup_status[index : index + 1],
            tuple(Remark(w.kind, str(w), w.unknowns) for w in self.warnings if index in w.repeats),
        )


@dataclass(frozen=True)
class Unattached:
    """What a fit file holds for the target that it was loaded without.

    Attributes:
        state_leaves: The arrays of the objective's states.
        fingerprint: Of the target, see `sivi.targets.fingerprint`.
        objective: The objective as the file describes it, with its arrays.
        why_no_objective: Why the objective could not be read, in a sentence; None if it could.
    """

    state_leaves: tuple[np.ndarray, ...]
    fingerprint: np.ndarray
    objective: tuple[Any, list[np.ndarray]] | None
    why_no_objective: str | None = None

    def repeat(self, index: int) -> "Unattached":
        """What is held of one of the repeats."""
        return replace(self, state_leaves=tuple(leaf[index : index + 1] for leaf in self.state_leaves))


class OfRun:
    """What is made by a run says of it; a base of what `fit` returns.

    Attributes:
        run: Its settings, its step and its state.
    """

    run: Run

    @property
    def repeats(self) -> int:
        """Number of independent fits."""
        return self.run.settings.repeats

    @property
    def settings(self) -> FitSettings:
        """What the run was asked to do."""
        return self.run.settings

    @property
    def key(self) -> PRNGKeyArray:
        """The run's key."""
        return self.run.settings.key

    @property
    def step(self) -> int:
        """Updates done."""
        return self.run.step

    @property
    def num_steps(self) -> int:
        """Updates asked for, at most; `finished` says whether the fit is complete."""
        return self.run.settings.num_steps

    @property
    def finished(self) -> bool:
        """Whether the fit is complete: at `num_steps`, or where its stop rule has ended it."""
        return self.run.finished

    @property
    def skipped(self) -> tuple[int, ...]:
        """Updates that were not finite and left out, by repeat."""
        return tuple(map(int, self.run.state.skipped))

    @property
    def warmup_status(self) -> tuple[str, ...]:
        """How the coordinates were found, by repeat.

        `"settled"`, `"not settled"` (not yet at rest), `"ran away"` (no curvature held it) or `"never moved"` (no start
        found a way); `"not run"` for given coordinates, `"unknown"` for files that do not say.
        """
        return self.run.warmup_status or (UNKNOWN,) * self.repeats

    @property
    def warnings(self) -> tuple[Remark, ...]:
        """What the fit said of itself when it ended, a sentence each, with its `kind` and the `unknowns` concerned.

        Empty if nothing was found, which does not prove a good fit. The same sentences were issued as one
        `sivi.FitWarning`.
        """
        return self.run.warnings

    @property
    def objective(self) -> Any:
        """How it was fitted; None if the file could not hold it."""
        return self.run.settings.objective

    @property
    def families(self) -> Family:
        """The fitted families, in u, in one tree whose arrays have a leading axis of repeats."""
        return self.run.families
