"""What a check found, in numbers and in words."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from .._arguments import check_count
from .._layout import Layout
from ..samplers.run import free_names
from . import limits
from .findings import Finding, worst_level

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .refined import Refined

#: Lines that a verdict prints, at most, and what they are given to.
_MOST_LINES, _MOST_MODES, _MOST_NOTES = 15, 4, 3
_PLOTTED, _MOST_OF_A_KIND = 12, 2


class Cost(NamedTuple):
    """Seconds, with compilation, and gradients of the target."""

    seconds: float
    gradients: int

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s, {self.gradients / 1e6:.2g} million gradients"


class ModeFound(NamedTuple):
    """A mode of the target.

    Attributes:
        place: Its highest point that was found, (dim,).
        mass: Its share of the target's probability; NaN if it was not weighed.
        error: Of the mass.
        share: The share of the draws that lie in it.
    """

    place: Float[np.ndarray, " dim"]
    mass: float
    error: float
    share: float


class Predicted(NamedTuple):
    """What draws predict, of a target that is judged by its predictions (`sivi.targets.HasSymmetries`).

    Attributes:
        names: Of the predictions that were judged.
        draws: For every row of `Verdict.draws`.
        late: For every row of `Verdict.late`.
    """

    names: tuple[str, ...]
    draws: Float[np.ndarray, "n predictions"]
    late: Float[np.ndarray, "m predictions"]


#: How the note on slow chains begins.
SLOW = "the full size of faults"
#: Notes of a check whose search for modes was interrupted, of one that found too many to weigh, and of heavy tails.
INTERRUPTED = "modes: interrupted"
MANY_MODES = "the weights of modes: the draws have more than {most}, which are taken as one"
HEAVY_TAILS = "standard deviations of {names}: one draw in a thousand makes more than a quarter of the variance"


@dataclass(frozen=True, eq=False, repr=False)
class Verdict:
    """Whether draws can be believed; what `sivi.check` returns.

    "no fault found" is not "correct": see `not_looked_at`, and a mode that no chain has reached is not seen.

    Attributes:
        findings: What is wrong, worst first.
        modes: Those of the target that were found; empty if they were not looked for, or none was found.
        cost: Seconds and gradients.
        not_looked_at: What was left out or cannot be said, and why.
        layout: Names, shapes and constraints of the unknowns.
        draws: Some of the draws that were judged, unconstrained.
        late: Draws carried on by chains on the target, modes by their masses.
        memory: From 0, where the chains have forgotten their starts, to 1, where they have not moved. Effects are
            understated where it is above about one half.
        repeats: Of a fit with several, the findings about each alone, by its own share of the chains. They do not count
            for the level, which is that of the draws of all repeats together, and of how these differ.
        slight: Where no chain found a fault, effects of single unknowns that are more than noise and beyond half their
            limits, worst first. They do not count for the level; `sivi.infer` refines where there are some.
        predicted: What the draws predict, where that was judged in place of the unknowns; else None.
    """

    findings: tuple[Finding, ...]
    modes: tuple[ModeFound, ...]
    cost: Cost
    not_looked_at: tuple[str, ...]
    layout: Layout
    draws: Float[np.ndarray, "n dim"]
    late: Float[np.ndarray, "m dim"]
    memory: float = float("nan")
    repeats: tuple[tuple[Finding, ...], ...] = ()
    slight: tuple[Finding, ...] = ()
    predicted: Predicted | None = None

    @property
    def level(self) -> str:
        """The level of the worst finding: "no fault found", "doubtful" or "bad"."""
        return worst_level(self.findings)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the check before its search for modes was done."""
        return INTERRUPTED in self.not_looked_at

    @property
    def refined(self) -> "Refined":
        """The draws carried on by the check's own chains: better than those that were judged, but not judged."""
        from .refined import Refined

        return Refined(self.late, self.layout, None, self.cost, "not judged")

    def __str__(self) -> str:
        lines = [f"{self.level} ({self.cost})"]
        tail = _mode_lines(self) + _repeat_lines(self) + _note_lines(self)
        lines += _finding_lines(self.findings, _MOST_LINES - len(lines) - len(tail))
        return "\n".join(lines + tail)

    def __repr__(self) -> str:
        return str(self)

    def plot(self, num_unknowns: int = _PLOTTED) -> "Figure":
        """Histograms of every unknown, on the unconstrained scale: the draws against the refined ones, worst first.

        Where predictions were judged, histograms are of these.

        Needs the packages of `pip install 'sivi[plot]'`.

        Args:
            num_unknowns: How many are shown, at most.
        """
        from ..plots import plot_marginals

        num_unknowns = check_count("num_unknowns", num_unknowns)
        if not len(self.draws) or not len(self.late):
            raise ValueError("there is nothing to plot: none of the draws is finite.")
        names, order = self._judged_names, self.worst_unknowns()[:num_unknowns]
        titles = [names[i] for i in order]
        draws, late = (self.draws, self.late) if self.predicted is None else self.predicted[1:]
        return plot_marginals(draws[:, order], late[:, order], names=titles, labels=("draws", "refined"))

    def worst_unknowns(self) -> list[int]:
        """Numbers of the unknowns, or of the predictions: first those with findings, worst first, then the others."""
        number = {name: i for i, name in enumerate(self._judged_names)}
        named = [number[name] for item in self.findings for name in item.unknowns if name in number]
        return list(dict.fromkeys([*named, *range(len(number))]))

    @property
    def _judged_names(self) -> Sequence[str]:
        return free_names(self.layout) if self.predicted is None else self.predicted.names

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the verdict to one file, whole or not at all; see `sivi.load_verdict`.

        Args:
            path: The file's name. An existing file is replaced.
        """
        from .files import save_verdict

        save_verdict(self, path)


def _finding_lines(findings: tuple[Finding, ...], room: int) -> list[str]:
    """The worst findings of every kind, the worst kind first, and how many more there are."""
    by_kind: dict[str, list[Finding]] = {}
    for item in findings:
        by_kind.setdefault(item.kind, []).append(item)
    each = _MOST_OF_A_KIND if len(findings) > room else room
    lines = []
    for kind, items in by_kind.items():
        lines += [f"  {item.level:8s}  {item.sentence}" for item in items[:each]]
        if len(items) > each:
            lines.append(f"            and {len(items) - each:,} more of this kind ({kind})")
    return lines if len(lines) <= room else [*lines[: room - 1], "            and more, in .findings"]


def place_text(place: Float[np.ndarray, " dim"]) -> str:
    """The first unknowns of a place, without the digits that climbing leaves."""
    rounded = np.where(np.abs(place) < 1e-4 * np.abs(place).max(initial=1e-12), 0.0, place)
    return "(" + ", ".join(f"{value:.3g}" for value in rounded[:4]) + (", …)" if len(place) > 4 else ")")


def _mode_lines(verdict: Verdict) -> list[str]:
    if len(verdict.modes) < 2:
        return []
    modes = sorted(verdict.modes, key=lambda mode: -np.nan_to_num(mode.mass))
    lines = [f"  modes     {len(modes)}, with their share of the target and of the draws:"]
    for mode in modes[:_MOST_MODES]:
        mass = "not weighed" if np.isnan(mode.mass) else f"{mode.mass:.3f} ± {mode.error:.3f}"
        lines.append(f"            {mass}, {mode.share:.3f} at {place_text(mode.place)}")
    if len(modes) > _MOST_MODES:
        lines.append(f"            and {len(modes) - _MOST_MODES} more, in .modes")
    return lines


def _repeat_lines(verdict: Verdict) -> list[str]:
    """Each repeat alone, if there is something to tell them apart by."""
    levels = [worst_level(own) for own in verdict.repeats]
    if len(set(levels)) < 2:
        return []
    by_level = {level: [str(i) for i, own in enumerate(levels) if own == level] for level in limits.LEVELS}
    return ["  repeats   each alone: " + "; ".join(f"{k} {', '.join(v)}" for k, v in by_level.items() if v)]


def _note_lines(verdict: Verdict) -> list[str]:
    notes: list[Any] = list(verdict.not_looked_at)
    if len(notes) > _MOST_NOTES:
        notes = [*notes[: _MOST_NOTES - 1], f"and {len(notes) - _MOST_NOTES + 1} more, in .not_looked_at"]
    lines = [f"  not seen  {note}" for note in notes]
    if verdict.level == limits.NO_FAULT:
        lines.append("  This does not prove the draws right: a mode that no chain reached is not seen.")
    return lines
