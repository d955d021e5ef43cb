"""A posterior as `pickle` takes it: the bytes of its fit file, and beside them its target if that can be pickled.

Families and objectives hold functions of JAX that cannot be pickled; the fit file names classes and settings instead.
The library itself unpickles nothing: whoever unpickles a posterior runs `from_pickled` with these arguments.
"""

import pickle
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from .._repeats import member_of
from ..families import Family
from ..posterior import Posterior
from ..targets import Target
from . import codec
from .fit_file import read_fit


def pickled(posterior: Posterior) -> tuple[Callable[..., Posterior], tuple[Any, ...]]:
    """What `Posterior.__reduce__` returns.

    Raises:
        pickle.PicklingError: The family is of the user's own class, and cannot be pickled.
    """
    family = None if _storable(posterior.families) else member_of(posterior.families, 0)
    why = _why_not(family)
    if why is not None:
        raise pickle.PicklingError(
            f"the posterior cannot be pickled, since its family {type(family).__name__}, which is no class of sivi, "
            f"cannot ({why}): posterior.save and sivi.load(path, family=...) work."
        )
    target = posterior.target if _why_not(posterior.target) is None else None
    return from_pickled, (bytes_of(posterior), family, target)


def from_pickled(content: bytes, family: Family | None, target: Target | None) -> Posterior:
    """The posterior of `pickled`; without its target where that could not be pickled, as a fit that was loaded."""
    posterior = from_bytes(content, family)
    return posterior if target is None else replace(posterior, target=target, layout=target.layout)


def bytes_of(posterior: Posterior) -> bytes:
    """The content of the posterior's file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "fit.sivi"
        posterior.save(file)
        return file.read_bytes()


def from_bytes(content: bytes, family: Family | None = None) -> Posterior:
    """The posterior of such a file, without its target."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "fit.sivi"
        file.write_bytes(content)
        return read_fit(file, family)


def _storable(families: Family) -> bool:
    """Whether a file can hold a family by the name of its class."""
    try:
        codec.encode(families, [])
    except codec.NotStorable:
        return False
    return True


def _why_not(part: Any) -> str | None:
    """Why something cannot be pickled, in a few words; None if it can."""
    try:
        pickle.dumps(part)
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split()).rstrip('.')}"[:120]
    return None
