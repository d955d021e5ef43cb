"""Where the kernels were before `sivi.kernels`: programs that import them from here go on working."""

from ..kernels import GaussianKernel, IMQKernel, Kernel, RadialKernel, RieszKernel

__all__ = ["GaussianKernel", "IMQKernel", "Kernel", "RadialKernel", "RieszKernel"]
