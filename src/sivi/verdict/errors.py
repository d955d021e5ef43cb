"""Errors that a user's density raises while chains run, as one sentence."""

import contextlib
from collections.abc import Iterator

import equinox as eqx
import jax


@contextlib.contextmanager
def errors_of_the_density() -> Iterator[None]:
    """Within it, a density that raises where a chain has gone is a `ValueError` that says what to do."""
    try:
        yield
    except eqx.EquinoxRuntimeError as error:
        raise ValueError(_sentence(str(error))) from error
    except jax.errors.JaxRuntimeError as error:
        if "callback" not in str(error).lower():
            raise
        raise ValueError(_sentence(str(error).strip().splitlines()[-1])) from error


def _sentence(said: str) -> str:
    return (
        "target: the log density must be a number everywhere, -inf where the density is zero, and it raised an error "
        f"where a chain went: {said.strip()}"
    )
