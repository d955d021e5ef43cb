"""What an experiment is: independent jobs, figures and a section of the results page made from them."""

import abc
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: `quick` shows that everything runs, in a minute or two; `full` is what the paper did.
MODES = ("quick", "full")


@dataclass(frozen=True)
class Job:
    """An independent unit of work, such as one fit.

    Attributes:
        name: Unique in its experiment; also the name of its file.
        settings: Everything its result depends on, as JSON values: a job whose settings have changed is run again.
    """

    name: str
    settings: Mapping[str, Any]

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", self.name):
            raise ValueError(f"a job's name must consist of a-z, 0-9 and -; got {self.name!r}.")
        # As they come back from a file: tuples become lists.
        object.__setattr__(self, "settings", json.loads(json.dumps(dict(self.settings), allow_nan=False)))


@dataclass(frozen=True)
class JobResult:
    """What a job gave.

    Attributes:
        job: The job.
        numbers: JSON values.
        arrays: Small arrays, what figures are drawn from.
        seconds: Wall time; of the last part only, if the job was resumed.
        resumed: Whether it continued an interrupted one.
        environment: Versions and kind of machine.
    """

    job: Job
    numbers: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    seconds: float = 0.0
    resumed: bool = False
    environment: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Results:
    """What there is of an experiment.

    Attributes:
        experiment: Its name.
        mode: `quick` or `full`.
        seeds: How many seeds.
        done: The results of the finished jobs.
        missing: Names of the jobs without a result.
        related: Results of the experiments that `Experiment.related` names, as far as there are any.
    """

    experiment: str
    mode: str
    seeds: int
    done: tuple[JobResult, ...]
    missing: tuple[str, ...] = ()
    related: Mapping[str, "Results"] = field(default_factory=dict, compare=False)

    def where(self, **settings: Any) -> list[JobResult]:
        """The finished jobs with these settings."""
        return [result for result in self.done if settings.items() <= _hashable(result.job.settings).items()]

    def first(self, **settings: Any) -> JobResult | None:
        """The first of `where`, or None."""
        return next(iter(self.where(**settings)), None)


def _hashable(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if isinstance(value, (str, int, float, bool))}


class Experiment(abc.ABC):
    """One table or figure of the paper."""

    #: On the command line.
    name: str
    #: In one line.
    title: str
    #: Where it is in the paper.
    paper: str
    #: How many seeds a full run has.
    full_seeds: int = 1
    #: Names of other experiments whose results its figures also use, where they have been run.
    related: tuple[str, ...] = ()

    def default_seeds(self, mode: str) -> int:
        """How many seeds are run unless the user gives a number."""
        return self.full_seeds if mode == "full" else 1

    @abc.abstractmethod
    def jobs(self, mode: str, seeds: int) -> list[Job]:
        """The work, in the order in which it is done."""

    @abc.abstractmethod
    def run_job(self, job: Job, scratch: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Do one job.

        Args:
            job: One of `jobs`.
            scratch: A folder of this job's own, kept while it is unfinished: what an interrupted call left there,
                the next one finds.

        Returns:
            Numbers as JSON values, and small arrays.
        """

    def summary(self, results: Results) -> dict[str, Any]:
        """What the jobs say together, as JSON values: a table's cells."""
        return {}

    def figures(self, results: Results) -> dict[str, "Figure"]:
        """The figures by file name, without ending; panels of missing jobs stay empty."""
        return {}

    @abc.abstractmethod
    def report(self, results: Results) -> str:
        """The text and tables of the results page, in Markdown, with the paper's numbers beside ours."""
