"""A fit beside a reference, unknown by unknown."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from .._tables import decimals_of, text_table
from ..samplers import SamplerRun
from .effects import bonferroni
from .findings import level_of
from .limits import LEVELS, LIMITS, NO_FAULT
from .result import Cost

_MOST_ROWS = 40


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """How draws differ from those of a reference; what `sivi.compare` returns.

    Numbers are those of the variables as `sample` returns them, constraints applied, one for each of their entries.
    They say something of the fit only if the reference is believed.

    Attributes:
        unknowns: Names of the entries.
        mean: Means of the fit.
        sd: Standard deviations of the fit.
        reference_mean: Means of the reference.
        reference_sd: Standard deviations of the reference.
        mean_error: (mean − reference mean) / reference sd; NaN where that is zero.
        mean_noise: Monte-Carlo standard error of `mean_error`, of both sets of draws.
        sd_ratio: sd / reference sd.
        sd_noise: Monte-Carlo standard error of log `sd_ratio`.
        ks: Kolmogorov-Smirnov distance, the largest difference of the two distribution functions.
        ks_noise: The distance that two exact sets of draws of these sizes have, about.
        reference: What it is compared with: "NUTS", "HMC" or "draws".
        doubts: Why the reference is not believed, a sentence each; empty if it is.
        notes: What else is to be said of it.
        cost: Seconds and gradients of the reference; zero for given draws.
        run: The chains of the reference; None for draws without chains.
    """

    unknowns: tuple[str, ...]
    mean: Float[np.ndarray, " entries"]
    sd: Float[np.ndarray, " entries"]
    reference_mean: Float[np.ndarray, " entries"]
    reference_sd: Float[np.ndarray, " entries"]
    mean_error: Float[np.ndarray, " entries"]
    mean_noise: Float[np.ndarray, " entries"]
    sd_ratio: Float[np.ndarray, " entries"]
    sd_noise: Float[np.ndarray, " entries"]
    ks: Float[np.ndarray, " entries"]
    ks_noise: Float[np.ndarray, " entries"]
    reference: str
    doubts: tuple[str, ...]
    notes: tuple[str, ...]
    cost: Cost
    run: SamplerRun | None

    @property
    def believed(self) -> bool:
        """Whether the reference has passed its own guards."""
        return not self.doubts

    @property
    def level(self) -> str | None:
        """A level by the limits of `sivi.check`, such as "no fault found"; None if the reference is not believed."""
        if not self.believed:
            return None
        levels = [level for i in range(len(self.unknowns)) for level in self._levels(i)]
        return max(levels, key=LEVELS.index, default=LEVELS[0])

    def _levels(self, i: int) -> list[str]:
        """Of mean, spread and distribution of an entry that is not constant, where they are more than noise."""
        if np.isnan(self.mean_error[i]):
            return []
        ratio = float(np.log(max(self.sd_ratio[i], 1e-300)))
        effects = [
            (self.mean_error[i], self.mean_noise[i], LIMITS["mean"]),
            (ratio, self.sd_noise[i], LIMITS["spread"]),
            (self.ks[i], self.ks_noise[i], LIMITS["probability"]),
        ]
        bound = bonferroni(3 * len(self.unknowns))
        return [
            level_of(effect, noise, limit) if abs(effect) > bound * noise else NO_FAULT
            for effect, noise, limit in effects
        ]

    def __str__(self) -> str:
        notes = [f"note: {note}" for note in self.notes]
        if not self.believed:
            why = " ".join(self.doubts)
            return "\n".join([f"The reference, {self.reference}, is not believed, so nothing is judged: {why}", *notes])
        return "\n".join([self._table(), "", *self._legend(), *notes])

    def __repr__(self) -> str:
        return str(self)

    def _table(self) -> str:
        header = ["variable", "mean", "sd", f"mean, {self.reference}", "sd", "mean error / sd", "sd ratio", "KS"]
        rows = []
        for i in self._shown():
            digits = decimals_of(self.reference_sd[i])
            both = (self.mean[i], self.sd[i], self.reference_mean[i], self.reference_sd[i])
            judged = [f"{self.mean_error[i]:+.3f} ± {self.mean_noise[i]:.3f}", f"{self.sd_ratio[i]:.2f}"]
            judged = [*judged, f"{self.ks[i]:.3f}"] if np.isfinite(self.mean_error[i]) else ["-"] * 3
            rows.append([self.unknowns[i], *(f"{value:.{digits}f}" for value in both), *judged])
        text = text_table(header, rows)
        left = len(self.unknowns) - len(rows)
        return text if not left else f"{text}\n({left:,} more, whose means are closer)"

    def _shown(self) -> list[int]:
        """All entries in their order, or those of the worst means."""
        order = np.argsort(-np.nan_to_num(np.abs(self.mean_error)), kind="stable")
        return sorted(order[:_MOST_ROWS].tolist()) if len(order) > _MOST_ROWS else list(range(len(order)))

    def _legend(self) -> list[str]:
        moving = np.isfinite(self.mean_error)
        if not moving.any():
            return ["Every unknown is constant in the reference, so nothing is judged."]
        worst = int(np.nanargmax(np.abs(self.mean_error)))
        ratio = self.sd_ratio[moving]
        lines = [
            f"{self.level}, against {self.reference}: means are at most {abs(self.mean_error[worst]):.3f} sd off (at "
            f"{self.unknowns[worst]}), sd ratios are {ratio.min():.2f} to {ratio.max():.2f}.",
            f"KS: the largest difference of distribution functions; for equal ones {np.nanmax(self.ks_noise):.3f}.",
        ]
        if self.run is not None:
            rhat, ess = np.nanmax(self.run.rhat), np.nanmin(self.run.ess)
            lines.append(
                f"R-hat of {self.reference}: at most {rhat:.3f}; divergences: {self.run.divergences:,}; it knows each "
                f"mean to {1 / np.sqrt(ess):.3f} sd or better."
            )
        if self.cost.seconds > 0.0:
            lines.append(f"cost of {self.reference}: {self.cost}")
        return lines
