"""PyMC's graphs as JAX functions, with the settings of JAX and of the process left as they are."""

# pyright: reportMissingImports=false
# The linters have an environment without PyMC.

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

from jaxtyping import Array

from .._arguments import default_float

MISSING = "from_pymc needs PyMC: pip install 'sivi[pymc]'"


def pymc_package() -> ModuleType:
    """PyMC, or an error that says how to get it."""
    try:
        import pymc
    except ImportError as error:
        raise ImportError(MISSING) from error
    return pymc


def as_jax(model: Any, outputs: list[Any]) -> Callable[[dict[str, Array]], list[Array]]:
    """A function of the free variables of a model, by PyMC's names for their real numbers.

    Args:
        model: The `pymc.Model`.
        outputs: Graphs of the value variables of the model. Data are taken as they are now.
    """
    inputs = model.value_vars
    with _unchanged_settings():
        from pymc.sampling.jax import get_jaxified_graph

        try:
            function = get_jaxified_graph(inputs=inputs, outputs=outputs)
        except NotImplementedError as error:
            raise NotImplementedError(f"model has an operation that PyMC cannot run on JAX: {error}") from error

    def by_name(values: dict[str, Array]) -> list[Array]:
        with _without_notices():
            return list(function(*(values[variable.name] for variable in inputs)))

    return by_name


@contextlib.contextmanager
def _unchanged_settings() -> Iterator[None]:
    """PyTensor sets JAX's float type when its part for JAX is imported, and PyMC a number of devices: undone here."""
    import pytensor

    name = "XLA_FLAGS"
    flags = os.environ.get(name)
    try:
        # PyTensor then sets what is set already.
        with pytensor.config.change_flags(floatX="float64" if _global_x64() else "float32"):
            import pytensor.link.jax.dispatch
        with _without_notices():
            import pymc.sampling.jax  # noqa: F401

            yield
    finally:
        if flags is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = flags


def _global_x64() -> bool:
    """JAX's setting for the whole process: seen from another thread, where no `with jax.enable_x64(...)` hides it."""
    with ThreadPoolExecutor(1) as another:
        return another.submit(default_float).result() == "float64"


@contextlib.contextmanager
def _without_notices() -> Iterator[None]:
    """Without being told of float64 constants where JAX has float32, and of assertions that JAX leaves out."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Explicitly requested dtype", UserWarning)
        warnings.filterwarnings("ignore", "Skipping .* as JAX tracing would remove it", UserWarning)
        yield
