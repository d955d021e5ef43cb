"""A posterior in a few lines: what was fitted, how, how long it took, how it ended, and what is said of it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .posterior import Posterior
    from .verdict.result import Verdict

_MOST_VARIABLES, _LONGEST = 6, 160


@dataclass(eq=False)
class Remembered:
    """What a posterior knows beside the fit itself. It is kept out of files, so that equal fits make equal files.

    Attributes:
        seconds: Those of the call of `fit` that ended it, with compiling and warm-up; None in a fit that was loaded.
        verdict: The last of `Posterior.check`.
    """

    seconds: float | None = None
    verdict: "Verdict | None" = None


def in_words(posterior: "Posterior") -> str:
    """What `print(posterior)` shows."""
    lines = [_what(posterior), f"  {_how(posterior)}", f"  {_end(posterior)}"]
    if posterior.target is not None:
        lines += [f"  {note}" for note in posterior.target.notes]
    said = posterior.warnings
    more = f"{len(said)}, all in .warnings; the first: " if len(said) > 1 else ""
    lines.append(f"  warnings: {more}{_first(said[0]) if said else 'none'}")
    verdict = posterior.verdict
    lines.append(f"  verdict: {'not checked yet, see .check()' if verdict is None else verdict.level}")
    return "\n".join(line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…" for line in lines)


def _what(posterior: "Posterior") -> str:
    variables = [
        f"{v.name}{list(v.shape) if v.shape else ''}{'' if v.constraint is None else f' ({v.constraint})'}"
        for v in posterior.layout.variables
    ]
    hidden = len(variables) - _MOST_VARIABLES
    names = ", ".join(variables[:_MOST_VARIABLES]) + (f" and {hidden:,} more" if hidden > 0 else "")
    rows = None if posterior.target is None else posterior.target.num_data
    data = "" if rows is None else f"; {rows:,} data"
    return f"posterior of {names}; {posterior.dim:,} free number{'s' if posterior.dim > 1 else ''}{data}"


def _how(posterior: "Posterior") -> str:
    settings, target = posterior.settings, "" if posterior.target is not None else ", loaded without its target"
    batch = "" if settings.batch_size is None else f", {settings.batch_size:,} data at a time"
    fits = "1 fit" if posterior.repeats == 1 else f"{posterior.repeats} repeats"
    return f"fitted by {_method(settings.objective)}: {fits}, {posterior.step:,} updates{batch}{target}"


def _method(objective: Any) -> str:
    """The class of an objective, in those of its wrappers."""
    if objective is None:
        return "an objective that its file could not hold"
    inner = getattr(objective, "objective", None)
    name = type(objective).__name__
    return name if inner is None else f"{name}({_method(inner)})"


def _end(posterior: "Posterior") -> str:
    at_most, rule = f"{posterior.num_steps:,} updates", posterior.settings.stop_rule
    if not posterior.finished:
        end = f"stopped before its end, at most {at_most}"
    elif rule is not None and posterior.step < posterior.num_steps:
        end = f"finished by {type(rule).__name__}, before {at_most}"
    else:
        end = "finished"
    seconds = "" if posterior.seconds is None else f" in {posterior.seconds:.1f} s"
    return f"{end}{seconds}; {sum(posterior.skipped):,} updates skipped"


def _first(text: str) -> str:
    """The first sentence of a text."""
    return f"{text.partition('. ')[0].rstrip('.')}."
