"""Draws as a table: a row for every entry of every unknown, with the columns of ArviZ."""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Float

from .._layout import Layout
from .._tables import decimals_of, text_table
from .diagnostics import effective_sample_size, mean_error, split_rhat

if TYPE_CHECKING:
    from pandas import DataFrame

#: The mass of the interval, as ArviZ has it.
DEFAULT_PROB = 0.89

_MOST_ROWS = 40  # of the text, first and last ones together


@dataclass(frozen=True, eq=False, repr=False)
class Summary:
    """Mean, standard deviation and equal-tailed interval of every entry, and how far they can be trusted.

    Columns are those of `arviz_stats.summary`, with its numbers: `mean`, `sd`, and the ends of the interval, such as
    `eti89_lb` and `eti89_ub` for a mass of 0.89. Then, for draws of Markov chains, `ess_bulk`, `r_hat` and `mcse_mean`.
    Draws of a fit are independent: an effective sample size would be about their number, and say nothing of the fit.
    So of these columns they have `r_hat` alone, and that only between repeats. Particles that depend on each other, as
    those of `svgd`, have none of them.

    Attributes:
        names: Of the rows: `mu`, `w[0]`.
        columns: An array (rows,) by name.
        said: What was summarised, in a few words.

    Example:
        >>> draws = np.random.default_rng(0).normal(size=(1, 4000, 2))
        >>> summary = Summary.of(draws, Layout.vector(2), independent=True)
        >>> summary.names, list(summary.columns)
        (('x[0]', 'x[1]'), ['mean', 'sd', 'eti89_lb', 'eti89_ub'])
        >>> summary.said
        '1 x 4,000 independent draws; interval: 89 %, equal tails; error of a mean: sd / 63'
    """

    names: tuple[str, ...]
    columns: dict[str, Float[np.ndarray, " rows"]]
    said: str

    @staticmethod
    def of(
        draws: Float[np.ndarray, "chains num_samples dim"],
        layout: Layout,
        *,
        prob: float = DEFAULT_PROB,
        independent: bool = False,
        interacting: bool = False,
        symmetric: bool = False,
    ) -> "Summary":
        """The summary of draws.

        Args:
            draws: (chains, num_samples, dim), unconstrained.
            layout: Names, shapes and constraints of the unknowns.
            prob: The mass of the interval.
            independent: Whether the draws of a chain are independent, as those of a fit.
            interacting: Whether the "chains" are particles that depend on each other.
            symmetric: Whether chains sit in equal modes, so that to compare them by unknowns says nothing.
        """
        if not 0.0 < prob < 1.0:
            raise ValueError(f"prob must be between 0 and 1; got {prob}.")
        values = np.asarray(jax.jit(jax.vmap(jax.vmap(layout.elements)))(draws), float)
        num_chains, num_samples = values.shape[:2]
        lower, upper = np.quantile(values, [(1.0 - prob) / 2.0, 1.0 - (1.0 - prob) / 2.0], axis=(0, 1))
        interval = f"eti{int(prob * 100)}"
        columns = {"mean": values.mean((0, 1)), "sd": values.std((0, 1))}
        columns |= {f"{interval}_lb": lower, f"{interval}_ub": upper}
        are_chains = not (independent or interacting)
        if are_chains:
            columns["ess_bulk"] = effective_sample_size(values)
        if num_chains > 1 and not (interacting or symmetric):
            columns["r_hat"] = split_rhat(values)
        if are_chains:
            columns["mcse_mean"] = mean_error(values)
        said = f"{num_chains} x {num_samples:,} {'independent draws' if independent else 'draws of Markov chains'}"
        said = f"{num_chains:,} particles that depend on each other" if interacting else said
        said += f"; interval: {100 * prob:g} %, equal tails"
        if independent:
            said += f"; error of a mean: sd / {np.sqrt(num_chains * num_samples):.0f}"
        if symmetric:
            said += "; each fit is in a mode of its own among equal ones, so look at predictions"
        return Summary(tuple(layout.element_names()), columns, said)

    def to_pandas(self) -> "DataFrame":
        """All rows as a pandas `DataFrame`, unrounded."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("Summary.to_pandas needs pandas: pip install pandas") from error
        return pd.DataFrame(self.columns, index=list(self.names))

    def __str__(self) -> str:
        header = ["", *self.columns]
        return f"{self.said}\n{text_table(header, list(self._cells(header)))}"

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        header = ["", *self.columns]
        rows = [header, *self._cells(header)]
        marked = [
            "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row)
            for tag, row in zip(["th"] + ["td"] * (len(rows) - 1), rows, strict=True)
        ]
        body = "".join(f"<tr>{row}</tr>" for row in marked)
        return f"<p>{escape(self.said)}</p><table>{body}</table>"

    def _cells(self, header: list[str]) -> Iterator[list[str]]:
        """The rows of the text: the first and last ones of many, and between them how many are hidden."""
        hidden = len(self.names) - _MOST_ROWS
        for i in range(len(self.names)):
            if hidden > 0 and i == _MOST_ROWS // 2:
                yield [f"… {hidden:,} more …"] + [""] * (len(header) - 1)
            if hidden <= 0 or not _MOST_ROWS // 2 <= i < _MOST_ROWS // 2 + hidden:
                decimals = decimals_of(float(self.columns["sd"][i]))
                yield [self.names[i], *(_cell(name, values[i], decimals) for name, values in self.columns.items())]


def _cell(column: str, value: Any, decimals: int) -> str:
    """A number of the text."""
    if column == "ess_bulk":
        return f"{value:,.0f}"
    if column == "mcse_mean":
        return f"{value:.2g}"
    return f"{value:.3f}" if column == "r_hat" else f"{value:.{decimals}f}"
