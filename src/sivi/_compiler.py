"""Options of XLA, which depend on the device, for the programs of the library.

On a GPU most of the time that XLA takes to compile is a search for the fastest matrix kernels. Those of Triton are
hardly faster than the library's own, of which one is chosen quickly where it is not verified.
"""

import jax

_WITHOUT_TRITON = {"xla_gpu_enable_triton_gemm": "False"}


def options() -> dict[str, str]:
    """For all programs."""
    return _WITHOUT_TRITON | {"xla_gpu_autotune_level": "1"} if jax.default_backend() == "gpu" else {}


def options_of_a_loop() -> dict[str, str]:
    """For the two large programs of a fit: on a CPU the last passes of LLVM take long, and make them no faster."""
    return {"xla_backend_optimization_level": "1"} if jax.default_backend() == "cpu" else options()


def options_of_a_start() -> dict[str, str]:
    """For programs that run once, or for a few hundred steps: on a GPU without any search."""
    if jax.default_backend() == "gpu":
        return _WITHOUT_TRITON | {"xla_gpu_autotune_level": "0"}
    return options_of_a_loop()


def options_of_one_run() -> dict[str, str]:
    """The same for small programs, whose options on a CPU are XLA's own."""
    return options_of_a_start() if jax.default_backend() == "gpu" else {}
