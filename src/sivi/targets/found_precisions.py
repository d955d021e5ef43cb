"""What is said of precisions that were found from the data."""

from typing import Any, final

import equinox as eqx
import numpy as np

_IN_WORDS = {"noise_precision": "noise precision", "weight_precision": "weight precision"}


@final
class FoundPrecisions(eqx.Module):
    """Which precisions were found, and how; the numbers stand in the model, as arrays.

    Attributes:
        names: `noise_precision`, `weight_precision` or both.
        how: Such as "a short joint HMC run".
    """

    names: tuple[str, ...] = eqx.field(static=True)
    how: str = eqx.field(static=True)

    def in_words(self, **precisions: Any) -> str:
        """A sentence without its full stop.

        Example:
            >>> FoundPrecisions(("noise_precision",), "a short HMC run").in_words(noise_precision=12.34)
            'noise precision 12.3 (standardised units): found by a short HMC run on the training rows'
        """
        units = {"noise_precision": " (standardised units)"}
        values = [f"{_IN_WORDS[name]} {_shown(precisions[name])}{units.get(name, '')}" for name in self.names]
        return f"{', '.join(values)}: found by {self.how} on the training rows"


def _shown(precision: Any) -> str:
    numbers = np.atleast_1d(np.asarray(precision))
    if (numbers == numbers[0]).all():
        return f"{numbers[0]:.3g}"
    return f"{' and '.join(f'{number:.3g}' for number in numbers)} (one for each layer)"
