"""Numbers and tables of the results page."""

from collections.abc import Sequence


def number(value: float, digits: int = 4) -> str:
    """Fixed digits, with a real minus sign, and none at zero."""
    return f"{value:z.{digits}f}".replace("-", "−")


def mean_sd(mean: float, sd: float | None, digits: int = 4) -> str:
    """As the paper prints it, `mean (sd)`; of a single value, the value."""
    return number(mean, digits) if sd is None else f"{number(mean, digits)} ({number(sd, digits)})"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], text: int = 1) -> str:
    """A Markdown table; the first `text` columns are set to the left, the others, numbers, to the right."""
    lines = [header, [":--"] * text + ["--:"] * (len(header) - text), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
