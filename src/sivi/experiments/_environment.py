"""What stands beside every number: versions and the kind of machine."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import jax

_PACKAGES = ("sivi", "jax", "jaxlib", "equinox", "optax", "numpy", "scipy")


def environment() -> dict[str, Any]:
    """Versions and the kind of machine: no host name, no paths."""
    return {
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in _PACKAGES},
        "machine": {
            "platform": platform.machine(),
            "device": jax.devices()[0].device_kind,
            "cores": len(cores()),
        },
    }


def cores() -> list[int]:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "source tree"
