"""The waveform data: 21 noisy points of a wave, and which of three kinds it is; here, whether it is the second.

The 5000 rows are those of version 1 of the waveform generator in the UCI repository, as Yin and Zhou (2018) prepared
them and later papers on semi-implicit inference took them over: every feature standardised over all rows (test rows
too), a column of ones in front, label 0 for UCI's class 1 and 1 for its classes 0 and 2, and 400 rows for fitting. The
choice of rows is part of their file alone, so it is that file which is downloaded, and not UCI's.
"""

import io
from pathlib import Path

import numpy as np
from scipy.io import loadmat

from .base import Dataset, DatasetError, PosteriorReference, fetch, read_arrays, write_arrays

URL = "https://raw.githubusercontent.com/mingzhang-yin/SIVI/7f33fe198287ceec70f46ebfecfb5ad3d8fbe507/data/waveform.mat"
SHA256 = "6144205fd645b47cd887e886490b263ecf22f435864690cf51016b8c085558a9"

_FILE, _REFERENCE = "waveform/waveform.npz", "waveform/posterior_reference.npz"
_SHAPES = {"X_train": (400, 22), "y_train": (400,), "X_test": (4600, 22), "y_test": (4600,)}


def load_waveform() -> Dataset:
    """400 rows for fitting and 4600 for testing, of 22 features (the first is 1) and labels 0 and 1."""
    otherwise = "`sivi.datasets.download('waveform', folder)` fetches it into a folder."
    arrays = read_arrays(_FILE, list(_SHAPES), otherwise)
    _check(arrays, _FILE)
    return Dataset("waveform", (arrays["X_train"], arrays["y_train"]), test=(arrays["X_test"], arrays["y_test"]))


def load_waveform_reference() -> PosteriorReference:
    """The posterior of logistic regression on the 400 rows with prior N(0, 100 I).

    Mean and covariance are of 100,000 draws of Hamiltonian Monte Carlo (500 chains, largest R-hat 1.0004), `draws`
    every 25th of them. `others` has the last states of 1000 Langevin chains, without (`sgld`) and with (`mala`) accept
    step, the mode (`mode`, one row), and the 250 draws of a factorised Gaussian, `mean-field`, that Yin and Zhou stored
    with the data.
    """
    otherwise = (
        "It has no public origin; `sivi.samplers.hmc` of "
        "`sivi.targets.LogisticRegression(*sivi.datasets.load('waveform').train)` makes its like."
    )
    names = ("hmc_mean", "hmc_cov", "hmc_draws", "sgld", "mala", "laplace_map")
    arrays = read_arrays(_REFERENCE, names, otherwise)
    stored = read_arrays(_FILE, ("beta_meanfield_vb_yin",), otherwise)
    others = {"sgld": arrays["sgld"], "mala": arrays["mala"], "mode": arrays["laplace_map"][None]}
    others["mean-field"] = stored["beta_meanfield_vb_yin"]
    return PosteriorReference("waveform", arrays["hmc_mean"], arrays["hmc_cov"], arrays["hmc_draws"], others)


def download_waveform(folder: Path) -> Path:
    """Fetch the data and write them to `folder`, where `load_waveform` finds them."""
    stored = loadmat(io.BytesIO(fetch(URL, SHA256)), variable_names=list(_SHAPES))
    arrays = {name: np.asarray(stored[name]) for name in _SHAPES if name in stored}
    arrays = {
        name: np.ravel(array).astype(np.uint8) if name.startswith("y") else array.astype(float)
        for name, array in arrays.items()
    }
    _check(arrays, URL)
    path = folder / _FILE
    write_arrays(path, arrays)
    return path


def _check(arrays: dict[str, np.ndarray], source: str) -> None:
    shapes = {name: array.shape for name, array in arrays.items()}
    if shapes != _SHAPES:
        raise DatasetError(f"{source} must have arrays of the shapes {_SHAPES}; got {shapes}.")
