"""Fits in the forms of other libraries, and their models as targets.

Each of them is an extra, imported inside the function that needs it.
"""

from .arviz import to_arviz
from .blackjax import BlackJAXStart, blackjax_start
from .inferencedata import to_inferencedata
from .numpyro import NumPyroModel, from_numpyro
from .pymc import PyMCModel, from_pymc

__all__ = [
    "BlackJAXStart",
    "NumPyroModel",
    "PyMCModel",
    "blackjax_start",
    "from_numpyro",
    "from_pymc",
    "to_arviz",
    "to_inferencedata",
]
