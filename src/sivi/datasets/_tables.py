"""Tables of numbers in the forms in which their origins publish them."""

import csv
import io

import numpy as np

from ._archive import read_arrays
from .splits import Pair


def from_compact(content: bytes) -> Pair:
    """An `.npz` file with `X` and `y`."""
    inputs, outputs = read_arrays(content, ("X", "y"))
    return inputs, outputs


def from_text(content: bytes) -> Pair:
    """Numbers between blanks, one row per line, the output last."""
    return _last_column(np.loadtxt(io.BytesIO(content), ndmin=2))


def from_csv(content: bytes, delimiter: str = ",", target: int = -1) -> Pair:
    """A line of names and then numbers, with the output in column `target`."""
    _, *rows = csv.reader(io.StringIO(content.decode()), delimiter=delimiter)
    table = np.array([row for row in rows if row], float)
    return np.delete(table, target, axis=1), table[:, target].copy()


def from_xls(content: bytes) -> Pair:
    """The first sheet of an Excel 97 workbook: a line of names and then numbers, the output last."""
    try:
        import xlrd
        from xlrd.biffh import XLRDError
        from xlrd.compdoc import CompDocError
    except ImportError as error:
        raise ImportError("an .xls file needs xlrd: pip install 'sivi[data]'") from error
    try:
        sheet = xlrd.open_workbook(file_contents=content).sheet_by_index(0)
    except (XLRDError, CompDocError) as error:
        raise ValueError(f"must be an .xls workbook, and is not: {error}") from error
    return _last_column(np.array([sheet.row_values(row) for row in range(1, sheet.nrows)], float))


def _last_column(table: np.ndarray) -> Pair:
    return table[:, :-1].copy(), table[:, -1].copy()
