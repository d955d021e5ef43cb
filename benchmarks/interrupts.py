"""Ctrl-C at random moments of a small fit: whether it ends, how soon, with which exit code, and what files it leaves.

    python benchmarks/interrupts.py [--runs 300] [--minutes 15] [--seed 0] [--kinds command ...] [--add] [--out FILE]

Four kinds of runs take turns: `sivi fit` without a terminal, `sivi fit` on one, `sivi fit` with its check, and a script
that calls `sivi.fit`. Each updates 60 times with a visit after every update, so that as much as possible happens, and
writes its checkpoint each time. Programs come from a cache. A run is a fork of one process that has imported `sivi` and
has not started JAX, so that none waits for imports; every tenth is a process of its own, interrupted while it imports.
The moment is uniform over the time that a whole run takes, and the run says in shared memory what it is doing then.

A run has `lost` its interrupt if it goes on to its end, and `hung` if it is there after 30 seconds. A fit that was at
its end is not interrupted any more. With `--add` the counts are added to those of the file.
"""

import argparse
import collections
import json
import mmap
import os
import pty
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import sivi
from _common import RESULTS, environment, write
from sivi import cli
from sivi._fitting import driver, warming_up
from sivi._fitting import fit as fitting
from sivi._progress import ProgressBar
from sivi._storage import container
from sivi.cli import _draws, _fit, _output, _verdict

MODEL = """
import jax.numpy as jnp
dim = 2
def log_density(x):
    return -0.5 * jnp.sum((x - 1.0) ** 2) - 0.1 * jnp.sum(x**4)
"""
STEPS, LIMIT = 60, 30.0
KINDS = ("command", "terminal", "checked", "script")
#: What a run does, by the number that it writes to shared memory.
STAGES = (
    "import",
    "arguments",
    "model file",
    "tracing and compiling",
    "warm-up",
    "updates",
    "progress",
    "writing a file",
    "end of the fit",
    "draws",
    "figures",
    "check",
    "returned",
)
#: Exit codes of the script; that of a process that Python ends by the signal is -2.
INTERRUPTED, UNFINISHED = 130, 3


class Stage:
    """What a run does, for its parent to see."""

    def __init__(self) -> None:
        self._byte = mmap.mmap(-1, 1)

    def name(self) -> str:
        return STAGES[self._byte[0]]

    def set(self, name: str) -> None:
        self._byte[0] = STAGES.index(name)

    def around(self, place: Any, attribute: str, name: str) -> None:
        """From now on, calls of a function are a stage of their own."""
        function = getattr(place, attribute)

        def call(*args: Any, **kwargs: Any) -> Any:
            before, self._byte[0] = self._byte[0], STAGES.index(name)
            try:
                return function(*args, **kwargs)
            finally:
                self._byte[0] = before

        setattr(place, attribute, call)

    def watch(self) -> None:
        """Tell the stages of this process apart."""
        for place, attribute, name in (
            (_fit, "load_target", "model file"),
            (_fit, "fit", "tracing and compiling"),
            (sivi, "fit", "tracing and compiling"),
            (warming_up.WarmUp, "run", "warm-up"),
            (driver, "_stretch", "updates"),
            (ProgressBar, "update", "progress"),
            (container, "write_whole", "writing a file"),
            (_draws, "write_whole", "writing a file"),
            (_output, "write_whole", "writing a file"),
            (_verdict, "write_whole", "writing a file"),
            (fitting, "ended", "end of the fit"),
            (_fit, "entries", "draws"),
            (_fit, "write_draws", "draws"),
            (_fit, "_figures", "figures"),
            (_fit, "check", "check"),
        ):
            self.around(place, attribute, name)


def command(folder: Path, kind: str) -> list[str]:
    """The arguments of `sivi`."""
    arguments = ["fit", str(folder / "model.py"), "--out", str(folder / "run"), "--steps", str(STEPS)]
    return [*arguments, "--num-samples", "200", *([] if kind == "checked" else ["--no-check"])]


def run_command(folder: Path, kind: str) -> int:
    whole = _fit.fit
    _fit.fit = lambda *args, **settings: whole(*args, chunk_size=1, **settings)
    return cli.main(command(folder, kind))


def run_script(folder: Path, kind: str) -> int:
    namespace: dict[str, Any] = {}
    exec(MODEL, namespace)
    (folder / "run").mkdir(exist_ok=True)
    try:
        posterior = sivi.fit(
            namespace["log_density"],
            dim=2,
            num_steps=STEPS,
            chunk_size=1,
            progress=False,
            checkpoint=folder / "run" / "fit.sivi",
        )
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0 if posterior.finished else UNFINISHED


