"""Fields of settings: one line each, with the name, the default and the check of what is given."""

from collections.abc import Callable, Iterable
from dataclasses import MISSING
from functools import partial
from typing import Any

import equinox as eqx

from ._arguments import (
    check_choice,
    check_count,
    check_flag,
    check_kind,
    check_number,
    check_optional,
    check_positive,
    check_share,
)


def checked_field(check: Callable[[str, object], Any], name: str, default: Any = MISSING) -> Any:
    """A static field that a check of `sivi._arguments` converts; without a default, it must be given."""
    return eqx.field(static=True, converter=partial(check, name), default=default)


def count_field(name: str, default: Any = MISSING, minimum: int = 1) -> Any:
    """A whole number of at least `minimum`. A default of None is for the class to replace."""
    return checked_field(partial(check_count, minimum=minimum), name, default)


def number_field(name: str, default: Any = MISSING) -> Any:
    """A finite number."""
    return checked_field(check_number, name, default)


def share_field(name: str, default: Any = MISSING, what: str = "a number in [0, 1)") -> Any:
    """A number in [0, 1); `what` says in an error what it must be."""
    return checked_field(partial(check_share, what=what), name, default)


def positive_field(name: str, default: Any = MISSING) -> Any:
    """A positive, finite number."""
    return checked_field(check_positive, name, default)


def optional_positive_field(name: str, default: float | None = None) -> Any:
    """A positive, finite number, or None."""
    return checked_field(partial(check_optional, check_positive), name, default)


def flag_field(name: str, default: Any = MISSING) -> Any:
    """True or False."""
    return checked_field(check_flag, name, default)


def choice_field(name: str, choices: Iterable[str], default: Any = MISSING) -> Any:
    """One of some names."""
    return eqx.field(static=True, converter=partial(check_choice, name, choices), default=default)


def module_field(name: str, kind: type, what: str, default: Any = MISSING) -> Any:
    """A module of the class `kind`; `what` says in an error what it must be."""
    return eqx.field(converter=partial(check_kind, name, kind, what), default=default)


def optional_module_field(name: str, kind: type, what: str) -> Any:
    """A module of the class `kind`, or None, which is the default."""
    check = partial(check_optional, lambda name, value: check_kind(name, kind, what, value))
    return eqx.field(converter=partial(check, name), default=None)
