"""A fit with its score and its seconds at several stops, which continues where an interrupted one ended.

Points of a curve lie after whole chunks of 500 updates, and timings use the same size: each size is a program of its
own, slow to compile on an accelerator.
"""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .._fitting.fit import fit
from .._fitting.report import FitReport
from .._storage.atomic import write_whole
from ..posterior import Posterior
from ..targets import Target
from ._fits import stored_fit

#: Updates between two visits to Python, in all full runs: every size compiles its own program, which is slow.
CHUNK = 500


def fit_curve(
    target: Target,
    stops: Sequence[int],
    scratch: Path,
    evaluate: Callable[[Posterior], dict[str, float | int]],
    *,
    chunk_size: int,
    **settings: Any,
) -> tuple[Posterior, list[dict[str, float | int]]]:
    """The posterior at the end, and a row of numbers for every stop.

    A row has `step`, `seconds` (of fitting alone, up to there, compiling included), `first` (those of the first chunk
    since the row before, which in the first row hold the compiling and the warm-up) and what `evaluate` says of the
    posterior so far. A curve that continues in another process compiles again, which `first` of its next row shows.

    Args:
        target: What is fitted.
        stops: Numbers of updates, ascending, and multiples of `chunk_size`; the last may instead be `num_steps`. A fit
            that ends before, as the default call may, has no later rows.
        scratch: Folder with the state at the last stop.
        evaluate: Numbers of a posterior, by name.
        chunk_size: Updates between two visits to Python.
        settings: Of `sivi.fit`.
    """
    between = [stop for stop in stops if stop % chunk_size and stop != settings.get("num_steps")]
    if between:
        raise ValueError(f"stops must be multiples of chunk_size, {chunk_size}, or num_steps; got {between}.")
    fit_file, rows_file = scratch / "fit.sivi", scratch / "rows.json"
    rows: list[dict[str, float | int]] = json.loads(rows_file.read_text()) if rows_file.exists() else []
    posterior = stored_fit(fit_file, target) if rows else None
    if posterior is None or posterior.step != rows[-1]["step"]:
        posterior, rows = None, []
    elif posterior.step >= stops[-1] or posterior.finished:
        return posterior, rows

    def look(report: FitReport) -> bool:
        nonlocal rows
        clock.tick()
        so_far = report.posterior()
        if report.step in stops or so_far.finished:
            seconds = (rows[-1]["seconds"] if rows else 0.0) + clock.elapsed
            row = {"step": report.step, "seconds": seconds, "first": clock.first, **evaluate(so_far)}
            so_far.save(fit_file)
            write_whole(rows_file, lambda temporary: temporary.write_text(json.dumps([*rows, row])))
            rows = [*rows, row]
            clock.reset()
        clock.go_on()
        return report.step >= stops[-1]

    clock = _Clock()
    arguments = settings if posterior is None else {"resume": posterior}
    posterior = fit(target, chunk_size=chunk_size, progress=False, callbacks=[look], **arguments)
    reached = posterior.step >= stops[-1] or posterior.finished
    if not reached or not rows or rows[-1]["step"] != posterior.step:
        raise KeyboardInterrupt  # Ctrl-C makes `fit` return what there is: not a result
    return posterior, rows


class _Clock:
    """Seconds of the chunks since the last reset, and of the first of them: it stands still from `tick` to `go_on`."""

    def __init__(self) -> None:
        self.reset()
        self.go_on()

    def reset(self) -> None:
        self.first = self.elapsed = 0.0

    def go_on(self) -> None:
        self._start = time.perf_counter()

    def tick(self) -> None:
        self.elapsed += time.perf_counter() - self._start
        self.first = self.first or self.elapsed
