"""Fresh processes for what is timed: without compiled programs of earlier ones, or with a cache of them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["ROOT", "cold", "run_json", "warm"]

#: The checkout that this file belongs to.
ROOT = Path(__file__).resolve().parents[1]


def cold(root: Path | None = None) -> dict[str, str]:
    """The environment of a process that compiles everything, with the `src` of `root` or of this checkout in front."""
    environment = {name: value for name, value in os.environ.items() if not _of_the_cache(name)}
    paths = [str((root or ROOT).resolve() / "src"), environment.get("PYTHONPATH", "")]
    path = os.pathsep.join(part for part in paths if part)
    return environment | {"PYTHONPATH": path, "JAX_ENABLE_COMPILATION_CACHE": "false"}


def warm(folder: Path, root: Path | None = None) -> dict[str, str]:
    """The environment of a process that keeps all its compiled programs in a folder, and finds them there."""
    return cold(root) | {
        "JAX_ENABLE_COMPILATION_CACHE": "true",
        "JAX_COMPILATION_CACHE_DIR": str(folder),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


def run_json(script: Path | str, arguments: list[str], environment: dict[str, str], limit: float | None = None) -> Any:
    """What a script prints as its last line, which is JSON.

    Raises:
        RuntimeError: It failed; with the last line of its errors.
        subprocess.TimeoutExpired: It took longer than `limit` seconds.
    """
    command = [sys.executable, str(script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=limit)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [""])[-1]
        raise RuntimeError(f"exit {done.returncode}: {last}"[:500])
    return json.loads(done.stdout.splitlines()[-1])


def _of_the_cache(name: str) -> bool:
    return name.startswith("JAX_PERSISTENT_CACHE") or name in (
        "JAX_COMPILATION_CACHE_DIR",
        "JAX_ENABLE_COMPILATION_CACHE",
    )
