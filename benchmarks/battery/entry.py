"""What an entry of the battery is: a posterior as a user would write it, what is judged of it, and its bars."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np

#: A target or a function, and what else `sivi.fit` needs to know of it: nothing, `dim` or `like`.
Problem = tuple[Any, dict[str, Any]]

SPLIT: dict[str, dict[str, str]] = json.loads((Path(__file__).parent / "split.json").read_text())["posteriors"]

#: A number of `measure` → the least and the largest value allowed; None where there is no such bound.
Bars = Mapping[str, tuple[float | None, float | None]]

EVERYDAY: Bars = {
    "mean_error": (None, 0.1),
    "sd_ratio_min": (0.9, None),
    "sd_ratio_max": (None, 1.1),
    "ks": (None, 0.05),
}
#: Of every hard posterior.
SECONDS: Bars = {"seconds": (None, 150.0)}


def at_most(**bars: float) -> Bars:
    """Bars of a hard posterior."""
    return {name: (None, bar) for name, bar in bars.items()} | SECONDS


def sd_ratios(least: float, most: float) -> Bars:
    """Likewise, for its standard deviations."""
    return {"sd_ratio_min": (least, None), "sd_ratio_max": (None, most)} | SECONDS


@dataclass(frozen=True)
class Modes:
    """Where the modes are, and the mass at each: draws are counted by the nearest."""

    means: np.ndarray
    weights: np.ndarray

    def total_variation(self, draws: np.ndarray) -> float:
        """Between the weights and the shares of the draws."""
        nearest = ((draws[:, None, :] - self.means) ** 2).sum(-1).argmin(1)
        shares = np.bincount(nearest, minlength=len(self.weights)) / len(draws)
        return float(0.5 * np.abs(shares - self.weights).sum())


@dataclass(frozen=True, eq=False)
class Entry:
    """One posterior.

    Attributes:
        name: As in `split.json`, which says its part, kind and half.
        about: What it is, in a line.
        problem: Makes what is given to `sivi.fit`.
        bars: What its numbers are judged by; a hard posterior may have none but the seconds.
        exact: A generator and a number of draws → free numbers (num, dim); None where NUTS is the reference.
        judged: What is judged of free numbers (num, dim) → (num, quantities); the free numbers when left out.
        judged_names: What those are called.
        modes: For targets of separated modes.
        kl: Whether the k-NN estimate of KL(p ‖ q) is measured.
        nuts: Arguments of the reference's chains that are not the usual ones.
    """

    name: str
    about: str
    problem: Callable[[], Problem]
    bars: Bars = field(default_factory=lambda: EVERYDAY)
    exact: Callable[[np.random.Generator, int], np.ndarray] | None = None
    judged: Callable[[np.ndarray], np.ndarray] | None = None
    judged_names: tuple[str, ...] = ()
    modes: Modes | None = None
    kl: bool = False
    nuts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def part(self) -> str:
        return SPLIT[self.name]["part"]

    @property
    def kind(self) -> str:
        return SPLIT[self.name]["kind"]

    @property
    def half(self) -> str:
        return SPLIT[self.name]["half"]

    def quantities(self, free: np.ndarray) -> np.ndarray:
        """What is judged, of draws of the free numbers."""
        free = np.asarray(free, float)
        return free if self.judged is None else self.judged(free)

    @cached_property
    def free_names(self) -> list[str]:
        """A name for every free number, in the library's order of the unknowns."""
        target, what = self.problem()
        if "like" not in what:
            return [f"x[{i}]" for i in range(what.get("dim") or target.dim)]
        # Only what version 0.1 has too; a constraint is a leaf, with as many free numbers as its `size`.
        leaves = jax.tree_util.tree_flatten_with_path(what["like"], is_leaf=lambda leaf: hasattr(leaf, "log_det"))[0]
        names: list[str] = []
        for path, leaf in leaves:
            name = jax.tree_util.keystr(path, simple=True, separator=".")
            size = int(leaf.size if hasattr(leaf, "log_det") else np.size(leaf))
            names += [name] if size == 1 else [f"{name}[{i}]" for i in range(size)]
        return names

    @property
    def names(self) -> list[str]:
        """A name for every quantity that is judged."""
        return list(self.judged_names) or self.free_names

    @property
    def dim(self) -> int:
        return len(self.free_names)
