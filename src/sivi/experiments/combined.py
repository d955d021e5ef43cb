"""The combined result of an experiment: one JSON file, and one file of arrays where it has figures.

They hold all that the results page is made of; the files of single jobs can be thrown away.
"""

from pathlib import Path
from typing import Any

from .._errors import SiviError
from ._cache import result_from_json, result_to_json
from ._files import DamagedFile, read, write
from .base import Experiment, Results


class DamagedResults(SiviError, ValueError):
    """A combined result that cannot be read."""


def stem(name: str, mode: str) -> str:
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
        jobs.append({**result_to_json(result), "environment": environments.index(result.environment)})
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
    path = out / f"{stem(experiment.name, results.mode)}.json"
    write(path, content, arrays)
    return path


def load(name: str, mode: str, out: Path) -> Results | None:
    """What `save` wrote, or None if there is no such file."""
    path = out / f"{stem(name, mode)}.json"
    if not path.exists():
        return None
    try:
        content, arrays = read(path)
        if content["format"] != 1:
            raise DamagedFile(f"{path.name} has format {content['format']}, not 1")
        done = []
        for job in content["jobs"]:
            prefix = f"{job['name']}/"
            own = {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}
            done.append(result_from_json(job, own, content["environments"][job["environment"]]))
        return Results(name, content["mode"], content["seeds"], tuple(done), tuple(content["missing"]), out)
    except (DamagedFile, KeyError, TypeError, ValueError, IndexError) as error:
        raise DamagedResults(f"{path} is damaged ({error}): run `sivi paper run {name} --{mode}` again.") from error