def child(stage: Stage, folder: Path, kind: str, is_watched: bool) -> None:
    """The process of one run, which does not return."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if kind != "terminal":
            out = os.open(folder / "said", os.O_CREAT | os.O_WRONLY)
            os.dup2(out, 1)
            os.dup2(out, 2)
        sys.stdout, sys.stderr = (open(i, "w", buffering=1, closefd=False) for i in (1, 2))  # noqa: SIM115
        stage.set("arguments")
        if is_watched:
            stage.watch()
        code = (run_script if kind == "script" else run_command)(folder, kind)
    except KeyboardInterrupt:
        traceback.print_exc()
        code = -signal.SIGINT
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        stage.set("returned")
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED if code == -signal.SIGINT else code)


def forked(stage: Stage, folder: Path, kind: str) -> tuple[int, int | None]:
    """Start a run: its process, and its terminal if it has one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX warns of forks; its threads have not started
        pid, terminal = pty.fork() if kind == "terminal" else (os.fork(), None)
    if pid == 0:
        child(stage, folder, kind, True)
    return pid, terminal


def wait(pid: int, terminal: int | None, said: bytearray, seconds: float) -> int | None:
    """The exit code of a process, or None if it is there after so many seconds."""
    end = time.monotonic() + seconds
    while True:
        if terminal is not None and select.select([terminal], [], [], 0.0)[0]:
            try:
                said += os.read(terminal, 65536)
            except OSError:  # the other end is closed
                terminal = None
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        left = end - time.monotonic()
        if left <= 0:
            return None
        time.sleep(min(0.002, left))


def one(kind: str, moment: float | None, work: Path) -> dict[str, Any]:
    """One run, interrupted at a moment, or not at all."""
    folder = Path(tempfile.mkdtemp(dir=work))
    (folder / "model.py").write_text(MODEL)
    stage, said, begin = Stage(), bytearray(), time.monotonic()
    pid, terminal = forked(stage, folder, kind)
    code = wait(pid, terminal, said, 10 * LIMIT if moment is None else moment)
    where, sent = stage.name(), time.monotonic()
    if code is None:
        os.kill(pid, signal.SIGINT)
        code = wait(pid, terminal, said, LIMIT)
        if code is None:
            os.kill(pid, signal.SIGKILL)
            wait(pid, terminal, said, LIMIT)
    elif moment is not None:
        where = "returned"
    seconds = time.monotonic() - (begin if moment is None else sent)
    if terminal is not None:
        os.close(terminal)
    else:
        said += (folder / "said").read_bytes()
    return {
        "kind": kind,
        "stage": where,
        "code": code,
        "seconds": seconds,
        "folder": folder,
        "said": said.decode(errors="replace"),
    }


def importing(moment: float | None, work: Path) -> dict[str, Any]:
    """One run in a process of its own, interrupted while it imports."""
    folder = Path(tempfile.mkdtemp(dir=work))
    (folder / "model.py").write_text(MODEL)
    line = [sys.executable, "-m", "sivi.cli", *command(folder, "command")]
    default = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.default_int_handler)}
    begin = time.monotonic()
    with open(folder / "said", "w") as said:
        process = subprocess.Popen(line, stdout=said, stderr=said, **default)  # type: ignore[call-overload]
        try:
            process.wait(moment)
        except subprocess.TimeoutExpired:
            begin = time.monotonic()
            process.send_signal(signal.SIGINT)
        try:
            code = process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = None
    seconds = time.monotonic() - begin
    text = (folder / "said").read_text()
    return {"kind": "import", "stage": "import", "code": code, "seconds": seconds, "folder": folder, "said": text}


def outcome(row: dict[str, Any]) -> str:
    """What became of an interrupt."""
    if row["stage"] == "returned":
        return "too late"
    if row["code"] is None:
        return "hung"
    if row["code"] in (INTERRUPTED, UNFINISHED, -signal.SIGINT):
        return "ended"
    if row["stage"] == "import" and row["code"] == 1 and "KeyboardInterrupt" in row["said"]:
        return "ended"  # NumPy makes an ImportError of it
    return "lost" if row["code"] in (0, 4) else "failed"


