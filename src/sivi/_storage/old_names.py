"""What earlier versions called things: the one table by which their fit files are read.

A row is added when a stored class or field gets another name, and never taken out. A field that a class gains needs a
default that is right as it stands: `__post_init__` is not run on reading.
"""

from typing import Any

#: Classes: old name → new name.
CLASSES: dict[str, str] = {
    "Anchored": "ControlVariate",
    "AxisView": "ArrayAsMatrix",
    "Bridge": "BridgedTarget",
    "StopState": "PlateauState",
}

#: Fields, by the new name of their class: old name → new name; None for a field that is gone.
FIELDS: dict[str, dict[str, str | None]] = {
    "Bridged": {"num_draws": "num_samples"},
    "PlateauState": {"bend": "decay_start"},
    "Timeline": {"bend": "decay_start"},
}

#: Entries of the header of format 2, which had them all on one level: old name → where they are in format 3.
_FORMAT_2 = {
    "num_steps": ("settings", "num_steps"),
    "batch_size": ("settings", "batch_size"),
    "batching": ("settings", "batching"),
    "precision": ("settings", "precision"),
    "anchored": ("settings", "control_variate"),
    "step": ("run", "step"),
    "skipped": ("run", "skipped"),
    "streak": ("run", "streak"),
}
_FORMAT_2_DEFAULTS = {"batching": "shuffle", "precision": None, "anchored": False}


def class_name(name: Any) -> Any:
    """Today's name of a class."""
    return CLASSES.get(name, name) if isinstance(name, str) else name


def field_names(cls: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Fields of a class under today's names."""
    renamed = FIELDS.get(cls, {})
    named = {renamed.get(name, name): value for name, value in fields.items()}
    return {name: value for name, value in named.items() if name is not None}


def from_format_2(header: dict[str, Any]) -> dict[str, Any]:
    """A header of format 2, written by version 0.1, as one of format 3."""
    header = {**_FORMAT_2_DEFAULTS, **header}
    upgraded: dict[str, Any] = {name: value for name, value in header.items() if name not in _FORMAT_2}
    upgraded |= {"format": 3, "settings": {}, "run": {}}
    for name, (group, entry) in _FORMAT_2.items():
        upgraded[group][entry] = header[name]
    return upgraded
