"""Draws of a posterior as a printed summary, a file and figures."""

import zipfile
from importlib.util import find_spec
from pathlib import Path

import jax
import numpy as np

from .._layout import Layout
from .._storage.atomic import write_whole
from .._tables import decimals_of, text_table
from ..plots import plot_marginals, plot_pairs
from ..posterior import Posterior
from ..samplers import split_rhat
from ._output import save_figure

_MOST_ROWS = 40  # of the printed summary
_MOST_PANELS, _MOST_PAIRS = 16, 5  # variables in the figures
_MOST_POINTS = 2000  # draws in the figure of pairs

COLUMNS, QUANTILES = ("mean", "sd", "5%", "50%", "95%"), (0.05, 0.5, 0.95)

NEEDS_ARVIZ = "a netCDF file needs ArviZ (pip install 'sivi[arviz]')"


def has_arviz() -> bool:
    """Whether all that a netCDF file takes is installed."""
    return all(find_spec(name) is not None for name in ("arviz_base", "h5netcdf", "h5py"))


def draws_each(posterior: Posterior, num_samples: int) -> int:
    """Draws of every repeat that together are at least `num_samples`."""
    return -(-num_samples // posterior.repeats)


def entries(posterior: Posterior, num_samples: int, seed: int) -> np.ndarray:
    """(repeats, draws, entries): all entries of all variables, constraints applied."""
    draws = posterior.unconstrained(draws_each(posterior, num_samples), seed, by_repeat=True)
    return np.asarray(jax.jit(jax.vmap(jax.vmap(posterior.layout.elements)))(draws))


def mixed(values: np.ndarray) -> np.ndarray:
    """The draws of all repeats as one set, in turn."""
    return np.swapaxes(values, 0, 1).reshape(-1, values.shape[-1])


def rows(layout: Layout, values: np.ndarray) -> list[dict[str, str | float]]:
    """What `summary` prints, of all entries, unrounded: for `--json`."""
    points = mixed(values).astype(float)
    found: list[dict[str, str | float]] = []
    columns = [points.mean(0), points.std(0), *np.quantile(points, QUANTILES, axis=0)]
    for i, name in enumerate(layout.element_names()):
        found.append({"name": name, **{key: float(column[i]) for key, column in zip(COLUMNS, columns, strict=True)}})
    if len(values) > 1:
        for row, value in zip(found, split_rhat(values.astype(float)), strict=True):
            row["rhat"] = float(value)
    return found


def summary(layout: Layout, values: np.ndarray) -> str:
    """A table of mean, sd and quantiles, one row per entry of a variable; with repeats also R-hat across them.

    Draws of one fit are independent, so there is no effective sample size to print.
    """
    names = layout.element_names()
    points = mixed(values).astype(float)
    columns = [points.mean(0), points.std(0), *np.quantile(points, QUANTILES, axis=0)]
    header = ["variable", *COLUMNS]
    rows = []
    for i, name in enumerate(names[:_MOST_ROWS]):
        decimals = decimals_of(columns[1][i])
        rows.append([name, *(f"{column[i]:.{decimals}f}" for column in columns)])
    if len(values) > 1:
        header.append("R-hat")
        # NaN where nothing moves, as the diagonal of a correlation matrix.
        rhat = split_rhat(values[:, :, :_MOST_ROWS].astype(float))
        rows = [[*row, "-" if np.isnan(value) else f"{value:.3f}"] for row, value in zip(rows, rhat, strict=True)]
    text = text_table(header, rows)
    if len(names) > len(rows):
        text += f"\n({len(names) - len(rows)} more in the file of draws)"
    if len(values) > 1:
        text += f"\nR-hat compares the {len(values)} independent fits; it is near 1 where they agree."
    return text


def write_draws(posterior: Posterior, path: Path, num_samples: int, seed: int) -> None:
    """Write the draws of `entries` by variable: `.nc` for ArviZ, with a chain per repeat, or `.npz`, plain arrays."""
    if path.suffix == ".nc":
        tree = posterior.to_arviz(draws_each(posterior, num_samples), seed)
        write_whole(path, lambda temporary: tree.to_netcdf(temporary, engine="h5netcdf"))
        return
    named = jax.jit(jax.vmap(posterior.layout.named))(posterior.unconstrained(num_samples, seed))

    def write_arrays(temporary: Path) -> None:
        # What numpy.savez writes; but that has arguments of its own, and cannot hold a variable called `file`.
        with zipfile.ZipFile(temporary, "w") as archive:
            for name, array in named.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, np.asarray(array), allow_pickle=False)

    write_whole(path, write_arrays)


def save_marginals_and_pairs(layout: Layout, values: np.ndarray, folder: Path) -> list[str]:
    """Draw marginals.png and, of two variables or more, pairs.png; return the names of the files."""
    points, names = mixed(values), layout.element_names()
    shown = _drawable(points)
    if not shown:
        return []
    first = shown[:_MOST_PANELS]
    save_figure(plot_marginals(points[:, first], names=[names[i] for i in first]), folder / "marginals.png")
    first = shown[:_MOST_PAIRS]
    if len(first) < 2 or len(points) < 2 * len(first):
        return ["marginals.png"]
    figure = plot_pairs(points[:_MOST_POINTS, first], names=[names[i] for i in first])
    save_figure(figure, folder / "pairs.png")
    return ["marginals.png", "pairs.png"]


def _drawable(points: np.ndarray) -> list[int]:
    """The columns that have a density, and pairwise too: neither constant nor a linear function of an earlier one."""
    kept: list[int] = []
    for i, column in enumerate(points[:_MOST_POINTS].T.astype(float)):
        if len(kept) == _MOST_PANELS:
            break
        if not np.isfinite(column).all() or column.std() <= 1e-6 * np.abs(column).max():
            continue
        if all(abs(np.corrcoef(column, points[:_MOST_POINTS, j])[0, 1]) < 1.0 - 1e-6 for j in kept):
            kept.append(i)
    return kept
