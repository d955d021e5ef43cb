"""What every sampler returns: draws, and what they are worth."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

import jax
import numpy as np
from jaxtyping import Array, Bool, Float

from .._layout import Layout
from .diagnostics import MIN_DRAWS, effective_sample_size, scale_sample_size, split_rhat
from .summary import DEFAULT_PROB, Summary

#: Draws per chain that thinning leaves at least: fewer say nothing about their dependence.
MIN_LEFT = 20


@dataclass(frozen=True, eq=False, repr=False)
class SamplerRun:
    """Draws of a target by chains (or particles), with their diagnostics.

    Attributes:
        draws: (chains, num_samples, dim), unconstrained, in the library's one ravel order.
        layout: The names and shapes of the unknowns.
        step_size: The last one used: one for all chains, or one per chain; None where it is not known.
        acceptance: Mean acceptance probability of each chain after warm-up; None for a sampler that accepts all.
        diverging: (chains, num_samples): whether the energy error blew up in the transition that led to a draw. More
            than a few such transitions mean that the sampler cannot enter some region of the target: the draws
            where they happen show which. None for a sampler without trajectories.
        max_depth_hits: For `nuts`, the transitions after warm-up that `max_doublings` cut short, all chains together:
            the trajectory had neither turned back nor diverged. None for other samplers.
        sampler: The name of the sampler, for printing.
        num_gradients: Of the target, all chains together, with the warm-up; None where they are not counted.
        interacting: Whether the "chains" are particles that move each other, as those of `svgd`. They are one set, not
            independent draws: R-hat and effective sample size are NaN, and `summary` leaves them out.

    Two runs are equal only if they are the same object. After `thinned`, `diverging` is that of the draws left, while
    `acceptance`, `max_depth_hits` and `num_gradients` are still those of the whole run.

    Example:
        >>> draws = np.random.default_rng(0).normal(size=(4, 250, 2))
        >>> run = SamplerRun(draws, Layout.vector(2), step_size=0.1)
        >>> run.flat().shape, bool((run.rhat < 1.05).all())
        ((1000, 2), True)
        >>> print(run)
        sampler run: 4 chains of 250 draws, 2 unknowns
          R-hat: at most 1.002, at x[0]
          effective sample size: at least 845 of 1,000 draws, at x[0]
    """

    draws: Float[np.ndarray, "chains num_samples dim"]
    layout: Layout
    step_size: float | Float[np.ndarray, " chains"] | None
    acceptance: Float[np.ndarray, " chains"] | None = None
    diverging: Bool[np.ndarray, "chains num_samples"] | None = None
    max_depth_hits: int | None = None
    sampler: str = "sampler run"
    num_gradients: int | None = None
    interacting: bool = False

    def __repr__(self) -> str:
        num_chains, num_samples, dim = self.draws.shape
        if self.interacting:
            first = f"{self.sampler}: {num_chains:,} particles, {dim:,} unknowns"
            return f"{first}\n  R-hat and effective sample size: not defined, the particles depend on each other"
        lines = [f"{self.sampler}: {num_chains:,} chains of {num_samples:,} draws, {dim:,} unknowns"]
        if num_samples < MIN_DRAWS:
            lines.append(f"R-hat and effective sample size: not known, of fewer than {MIN_DRAWS} draws a chain")
        elif np.isnan(self.rhat).all():
            lines.append("R-hat and effective sample size: not known, of chains that do not move")
        else:
            names = free_names(self.layout)
            worst, fewest = int(np.nanargmax(self.rhat)), int(np.nanargmin(self.ess))
            total = f"{num_chains * num_samples:,}"
            lines.append(f"R-hat: at most {self.rhat[worst]:.3f}, at {names[worst]}")
            size = f"{self.ess[fewest]:,.0f} of {total} draws, at {names[fewest]}"
            lines.append(f"effective sample size: at least {size}")
        if self.acceptance is not None:
            lines.append(f"acceptance: {self.acceptance.min():.2f} to {self.acceptance.max():.2f}")
        if self.diverging is not None:
            lines.append(f"divergences: {self.divergences:,}")
        if self.max_depth_hits is not None:
            lines.append(f"trajectories cut short: {self.max_depth_hits:,}")
        return "\n  ".join(lines)

    @property
    def divergences(self) -> int:
        """How many of the draws come from a transition that diverged, all chains together."""
        return 0 if self.diverging is None else int(self.diverging.sum())

    @cached_property
    def rhat(self) -> Float[np.ndarray, " dim"]:
        """Rank-normalised split R-hat per coordinate; NaN with fewer than 4 draws per chain."""
        return np.full(self.draws.shape[2], np.nan) if self.interacting else split_rhat(self.draws)

    @cached_property
    def ess(self) -> Float[np.ndarray, " dim"]:
        """Bulk effective sample size per coordinate, of all chains together; NaN with fewer than 4 draws per chain."""
        return np.full(self.draws.shape[2], np.nan) if self.interacting else effective_sample_size(self.draws)

    def flat(self) -> Float[np.ndarray, "all_draws dim"]:
        """All draws of all chains, chain after chain."""
        return self.draws.reshape(-1, self.draws.shape[2])

    def named(self) -> dict[str, Array]:
        """The draws by variable: name → `(chains, num_samples, *shape)`."""
        return jax.vmap(jax.vmap(self.layout.named))(self.draws)

    def summary(self, *, prob: float = DEFAULT_PROB) -> Summary:
        """Mean, standard deviation, interval and diagnostics of every entry, constraints applied.

        Args:
            prob: The mass of the interval, which leaves half of the rest on either side.
        """
        return Summary.of(self.draws, self.layout, prob=prob, interacting=self.interacting)

    def thinned(self, share: float = 0.9) -> "SamplerRun":
        """Every k-th draw of each chain, with the smallest k found that leaves draws nearly independent.

        That is: the effective sample size, measured anew on the draws left, is at least `share` of their number in
        every coordinate, for the coordinate itself and for its distance to the median (see `scale_sample_size`).

        Raises:
            ValueError: No k does that and leaves 20 draws per chain; or the draws are interacting particles.
        """
        if not 0.0 < share <= 1.0:
            raise ValueError(f"share must be in (0, 1]; got {share}.")
        if self.interacting:
            raise ValueError(f"thinned needs Markov chains; got {self.draws.shape[0]} particles of {self.sampler}.")
        num_samples, k, worth = self.draws.shape[1], 1, float("nan")
        while num_samples // k >= MIN_LEFT:
            every = slice((num_samples - 1) % k, None, k)
            worth = _worth(self.draws[:, every])
            if worth >= share:
                diverging = None if self.diverging is None else self.diverging[:, every]
                return replace(self, draws=self.draws[:, every], diverging=diverging)
            if np.isnan(worth):
                break
            # Thinning adds no information, so a k that leaves more draws than they are worth now need not be tried.
            k = max(k + 1, int(k * share / worth))
        raise ValueError(
            f"share: no thinning that leaves {MIN_LEFT} of the {num_samples} draws per chain reaches {share}; the last "
            f"one tried has an effective sample size of {worth:.2g} of its draws. Run longer chains."
        )


def free_names(layout: Layout) -> list[str]:
    """A name for every coordinate of the vector: that of the entry it makes, or its number where entries are more.

    Example:
        >>> from sivi.constraints import positive, simplex
        >>> free_names(Layout.like({"scale": positive(), "shares": simplex(3), "w": np.zeros(2)}))
        ['scale', 'shares (free number 0)', 'shares (free number 1)', 'w[0]', 'w[1]']
    """
    entries, names = iter(layout.element_names()), []
    for variable in layout.variables:
        of_entries = list(islice(entries, math.prod(variable.shape)))
        numbered = [f"{variable.name} (free number {i})" for i in range(variable.size)]
        names += of_entries if len(of_entries) == variable.size else numbered
    return names


def _worth(draws: Float[np.ndarray, "chains num_samples dim"]) -> float:
    """The smallest effective sample size, of location or scale, as a share of the number of draws.

    The halves of n draws that it is measured on are centred at their own means, which makes the estimate for
    independent draws too large by a factor 1 / (1 − 2/n); that is taken out.
    """
    sizes = np.minimum(effective_sample_size(draws), scale_sample_size(draws))
    half = draws.shape[1] // 2
    return float(sizes.min()) * (1.0 - 2.0 / half) / (draws.shape[0] * draws.shape[1])
