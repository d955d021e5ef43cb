"""Compiled programs on disk, for the next command: JAX's own cache, in a folder of the user.

The library changes no configuration of JAX; the command line is an application, and this is the one place where it
does. What is read from the folder runs as code, so no other user may be able to write there.
"""

import argparse
import logging
import os
import stat
import sys
import tempfile
from pathlib import Path
from typing import Any

import jax

#: JAX's name of the folder; a user who has set it sees to the cache.
VARIABLE = "JAX_COMPILATION_CACHE_DIR"
#: Bytes in the folder beyond which what has not been used for longest is removed. A fit writes one or two million.
MAX_SIZE = 512 * 1024**2

#: XLA's name for the level of its log, and what JAX sets it to when it is imported.
_LEVEL, _LEVEL_OF_JAX = "TF_CPP_MIN_LOG_LEVEL", "1"

_LOGGER = logging.getLogger("sivi")


def add_cache_option(command: Any) -> None:
    """Add `--no-cache` to a command that compiles."""
    command.add_argument(
        "--no-cache", action="store_true", help="compile anew, and keep no compiled programs for the next command"
    )


def use_cache(args: argparse.Namespace) -> None:
    """Let JAX keep the compiled programs of a command that has the option, and find those of earlier ones.

    Worker processes do as well: they read the environment.
    """
    if getattr(args, "no_cache", None) is None:
        return
    if args.no_cache:
        _set({"jax_enable_compilation_cache": False})
        return
    _silence_xla()
    if getattr(jax.config, "jax_compilation_cache_dir", None):  # by the environment
        return
    folder = default_folder()
    try:
        make_private(folder)
        trim(folder, MAX_SIZE)
    except OSError as error:
        why = f"{error.strerror or error}"
        _LOGGER.warning("sivi: compiled programs are not kept: %s: %s", folder, why)
        return
    small = {"jax_persistent_cache_min_compile_time_secs": 0.0, "jax_persistent_cache_min_entry_size_bytes": -1}
    _set({"jax_compilation_cache_dir": str(folder), **small})


def _silence_xla() -> None:
    """Let XLA log nothing but what ends the process, unless the user has set its level.

    For every program that it reads, it says at length with which hints for the CPU that was compiled, as an error.
    """
    if os.environ.get(_LEVEL, _LEVEL_OF_JAX) == _LEVEL_OF_JAX:
        os.environ[_LEVEL] = "3"  # for processes that this one starts
        logger = logging.getLogger("jax")
        level = logger.level
        jax.config.update("jax_logging_level", "CRITICAL")
        logger.setLevel(level)  # of Python, which it changes as well


def _set(options: dict[str, Any]) -> None:
    """Set options of JAX, here and in processes that this one starts."""
    for name, value in options.items():
        jax.config.update(name, value)
        os.environ[name.upper()] = str(value)


def default_folder() -> Path:
    """The folder of compiled programs, in the user's cache."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "sivi" / "Cache" / "xla"
    caches = Path(os.environ.get("XDG_CACHE_HOME") or "")
    if not caches.is_absolute():  # as the specification of these folders says
        caches = Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return caches / "sivi" / "xla"


def make_private(folder: Path) -> None:
    """Make the folder, or raise an `OSError` that says why it cannot be used: others can write to it, say."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if hasattr(os, "getuid"):  # on Windows, the folders of a profile are its user's
        status = folder.stat()
        if status.st_uid != os.getuid():
            raise PermissionError("it belongs to another user")
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError("other users can write to it")
        for parent in folder.resolve().parents:
            mode = parent.stat().st_mode
            if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
                raise PermissionError(f"other users can write to {parent}")
    with tempfile.TemporaryFile(dir=folder):
        pass


def trim(folder: Path, max_size: int) -> None:
    """Remove what has not been used for longest, until the files in the folder have at most `max_size` bytes.

    JAX can do so itself, but needs a package for it that the library does not.
    """
    files = []
    for path in folder.iterdir():
        try:
            status = path.stat()
        except FileNotFoundError:  # another process has been here
            continue
        if stat.S_ISREG(status.st_mode):
            files.append((max(status.st_atime, status.st_mtime), status.st_size, path))
    left = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if left <= max_size:
            break
        path.unlink(missing_ok=True)
        left -= size
