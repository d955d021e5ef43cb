"""The generator of random bits that JAX's default keys have, for NumPy and, without a loop, for JAX."""

from typing import Any

import numpy as np

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)


def threefry(key: tuple[Any, Any], one: Any, two: Any) -> tuple[Any, Any]:
    """Threefry-2x32 with 20 rounds (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011).

    Args:
        key: The two words of the key, of NumPy or JAX.
        one: The first words of the counters, 32 bits each.
        two: The second words.
    """
    with np.errstate(over="ignore"):
        keys = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
        one, two = one + keys[0], two + keys[1]
        for i in range(5):
            for rotation in _ROTATIONS[i % 2]:
                one = one + two
                two = one ^ ((two << np.uint32(rotation)) | (two >> np.uint32(32 - rotation)))
            one, two = one + keys[(i + 1) % 3], two + keys[(i + 2) % 3] + np.uint32(i + 1)
    return one, two
