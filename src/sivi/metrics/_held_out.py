"""Held-out data, checked and brought into the structure and types of the model's data."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, PyTree

from .._arguments import default_float, describe, has_numbers
from .._types import ArrayLike
from ..targets import BayesianModel, StructuredModel
from ._draws import check_draws, check_same_dim


class HeldOut(NamedTuple):
    """Draws of a model's unknowns as its functions take them, and data in the structure of `model.data`.

    Both are where the caller has them; every array of the draws has a leading axis.
    """

    draws: PyTree
    num_draws: int
    data: PyTree
    num_data: int

    def one_point(self) -> PyTree:
        """A draw by shapes and types alone."""
        return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], default_float()), self.draws)


def check_held_out(model: BayesianModel, draws: PyTree, data: PyTree) -> HeldOut:
    """Draws and data that belong to the model, or an error that names the argument, the rule and the value."""
    if not isinstance(model, BayesianModel):
        raise TypeError(f"model must be a sivi.targets.BayesianModel; got {describe(model)}.")
    points = _points(model, draws)
    treedef = jax.tree.structure(model.data)
    try:
        leaves = treedef.flatten_up_to(data)
        arrays = [
            _like(of_model, leaf) for of_model, leaf in zip(treedef.flatten_up_to(model.data), leaves, strict=True)
        ]
    except (TypeError, ValueError) as error:
        raise ValueError(f"data must have the structure of model.data, {treedef}; got {describe(data)}.") from error
    own_rows = [leaf.shape[1:] for leaf in jax.tree.leaves(model.data)]
    lengths = {array.shape[:1] for array in arrays}
    if [array.shape[1:] for array in arrays] != own_rows or len(lengths) != 1 or () in lengths or (0,) in lengths:
        raise ValueError(
            f"data must have rows of shapes {own_rows}, as model.data has, and one leading length of at least 1; "
            f"got arrays of shapes {[array.shape for array in arrays]}."
        )
    for of_model, array in zip(jax.tree.leaves(model.data), arrays, strict=True):
        _check_whole(of_model, array)
    checked = jax.tree.unflatten(treedef, arrays)
    model.check_data(checked)
    return HeldOut(points, len(jax.tree.leaves(points)[0]), checked, len(arrays[0]))


def _points(model: BayesianModel, draws: PyTree) -> PyTree:
    """Draws as the functions of the model take them: those of `sample`, or free vectors of a model with a structure."""
    structured = isinstance(model, StructuredModel) and not model.layout.is_vector
    if structured and not (isinstance(draws, (jax.Array, np.ndarray)) and model.layout.treedef.num_nodes > 1):
        layout = model.layout
        layout.check(draws, num_axes=1)
        arrays = [np.asarray(leaf) for leaf in layout.treedef.flatten_up_to(draws)]
        lengths = sorted({len(array) for array in arrays})
        if len(lengths) > 1 or lengths[0] == 0:
            raise ValueError(f"draws must share one leading length of at least 1; got {lengths}.")
        for name, array in zip(layout.names, arrays, strict=True):
            if not np.isfinite(array).all():
                raise ValueError(
                    f"draws must be finite; {int((~np.isfinite(array)).sum())} numbers of {name!r} are not."
                )
        return jax.tree.unflatten(layout.treedef, arrays)
    points = check_draws("draws", draws, minimum=1, dtype=default_float())
    check_same_dim(draws=points.shape[1], model=model.dim)
    return jax.tree.map(np.asarray, jax.vmap(model.point)(points)) if structured else points


def _like(of_model: Array, leaf: ArrayLike) -> Array | np.ndarray:
    """`leaf` as an array; one that is of numbers already is not copied, and lists become of the model's type."""
    if isinstance(leaf, (jax.Array, np.ndarray)) and has_numbers(leaf):
        return leaf
    array = np.asarray(leaf)
    return array if array.dtype.kind in "biuf" else np.asarray(leaf, of_model.dtype)


def _check_whole(of_model: Array, array: Array | np.ndarray) -> None:
    """Refuse what would change where the model has integers: 0.5, NaN, a number that is too large."""
    if of_model.dtype.kind not in "biu" or array.dtype == of_model.dtype:
        return
    values = np.asarray(array)
    with np.errstate(invalid="ignore"):
        changed = values[values.astype(of_model.dtype) != values]
    if changed.size:
        raise ValueError(
            f"data must fit the type {of_model.dtype} where model.data has it; "
            f"got {changed[0]:g}, and {changed.size} such values in all."
        )
