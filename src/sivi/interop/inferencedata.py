"""A posterior as ArviZ before 1.0 has it, and PyMC 5 with it: an `InferenceData`."""

# pyright: reportMissingImports=false
# The linters have an environment without PyMC.

from typing import TYPE_CHECKING

from .._types import KeyLike
from ..posterior import Posterior
from .arviz import to_arviz

if TYPE_CHECKING:
    from arviz import InferenceData

_MISSING = "to_inferencedata needs the ArviZ that PyMC 5 brings: pip install 'arviz<1'"

#: What is no group of an `InferenceData`.
_OWN_GROUPS = {"fit"}


def to_inferencedata(posterior: Posterior, num_samples: int = 1000, *, key: KeyLike) -> "InferenceData":
    """The draws of a fit for functions of PyMC 5, such as `pymc.sample_posterior_predictive`, and of ArviZ before 1.0.

    It holds what `posterior.to_arviz` does, without the traces of the fit. ArviZ 1.0 and later take that `DataTree`.

    Args:
        posterior: The fit.
        num_samples: Draws of every repeat.
        key: An int or a JAX key.

    Raises:
        ImportError: There is no ArviZ before 1.0.
    """
    try:
        from arviz import InferenceData
    except ImportError as error:
        raise ImportError(_MISSING) from error
    tree = to_arviz(posterior, num_samples, key)
    groups = {name: group.to_dataset() for name, group in tree.children.items() if name not in _OWN_GROUPS}
    return InferenceData(**groups)
