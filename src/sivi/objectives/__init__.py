"""How it is fitted."""

from .annealed import Annealed
from .base import LossObjective, Objective
from .critic import CriticSpec, MLPCritic
from .minimax import CriticObjective, MinimaxState, minimax
from .plug_in import PlugInFisher
from .score_matching import ScoreMatching

__all__ = [
    "Annealed",
    "CriticObjective",
    "CriticSpec",
    "LossObjective",
    "MLPCritic",
    "MinimaxState",
    "Objective",
    "PlugInFisher",
    "ScoreMatching",
    "minimax",
]
