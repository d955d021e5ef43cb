"""Settings of objectives and families as text, the same in every process."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import numpy as np


def describe(value: Any) -> str:
    """Class names and fields, functions by name, arrays by dtype and shape.

    `repr` would show addresses of functions, which differ from run to run, and leave out fields at their defaults,
    so that a changed default would go unseen. Fields that are None, and so say nothing, are left out.

    Example:
        >>> from sivi.schedules import StepDecay
        >>> describe(StepDecay(1e-3, factor=0.9, every=1000))
        'StepDecay(initial=0.001, factor=0.9, every=1000)'
    """
    if isinstance(value, (jax.Array, np.ndarray, jax.ShapeDtypeStruct)):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, eqx.Module):
        names = (field.name for field in dataclasses.fields(value))  # pyright: ignore[reportArgumentType]
        fields = {name: getattr(value, name) for name in names}
        given = [f"{name}={describe(field)}" for name, field in fields.items() if field is not None]
        return f"{type(value).__name__}({', '.join(given)})"
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(describe, value))}]"
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    return repr(value)
