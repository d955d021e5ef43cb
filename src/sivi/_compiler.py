"""Options of XLA, which depend on the device, for the programs of the library.

On a GPU most of the time that XLA takes to compile is a search for the fastest matrix kernels. A default call ends
before that has paid. A long run searches: its updates can take half the time.
"""

import jax

_WITHOUT_TRITON = {"xla_gpu_enable_triton_gemm": "False"}
#: Updates from which on a search for kernels, of about half a minute, has paid if an update takes .6 ms less.
_LONG_RUN = 40_000


def options() -> dict[str, str]:
    """For all programs."""
    return _WITHOUT_TRITON | {"xla_gpu_autotune_level": "1"} if jax.default_backend() == "gpu" else {}


def options_of_a_loop() -> dict[str, str]:
    """For the two large programs of a fit: on a CPU the last passes of LLVM take long, and make them no faster."""
    return {"xla_backend_optimization_level": "1"} if jax.default_backend() == "cpu" else options()


def searches_kernels(num_steps: int) -> bool:
    """Whether the updates of a run are worth a search for the fastest kernels, with XLA's own options."""
    return num_steps >= _LONG_RUN and jax.default_backend() == "gpu"


def options_of_a_start() -> dict[str, str]:
    """For programs that run once, or for a few hundred steps: on a GPU without any search."""
    if jax.default_backend() == "gpu":
        return _WITHOUT_TRITON | {"xla_gpu_autotune_level": "0"}
    return options_of_a_loop()


def options_of_one_run() -> dict[str, str]:
    """The same for small programs, whose options on a CPU are XLA's own."""
    return options_of_a_start() if jax.default_backend() == "gpu" else {}
