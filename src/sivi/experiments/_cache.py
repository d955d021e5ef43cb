"""The results of an experiment's jobs, one file each, so that nothing is done twice."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from ._files import DamagedFile, read, write
from .base import Job, JobResult


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
            content, arrays = read(path)
            if content["settings"] != job.settings:
                return None, "its settings have changed"
            return result_from_json(content, arrays, content["environment"]), ""
        except (DamagedFile, KeyError, TypeError, ValueError) as error:
            return None, f"its result file is damaged: {error}"

    def write(self, result: JobResult) -> None:
        """Keep a result and clear the job's scratch folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        content = {**result_to_json(result), "environment": result.environment}
        write(self._path(result.job), content, result.arrays)
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


def result_to_json(result: JobResult) -> dict[str, Any]:
    """All but the arrays and the environment."""
    return {
        "name": result.job.name,
        "settings": result.job.settings,
        "numbers": result.numbers,
        "seconds": round(result.seconds, 2),
        "resumed": result.resumed,
    }


def result_from_json(content: dict[str, Any], arrays: dict[str, Any], environment: dict[str, Any]) -> JobResult:
    """The inverse of `result_to_json`."""
    return JobResult(
        job=Job(content["name"], content["settings"]),
        numbers=content["numbers"],
        arrays=arrays,
        seconds=float(content["seconds"]),
        resumed=bool(content["resumed"]),
        environment=environment,
    )
