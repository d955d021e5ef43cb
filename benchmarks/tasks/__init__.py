"""The tasks of `default_call.py`; a new one is an entry in the `TASKS` of one of these files."""

from . import gaussian, named, planar, regression
from .task import Sizes, Task

TASKS: dict[str, Task] = {task.name: task for part in (planar, regression, gaussian, named) for task in part.TASKS}

__all__ = ["TASKS", "Sizes", "Task"]
