"""The progress bar: refreshed once per chunk, silent where there is no terminal."""

from types import TracebackType

import numpy as np
from tqdm.auto import tqdm


class ProgressBar:
    """A tqdm bar over updates that shows the mean of each metric over the last chunk.

    Args:
        num_steps: The total.
        step: Updates already done.
        enabled: False hides the bar; True shows it on a terminal or in a notebook.
        description: What runs.
    """

    def __init__(self, num_steps: int, step: int, enabled: bool, description: str = "sivi.fit"):
        self._bar = tqdm(
            total=num_steps,
            initial=step,
            desc=description,
            unit="step",
            disable=None if enabled else True,
            dynamic_ncols=True,
        )

    def update(self, steps: int, metrics: dict[str, np.ndarray], num_steps: int | None = None) -> None:
        if not self._bar.disable:
            self._bar.total = self._bar.total if num_steps is None else num_steps
            text = {name: f"{np.mean(values):.4g}" for name, values in metrics.items() if values.size}
            self._bar.set_postfix(text, refresh=False)
            self._bar.update(steps)

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()
