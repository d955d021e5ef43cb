"""Files written whole or not at all."""

import contextlib
import functools
import os
import secrets
import socket
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Seconds after which a temporary file is taken for a leftover, where nobody can say whether its process still runs.
_DAY = 86_400.0
#: Temporary files that this process is writing now.
_IN_USE: set[Path] = set()


def write_whole(
    path: Path, write: Callable[[Path], Any], before: Callable[[os.stat_result], None] | None = None
) -> None:
    """Call `write` on a temporary name beside `path`, with its ending, and rename it when all is on the disk.

    A link is followed, so that the file stays where it is; permissions of a file that is replaced are kept.

    Args:
        path: The file.
        write: Writes it, under the name that it is called with.
        before: Called with the status of the new file just before it gets its name.
    """
    path = real_file(path)
    temporary = path.with_name(f".{path.stem}.{_host()}-{os.getpid()}-{secrets.token_hex(8)}.tmp{path.suffix}")
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
    _IN_USE.add(temporary)
    try:
        # With its permissions from the start: what is private is never readable by others.
        # Its owner may write it, whatever they may do with the file that it replaces.
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if mode is None else mode | 0o200))
        write(temporary)
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(temporary, mode)
        if before is not None:
            before(os.stat(temporary))
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    finally:
        _IN_USE.discard(temporary)


def remove_leftovers(path: Path) -> None:
    """Remove the temporary files that killed processes have left beside `path`; those of living ones stay."""
    path = real_file(path)
    with contextlib.suppress(OSError):
        for leftover in path.parent.glob(f".{_escaped(path.stem)}.*.tmp{_escaped(path.suffix)}"):
            owner = leftover.name[len(path.stem) + 2 : -len(f".tmp{path.suffix}")]
            with contextlib.suppress(OSError):
                if leftover not in _IN_USE and _is_dead(owner, leftover):
                    leftover.unlink()


def _is_dead(owner: str, file: Path) -> bool:
    """Whether the process that `owner` names (host-pid-token, or a pid alone, as version 0.1 wrote it) has ended."""
    host, _, pid = owner.rpartition("-")[0].rpartition("-") if "-" in owner else (_host(), "", owner)
    if not (pid.isascii() and pid.isdecimal()):
        return False
    if host != _host() or os.name == "nt":  # where Windows has signals for another purpose
        return time.time() - file.stat().st_mtime > _DAY
    if int(pid) == os.getpid():
        return True  # of an earlier process with this number: our own are in use
    return not _is_alive(int(pid))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True  # of another user, say
    return True


def real_file(path: str | os.PathLike[str]) -> Path:
    """Where `path` leads: a regular file, or a name that is free."""
    real = Path(os.path.realpath(path))
    if real.exists() and not real.is_file() and not real.is_dir():
        raise OSError(f"path must be a regular file; {str(real)!r} is a pipe or a device.")
    return real


@functools.cache
def _host() -> str:
    """A name for where process numbers mean something: this boot of this machine, and on Linux this container."""
    name = "".join(c for c in socket.gethostname() if c.isalnum())
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
        name += f"{boot}{os.stat('/proc/self/ns/pid').st_ino}"
    return name or "host"


def _escaped(name: str) -> str:
    """`name` in a pattern of `glob`."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)
