"""The waveform data: 21 noisy points of a wave, and which of three kinds it is; here, whether it is the second.

The 5000 rows are those of version 1 of the waveform generator in the UCI repository, as Yin and Zhou (2018) prepared
them and later papers on semi-implicit inference took them over: every feature standardised over all rows (test rows
too), a column of ones in front, label 0 for UCI's class 1 and 1 for its classes 0 and 2, and 400 rows for fitting. The
choice of rows is part of their file alone, so it is that file which is downloaded, and not UCI's.
"""

import io

import numpy as np
from scipy.io import loadmat

from ._archive import read_arrays
from ._entry import Address, CatalogueEntry, DataFile, FileFormat
from ._lookup import locate, missing, read_checked
from ._published import last_rows
from .base import Description, PosteriorReference
from .splits import Pair

_ADDRESS = Address(
    "https://raw.githubusercontent.com/mingzhang-yin/SIVI/7f33fe198287ceec70f46ebfecfb5ad3d8fbe507/data/waveform.mat"
)
_ORIGIN = DataFile(
    "waveform/waveform.mat", "6144205fd645b47cd887e886490b263ecf22f435864690cf51016b8c085558a9", (_ADDRESS,)
)
_COMPACT = DataFile("waveform/waveform.npz", "ba84c2520c9fcda6f25457fa21fd4f27d66e0c224b9accc2202752c27fd41e2a")
_REFERENCE = DataFile(
    "waveform/posterior_reference.npz", "81c85cad6e3929d29e3e307ff93a4266aab9fa7756ff7e20196d22fc78282fce"
)
_NAMES = ("X_train", "y_train", "X_test", "y_test")


def from_compact(content: bytes) -> Pair:
    """An `.npz` file with the arrays of the `.mat` file."""
    return _joined(*read_arrays(content, _NAMES))


def from_mat(content: bytes) -> Pair:
    """The MATLAB file of Yin and Zhou."""
    stored = loadmat(io.BytesIO(content), variable_names=list(_NAMES))
    return _joined(*(np.asarray(stored[name]) for name in _NAMES))


def _joined(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, y_test: np.ndarray) -> Pair:
    labels = np.concatenate([y.ravel(), y_test.ravel()]).astype(np.int32)
    return np.concatenate([x, x_test]).astype(np.float64), labels


ENTRY = CatalogueEntry(
    Description(
        name="waveform",
        title="Noisy mixtures of triangular waves",
        num_data=5000,
        num_features=22,
        target="the pair of waves",
        classes=("second pair", "first or third pair"),
        columns=("intercept", *(f"x{point}" for point in range(1, 22))),
        scaling="published: a column of ones, and features standardised over all 5000 rows, those for testing included",
        origin="Breiman, Friedman, Olshen and Stone, Classification and regression trees (1984); "
        "as prepared by Yin and Zhou, Semi-implicit variational inference (ICML 2018)",
        url="https://archive.ics.uci.edu/dataset/107",
        licence="CC BY 4.0",
    ),
    (FileFormat((_COMPACT,), from_compact), FileFormat((_ORIGIN,), from_mat)),
    lambda: last_rows(5000, 4600),
)


def load_reference() -> PosteriorReference:
    """The posterior of logistic regression on the 400 rows with prior N(0, 100 I).

    Mean and covariance are of 100,000 draws of Hamiltonian Monte Carlo (500 chains, largest R-hat 1.0004), `draws`
    every 25th of them. `others` has the last states of 1000 Langevin chains, without (`sgld`) and with (`mala`) accept
    step, the mode (`mode`, one row), and the 250 draws of a factorised Gaussian, `mean-field`, that Yin and Zhou stored
    with the data.
    """
    names = ("hmc_mean", "hmc_cov", "hmc_draws", "sgld", "mala", "laplace_map")
    mean, cov, draws, sgld, mala, mode = read_arrays(_content(_REFERENCE), names)
    (mean_field,) = read_arrays(_content(_COMPACT), ("beta_meanfield_vb_yin",))
    others = {"sgld": sgld, "mala": mala, "mode": mode[None], "mean-field": mean_field}
    return PosteriorReference("waveform", mean, cov, draws, others)


def _content(file: DataFile) -> bytes:
    here = locate(file)
    if here is None:
        remedy = (
            "`sivi.samplers.hmc` of `sivi.targets.LogisticRegression(*sivi.datasets.load('waveform').train)` makes "
            "its like"
        )
        raise missing("the reference posterior of waveform", file, "has no public origin", remedy=remedy)
    return read_checked(here[1], file)
