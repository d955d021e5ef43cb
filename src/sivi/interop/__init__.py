"""Fits in the forms of other libraries; each of them is an extra, imported inside the function that needs it."""

from .arviz import to_arviz

__all__ = ["to_arviz"]
