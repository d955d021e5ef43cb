"""What every plot shares: the optional import, the canvas, the colours."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Colours that keep their order of brightness in grey.
TARGET_COLOUR = "#1b3a5c"
SAMPLE_COLOUR = "#e07b28"
ARROW_COLOUR = "#4d4d4d"


def pyplot() -> Any:
    """matplotlib.pyplot, or a sentence that says what to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'sivi[plot]'") from error
    return plt


def axes_or_new(ax: "Axes | None", size: tuple[float, float] = (4.5, 4.5)) -> "Axes":
    """The given axes, or those of a new figure."""
    return pyplot().subplots(figsize=size, layout="constrained")[1] if ax is None else ax
