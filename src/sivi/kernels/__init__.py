"""Positive definite kernels between particles: one per module.

`base`: the interface, and kernels of the distance. `gaussian`, `imq`, `riesz`, `linear`: the kernels.
`sivi.objectives.KernelStein` measures with them, and `sivi.samplers.svgd` moves particles by them.
"""

from .base import Kernel, RadialKernel
from .gaussian import GaussianKernel
from .imq import IMQKernel
from .linear import LinearKernel
from .riesz import RieszKernel

__all__ = ["GaussianKernel", "IMQKernel", "Kernel", "LinearKernel", "RadialKernel", "RieszKernel"]
