"""Files written whole or not at all."""

import contextlib
import os
import secrets
import socket
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_DAY = 86_400.0  # seconds after which a leftover of another machine is taken for dead


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Call `write` on a temporary name beside `path`, with its ending, and rename it when all is on the disk.

    A link is followed, so that the file stays where it is; permissions of a file that is replaced are kept.
    """
    path = _regular(path)
    temporary = path.with_name(f".{path.stem}.{_host()}-{os.getpid()}-{secrets.token_hex(8)}.tmp{path.suffix}")
    try:
        write(temporary)
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        if path.exists():
            os.chmod(temporary, stat.S_IMODE(path.stat().st_mode))
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def remove_leftovers(path: Path) -> None:
    """Remove the temporary files that killed processes have left beside `path`; those of living ones stay."""
    path = _regular(path)
    with contextlib.suppress(OSError):
        for leftover in path.parent.glob(f".{_escaped(path.stem)}.*.tmp{_escaped(path.suffix)}"):
            owner = leftover.name[len(path.stem) + 2 : -len(f".tmp{path.suffix}")]
            with contextlib.suppress(OSError):
                if _is_dead(owner, leftover):
                    leftover.unlink()


def _is_dead(owner: str, file: Path) -> bool:
    """Whether the process that `owner` names (host-pid-token, or a pid alone, as version 0.1 wrote it) has ended."""
    host, _, pid = owner.rpartition("-")[0].rpartition("-") if "-" in owner else (_host(), "", owner)
    if not pid.isdigit():
        return False
    if host != _host():
        return time.time() - file.stat().st_mtime > _DAY
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def _regular(path: Path) -> Path:
    """Where `path` leads: a regular file, or a name that is free."""
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(f"path must be a regular file; {str(path)!r} is a pipe or a device.")
    return path


def _host() -> str:
    return "".join(c for c in socket.gethostname() if c.isalnum()) or "host"


def _escaped(name: str) -> str:
    """`name` in a pattern of `glob`."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)
