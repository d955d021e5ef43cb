"""The results page: every experiment that has been run, with the paper's numbers beside; its numbers and tables."""

from collections.abc import Mapping, Sequence

from ._result_files import command
from .base import Experiment, Results

_HEAD = """\
# Results

<!-- Made by `sivi paper report` from the files of `sivi paper run`: do not edit. -->

The tables and figures of Yu and Zhang, Semi-implicit variational inference via score matching (ICLR 2023), made again
with this library. Under each heading stands the command that makes it; `sivi paper report` then writes this page.\
"""

_QUICK = (
    "**A quick run**, with fewer updates, seeds and draws: it shows that everything works, and its numbers do not "
    "compare with the paper's."
)


def number(value: float, digits: int = 4) -> str:
    """Fixed digits, with a real minus sign, and none at zero."""
    return f"{value:z.{digits}f}".replace("-", "−")


def mean_sd(mean: float, sd: float | None, digits: int = 4) -> str:
    """As the paper prints it, `mean (sd)`; of a single value, the value."""
    return number(mean, digits) if sd is None else f"{number(mean, digits)} ({number(sd, digits)})"


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]], text: int = 1) -> str:
    """A Markdown table; the first `text` columns are set to the left, the others, numbers, to the right."""
    lines = [header, [":--"] * text + ["--:"] * (len(header) - text), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page(experiments: Sequence[Experiment], results: Mapping[str, Results], images: Mapping[str, Sequence[str]]) -> str:
    """The page in MyST Markdown. An experiment that has not been run has no section; `sivi paper list` names it.

    Args:
        experiments: All there are, in order.
        results: By experiment, those that have been run.
        images: By experiment, links to its figures.
    """
    sections = [
        _section(experiment, results[experiment.name], images.get(experiment.name, ()))
        for experiment in experiments
        if experiment.name in results
    ]
    return "\n\n".join([_HEAD, *sections, _environments(results)]) + "\n"


def _section(experiment: Experiment, results: Results, images: Sequence[str]) -> str:
    count = f"{results.seeds} seed{'s' * (results.seeds > 1)}"
    parts = [f"## {experiment.title}", f"{experiment.paper}. Made by `{command(results)}` ({count}, from 0)."]
    if results.mode != "full":
        parts.append(_QUICK)
    if results.missing:
        total = len(results.missing) + len(results.done)
        parts.append(f"**Incomplete:** {len(results.missing)} of {total} jobs are missing.")
    parts.append(experiment.report(results))
    parts += [f"![{experiment.title}]({link})" for link in images]
    return "\n\n".join(parts)


def _environments(results: Mapping[str, Results]) -> str:
    """On what the numbers were computed, with the experiments that share it named together."""
    experiments: dict[str, list[str]] = {}
    for name, result in results.items():
        for text in {_environment_text(job.environment) for job in result.done}:
            experiments.setdefault(text, []).append(name)
    lines = [f"- {', '.join(names)}: {text}" for text, names in sorted(experiments.items())]
    return "\n\n".join(["## Versions and machines", "\n".join(lines)])


def _environment_text(environment: Mapping[str, Mapping[str, object]]) -> str:
    machine = environment["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in environment["versions"].items())
    cores = f"{machine['cores']} core{'s' * (machine['cores'] != 1)}"
    return f"{machine['platform']}, device {machine['device']}, {cores} a job; {versions}."
