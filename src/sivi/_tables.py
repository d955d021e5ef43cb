"""Plain tables of text."""

import math
from collections.abc import Sequence


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]], text: Sequence[int] = (0,)) -> str:
    """Columns padded to their widest entry; those in `text` to the left, the others, numbers, to the right."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = [
        "  ".join(
            cell.ljust(w) if i in text else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [header, *rows]
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def decimals_of(sd: float) -> int:
    """Three, or as many as show three digits of a small standard deviation."""
    if not 0.0 < sd < 0.1:
        return 3
    return min(2 - math.floor(math.log10(sd)), 12)
