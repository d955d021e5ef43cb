"""Fits in the forms of other libraries; each of them is an extra, imported inside the function that needs it."""

from .arviz import to_arviz
from .blackjax import BlackJAXStart, blackjax_start

__all__ = ["BlackJAXStart", "blackjax_start", "to_arviz"]
