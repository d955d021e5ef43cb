"""The last table of the paper: RMSE and negative log likelihood on test rows, mean ± sd of ten runs."""

from typing import NamedTuple


class Published(NamedTuple):
    """One cell of each half of the table."""

    rmse: float
    rmse_sd: float
    nll: float
    nll_sd: float


_METHODS = ("sivi", "uivi", "sgld", "sivi-sm")


def _row(*cells: tuple[float, float, float, float]) -> dict[str, Published]:
    return {method: Published(*cell) for method, cell in zip(_METHODS, cells, strict=True)}


#: By dataset and method.
PUBLISHED: dict[str, dict[str, Published]] = {
    "boston": _row(
        (2.714, 0.08, 2.420, 0.09), (2.817, 0.11, 2.397, 0.07), (3.186, 0.09, 3.164, 0.08), (2.621, 0.10, 2.396, 0.13)
    ),
    "concrete": _row(
        (6.205, 0.12, 3.247, 0.04), (6.049, 0.10, 3.221, 0.11), (6.512, 0.06, 3.978, 0.05), (5.392, 0.09, 3.156, 0.03)
    ),
    "protein": _row(
        (4.818, 0.05, 2.994, 0.02), (4.908, 0.07, 3.016, 0.02), (4.768, 0.03, 2.979, 0.01), (4.903, 0.04, 3.015, 0.04)
    ),
    "power": _row(
        (4.13, 0.02, 2.853, 0.04), (4.134, 0.03, 2.852, 0.06), (4.067, 0.01, 2.965, 0.03), (4.086, 0.05, 2.854, 0.03)
    ),
    "winewhite": _row(
        (0.640, 0.03, 0.975, 0.02), (0.646, 0.04, 0.983, 0.04), (0.639, 0.01, 0.976, 0.01), (0.646, 0.06, 0.985, 0.07)
    ),
    "winered": _row(
        (0.577, 0.11, 0.871, 0.13), (0.675, 0.06, 1.074, 0.07), (0.651, 0.03, 0.983, 0.03), (0.560, 0.08, 0.836, 0.07)
    ),
    "yacht": _row(
        (1.902, 0.21, 2.147, 0.11), (2.1407, 0.18, 2.309, 0.09), (2.377, 0.11, 2.631, 0.08), (1.559, 0.15, 1.683, 0.18)
    ),
}
