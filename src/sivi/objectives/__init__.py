"""How it is fitted."""

from .alternation import CriticObjective, CriticState
from .annealed import Annealed
from .base import LossObjective, Objective
from .bridged import Bridged
from .critic import CriticSpec, DenoisingCritic, FamilyCritic, MLPCritic
from .kernel_stein import KernelStein
from .kernels import GaussianKernel, IMQKernel, Kernel, RieszKernel
from .minimax import MinimaxObjective, minimax
from .path_kl import PathKL
from .plug_in import PlugInFisher
from .score_matching import ScoreMatching
from .structured_critic import StructuredCritic
from .surrogate_elbo import SurrogateELBO
from .unbiased_elbo import UnbiasedELBO

__all__ = [
    "Annealed",
    "Bridged",
    "CriticObjective",
    "CriticSpec",
    "CriticState",
    "DenoisingCritic",
    "FamilyCritic",
    "GaussianKernel",
    "IMQKernel",
    "Kernel",
    "KernelStein",
    "LossObjective",
    "MLPCritic",
    "MinimaxObjective",
    "Objective",
    "PathKL",
    "PlugInFisher",
    "RieszKernel",
    "ScoreMatching",
    "StructuredCritic",
    "SurrogateELBO",
    "UnbiasedELBO",
    "minimax",
]
