"""Arrays by name as ArviZ's datasets, with names and labels for their axes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from .._types import ArrayLike

if TYPE_CHECKING:
    from xarray import Dataset

_MISSING = "to_arviz needs arviz-base: pip install 'sivi[arviz]'"

#: Axes that ArviZ gives a meaning to.
_RESERVED = ("chain", "draw")


@dataclass(frozen=True)
class Labels:
    """Names for the axes of arrays, by the name of the array, and labels along these axes.

    Attributes:
        dims: As `Target.dims`.
        coords: As `Target.coords`.
    """

    dims: Mapping[str, Sequence[str]] = field(default_factory=dict)
    coords: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def dataset(self, arrays: Mapping[str, ArrayLike], sample_dims: Sequence[str]) -> "Dataset":
        """Arrays whose first axes are `sample_dims`, the same for all.

        A `/` in a name becomes a dot, and a name that xarray needs for an axis gets an underscore.
        """
        values = {name: np.asarray(array) for name, array in arrays.items()}
        ranks = {name: value.ndim - len(sample_dims) for name, value in values.items()}
        axes = {name: [_own(axis) for axis in self.dims.get(name, ())][:rank] for name, rank in ranks.items()}
        names = _names(ranks, {axis for own in axes.values() for axis in own if axis is not None})
        return dataset(
            {names[name]: value for name, value in values.items()},
            sample_dims,
            dims={names[name]: own for name, own in axes.items()},
            coords={_own(axis): np.asarray(list(labels)) for axis, labels in self.coords.items() if labels is not None},
        )


def dataset(arrays: Mapping[str, np.ndarray], sample_dims: Sequence[str], **settings: Any) -> "Dataset":
    """Arrays with ArviZ's names for the axes after `sample_dims`, and its attributes."""
    import sivi  # for its name and version

    return arviz_base().dict_to_dataset(
        arrays,
        sample_dims=list(sample_dims),
        inference_library=sivi,
        check_conventions=False,  # it warns of fewer draws than chains
        **settings,
    )


def arviz_base() -> ModuleType:
    """The package, or one sentence that says how to install it."""
    try:
        import arviz_base
    except ImportError as error:
        raise ImportError(_MISSING) from error
    return arviz_base


def _own(axis: str | None) -> str | None:
    """An axis of the target that is not taken for one of draws."""
    return f"{axis}_" if axis in _RESERVED else axis


def _names(ranks: Mapping[str, int], axes: set[str]) -> dict[str, str]:
    """A valid name in a `DataTree` for every array: no `/`, and none that an axis has."""
    dotted = {name: name.replace("/", ".") for name in ranks}
    numbered = (f"{dotted[name]}_dim_{i}" for name, rank in ranks.items() for i in range(rank))
    return dict(zip(dotted, _distinct(dotted.values(), {*_RESERVED, *axes, *numbered}), strict=True))


def _distinct(names: Iterable[str], taken: set[str]) -> Iterable[str]:
    for name in names:
        while name in taken:
            name += "_"
        taken.add(name)
        yield name
