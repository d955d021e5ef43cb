"""How it is fitted: one method per module.

`base`: the interface of an objective, and objectives with one differentiable loss.
`critic_objective`: a family and a critic updated in turn; `_minimax`: the minimax value, its critic g, and products of
minibatch scores without bias.
`score_matching`, `plug_in`: the Fisher divergence by that minimax, and the biased estimator it replaces.
`mixture_kl`: a bound of the reverse KL, with the mixture of the draws' own conditionals for q; the default up to 128
unknowns.
`path_kl`: the reverse KL by its path gradient, with a critic for the score of the family; the default above.
`surrogate_elbo`, `unbiased_elbo`: SIVI's lower bound of the ELBO (`log_mixture` is its mixture density), and UIVI.
`kernel_stein`: the kernel Stein discrepancy, where no critic is trained; its kernels are those of `sivi.kernels`.
`annealed`, `bridged`: wrappers of any of them that change the target on the way.
"""

from .._renamed import OBJECTIVES, renamed
from ..kernels import GaussianKernel, IMQKernel, Kernel, RieszKernel
from ._minimax import minimax
from .annealed import Annealed
from .base import Curve, LossObjective, Objective
from .bridged import Bridged
from .critic_objective import CriticObjective, CriticState
from .kernel_stein import KernelStein
from .mixture_kl import MixtureKL
from .path_kl import PathKL
from .plug_in import PlugInFisher
from .score_matching import ScoreMatching
from .surrogate_elbo import SurrogateELBO
from .unbiased_elbo import UnbiasedELBO

__all__ = [
    "Annealed",
    "Bridged",
    "CriticObjective",
    "CriticState",
    "Curve",
    "GaussianKernel",
    "IMQKernel",
    "Kernel",
    "KernelStein",
    "LossObjective",
    "MixtureKL",
    "Objective",
    "PathKL",
    "PlugInFisher",
    "RieszKernel",
    "ScoreMatching",
    "SurrogateELBO",
    "UnbiasedELBO",
    "minimax",
]

__getattr__ = renamed("sivi.objectives", OBJECTIVES)
