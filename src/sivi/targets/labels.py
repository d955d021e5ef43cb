"""Labels of classes."""

import numpy as np


def check_labels(name: str, labels: np.ndarray, num_classes: int | None = None) -> None:
    """Refuse labels that are not whole numbers from 0 to num_classes − 1, or below 2³¹ if that is not known."""
    is_class = (labels >= 0) & (labels == np.floor(labels)) & (labels < (num_classes or 2**31))
    if not is_class.all():
        rule = "from 0 to 2³¹ − 1" if num_classes is None else f"from 0 to {num_classes - 1}"
        other = labels[~is_class]
        raise ValueError(f"{name} must be whole numbers {rule}; got {other[0]:g}, and {other.size} such values in all.")
