"""Auxiliary networks that an objective trains beside the family.

`base` says what a critic and its settings are. `mlp` is a perceptron from x to a vector. `structured` is built around
the family, and its size does not grow with `dim`.
"""

from .base import Critic, CriticSettings
from .mlp import MLPCritic
from .structured import StructuredCritic

__all__ = ["Critic", "CriticSettings", "MLPCritic", "StructuredCritic"]