def bad_files(rows: list[dict[str, Any]]) -> list[str]:
    """What is wrong with the files that runs have left; a process of its own looks, so that JAX starts there."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pid = os.fork()
    if pid == 0:
        found = []
        try:
            for row in rows:
                for path in sorted(row["folder"].glob("run/.*")):
                    found.append(f"left: {row['kind']}, {row['stage']}: {path.name}")
                for path in row["folder"].glob("run/fit.sivi"):
                    try:
                        posterior = sivi.load(path)
                        if posterior.history["loss"].shape[-1] != posterior.step:
                            found.append(f"history: {row['kind']}, {row['stage']}")
                    except Exception as error:
                        found.append(f"unreadable: {row['kind']}, {row['stage']}: {error}")
            os.write(writer, json.dumps(found).encode()[:60_000])
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    return json.loads(text)


def counted(rows: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """How many of each outcome, by stage."""
    counts: dict[str, collections.Counter[str]] = {name: collections.Counter() for name in STAGES}
    for row in rows:
        counts[row["stage"]][row["outcome"]] += 1
    return {name: dict(sorted(counter.items())) for name, counter in counts.items() if counter}


def added(one: dict[str, dict[str, int]], other: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """The counts of two campaigns."""
    total = {name: collections.Counter(counts) for name, counts in one.items()}
    for name, counts in other.items():
        total.setdefault(name, collections.Counter()).update(counts)
    return {name: dict(sorted(total[name].items())) for name in STAGES if name in total}


def campaign(runs: int, seconds: float, seed: int, kinds: Sequence[str], work: Path) -> dict[str, Any]:
    """Interrupt so many runs, for so long at most."""
    rng, end = np.random.default_rng(seed), time.monotonic() + seconds
    lengths: dict[str, float] = {}
    starts: dict[str, Callable[[float | None], dict[str, Any]]] = {
        kind: lambda moment, kind=kind: one(kind, moment, work) for kind in kinds
    }
    for kind, run in starts.items():
        for _ in range(2):  # the first fills the cache of programs
            whole = run(None)
            assert whole["code"] in (0, 4), whole
            lengths[kind] = whole["seconds"]
    print("seconds of whole runs:", {kind: round(length, 2) for kind, length in lengths.items()}, flush=True)
    begin = time.monotonic()
    subprocess.run([sys.executable, "-c", "import sivi.cli"], check=True)
    lengths["import"] = time.monotonic() - begin
    starts["import"] = lambda moment: importing(moment, work)
    rows: list[dict[str, Any]] = []
    while len(rows) < runs and time.monotonic() < end:
        number = len(rows)
        kind = "import" if number % 10 == 9 else kinds[number % len(kinds)]
        row = starts[kind](float(rng.uniform(0.0, lengths[kind])))
        row["outcome"] = outcome(row)
        rows.append(row)
        if row["outcome"] not in ("ended", "too late") or "Exception ignored" in row["said"]:
            print(f"{row['outcome']}: {kind}, {row['stage']}, code {row['code']}\n{row['said'][-3000:]}\n", flush=True)
    ended = [row["seconds"] for row in rows if row["outcome"] == "ended"]
    return {
        "runs": len(rows),
        "by_stage": counted(rows),
        "printed_as_ignored": sum("Exception ignored" in row["said"] for row in rows),
        "tracebacks_outside_import": sum("Traceback" in row["said"] for row in rows if row["kind"] != "import"),
        "bad_files": bad_files(rows),
        "seconds_to_the_end": {
            "median": round(statistics.median(ended), 2),
            "99%": round(float(np.quantile(ended, 0.99)), 2),
            "most": round(max(ended), 2),
        },
        "seconds_of_a_whole_run": {kind: round(length, 2) for kind, length in lengths.items()},
        "slow": [[row["kind"], row["stage"], round(row["seconds"], 1)] for row in rows if row["seconds"] > 5.0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--add", action="store_true", help="add to the counts of the file")
    parser.add_argument("--out", type=Path, default=RESULTS / "interrupts.json")
    args = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="sivi-interrupts-"))
    try:
        found = campaign(args.runs, 60.0 * args.minutes, args.seed, args.kinds, work)
    finally:
        shutil.rmtree(work)
    campaigns = json.loads(args.out.read_text())["campaigns"] if args.add and args.out.exists() else []
    campaigns.append({"seed": args.seed, **found})
    total: dict[str, dict[str, int]] = {}
    for each in campaigns:
        total = added(total, each["by_stage"])
    summary: collections.Counter[str] = collections.Counter()
    for counts in total.values():
        summary.update(counts)
    content = {"summary": dict(summary), "by_stage": total, "campaigns": campaigns, "environment": environment()}
    write(args.out, content)
    print(json.dumps({name: content[name] for name in ("summary", "by_stage")}, indent=1))


if __name__ == "__main__":
    main()
