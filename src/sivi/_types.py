"""Types shared by every layer."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Array, Float, Key, PRNGKeyArray

KeyLike: TypeAlias = int | np.integer | PRNGKeyArray | Array
Activation: TypeAlias = Callable[[Array], Array]
Scalar: TypeAlias = Float[Array, ""]
#: Anything that NumPy turns into an array of numbers.
ArrayLike: TypeAlias = Array | np.ndarray | Sequence[Any] | float
Metrics: TypeAlias = dict[str, Array]
#: One typed key for every repeat.
RepeatKeys: TypeAlias = Key[Array, " repeats"]
