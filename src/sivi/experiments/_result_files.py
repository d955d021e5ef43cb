"""Result files: of every job, so that nothing is done twice, and of an experiment, which the results page is made of.

They are written whole or not at all, and hold arrays without pickle. An experiment's combined result is one JSON file,
with one file of arrays where it has figures; the files of single jobs can then be thrown away.
"""

import hashlib
import io
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._errors import SiviError
from .._storage.atomic import write_whole
from .base import Experiment, Job, JobResult, Results


class DamagedFile(Exception):
    """A result file that is not what was written."""


class DamagedResults(SiviError, ValueError):
    """A combined result that cannot be read."""


def write_result(path: Path, content: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write `path`, a JSON file, and, if there are arrays, an `.npz` file beside it.

    The arrays go first, and the JSON file holds their checksum: a crash between the two, or a later change of
    either, is seen on reading.
    """
    checksum = None
    if arrays:
        stream = io.BytesIO()
        np.savez_compressed(stream, **arrays)  # pyright: ignore[reportArgumentType]
        checksum = hashlib.sha256(stream.getvalue()).hexdigest()
        write_whole(path.with_suffix(".npz"), lambda temporary: temporary.write_bytes(stream.getvalue()))
    text = _json_text({**content, "arrays_sha256": checksum})
    write_whole(path, lambda temporary: temporary.write_text(f"{text}\n"))


def _json_text(value: Any, depth: int = 0) -> str:
    """As `json.dumps` with an indent of 1, but for rows, flat dicts in a list, which have a line each."""
    if isinstance(value, Mapping) and value:
        brackets, items = "{}", [f"{_flat(str(k))}: {_json_text(v, depth + 1)}" for k, v in value.items()]
    elif isinstance(value, list | tuple) and value:
        brackets, items = "[]", [_flat(v) if _is_row(v) else _json_text(v, depth + 1) for v in value]
    else:
        return _flat(value)
    line = "\n" + " " * depth
    return f"{brackets[0]}{line} {f',{line} '.join(items)}{line}{brackets[1]}"


def _is_row(value: Any) -> bool:
    return isinstance(value, Mapping) and not any(isinstance(entry, Mapping) for entry in value.values())


def _flat(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def read_result(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What `write_result` wrote, or `DamagedFile`."""
    try:
        content = json.loads(path.read_text())
        checksum = content.pop("arrays_sha256")
        if checksum is None:
            return content, {}
        stored = path.with_suffix(".npz").read_bytes()
        if hashlib.sha256(stored).hexdigest() != checksum:
            raise DamagedFile(f"{path.with_suffix('.npz').name} does not belong to {path.name}")
        with np.load(io.BytesIO(stored), allow_pickle=False) as arrays:
            return content, dict(arrays)
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise DamagedFile(f"{path.name} cannot be read ({type(error).__name__}: {error})") from error


class JobCache:
    """A folder of job results.

    Args:
        folder: Made on the first write. It tells git to ignore it: what is kept is the combined result.
    """

    def __init__(self, folder: Path):
        self.folder = folder

    def read(self, job: Job) -> tuple[JobResult | None, str]:
        """The job's result, or None and why there is none: "" if it was never run."""
        path = self._path(job)
        if not path.exists():
            return None, ""
        try:
            content, arrays = read_result(path)
            if content["settings"] != job.settings:
                return None, "its settings have changed"
            return _result_from_json(content, arrays, content["environment"]), ""
        except (DamagedFile, KeyError, TypeError, ValueError) as error:
            return None, f"its result file is damaged: {error}"

    def write(self, result: JobResult) -> None:
        """Keep a result and clear the job's scratch folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        content = {**_result_to_json(result), "environment": result.environment}
        write_result(self._path(result.job), content, result.arrays)
        self._clear_scratch(result.job)

    def forget(self, job: Job) -> None:
        """Remove the job's result and whatever an unfinished run of it left."""
        self._path(job).unlink(missing_ok=True)
        self._clear_scratch(job)

    def scratch(self, job: Job) -> Path:
        """A folder for unfinished work on the job with exactly these settings."""
        digest = hashlib.sha256(json.dumps(job.settings, sort_keys=True).encode()).hexdigest()[:12]
        folder = self.folder / f"{job.name}.{digest}.partial"
        folder.mkdir(parents=True, exist_ok=True)
        (self.folder.parent / ".gitignore").write_text("*\n")
        return folder

    def _path(self, job: Job) -> Path:
        return self.folder / f"{job.name}.json"

    def _clear_scratch(self, job: Job) -> None:
        for folder in self.folder.glob(f"{job.name}.*.partial"):
            shutil.rmtree(folder, ignore_errors=True)


def result_name(name: str, mode: str) -> str:
    """File name without ending: a quick run does not overwrite a full one."""
    return name if mode == "full" else f"{name}-{mode}"


def command(results: Results) -> str:
    """What makes these results again."""
    return f"sivi paper run {results.experiment} --{results.mode} --seeds {results.seeds}"


def save(experiment: Experiment, results: Results, out: Path) -> Path:
    """Write `<out>/<name>.json` (`<name>-quick.json`) and the arrays beside it."""
    environments: list[Any] = []
    jobs = []
    for result in results.done:
        if result.environment not in environments:
            environments.append(result.environment)
        jobs.append({**_result_to_json(result), "environment": environments.index(result.environment)})
    content = {
        "format": 1,
        "experiment": experiment.name,
        "title": experiment.title,
        "paper": experiment.paper,
        "command": command(results),
        "mode": results.mode,
        "seeds": results.seeds,
        "missing": list(results.missing),
        "environments": environments,
        "summary": experiment.summary(results),
        "jobs": jobs,
    }
    arrays = {f"{result.job.name}/{name}": array for result in results.done for name, array in result.arrays.items()}
    path = out / f"{result_name(experiment.name, results.mode)}.json"
    write_result(path, content, arrays)
    return path


def load(name: str, mode: str, out: Path) -> Results | None:
    """What `save` wrote, or None if there is no such file."""
    path = out / f"{result_name(name, mode)}.json"
    if not path.exists():
        return None
    try:
        content, arrays = read_result(path)
        if content["format"] != 1:
            raise DamagedFile(f"{path.name} has format {content['format']}, not 1")
        done = []
        for job in content["jobs"]:
            prefix = f"{job['name']}/"
            of_job = {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}
            done.append(_result_from_json(job, of_job, content["environments"][job["environment"]]))
        return Results(name, content["mode"], content["seeds"], tuple(done), tuple(content["missing"]))
    except (DamagedFile, KeyError, TypeError, ValueError, IndexError) as error:
        raise DamagedResults(f"{path} is damaged ({error}): run `sivi paper run {name} --{mode}` again.") from error


def load_related(experiment: Experiment, mode: str, out: Path) -> dict[str, Results]:
    """Of the experiments that this one's figures use too, those that have been run in the same mode."""
    by_name = {name: load(name, mode, out) for name in experiment.related}
    return {name: results for name, results in by_name.items() if results is not None}


def _result_to_json(result: JobResult) -> dict[str, Any]:
    """All but the arrays and the environment."""
    return {
        "name": result.job.name,
        "settings": result.job.settings,
        "numbers": result.numbers,
        "seconds": round(result.seconds, 2),
        "resumed": result.resumed,
    }


def _result_from_json(content: dict[str, Any], arrays: dict[str, Any], environment: dict[str, Any]) -> JobResult:
    """The inverse of `_result_to_json`."""
    return JobResult(
        job=Job(content["name"], content["settings"]),
        numbers=content["numbers"],
        arrays=arrays,
        seconds=float(content["seconds"]),
        resumed=bool(content["resumed"]),
        environment=environment,
    )
