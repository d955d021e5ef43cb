"""What a dataset is."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Shaped

from .._arguments import check_positive
from .._errors import SiviError
from ._published import random_test_mask
from .splits import Pair, Split


class DatasetError(SiviError, OSError):
    """Data that are not where they should be, or not what they should be."""


@dataclass(frozen=True)
class Description:
    """What is known of a dataset before any of it is read.

    Attributes:
        name: What `sivi.datasets.load` calls it.
        title: What it is about.
        num_data: How many rows it has, those for testing included.
        num_features: How many inputs a row has.
        target: What the outputs are.
        classes: The classes that the labels 0, 1, … stand for; none for a regression.
        columns: The inputs, where they have names.
        scaling: What has been done to the values, and over which rows.
        origin: Whom to cite.
        url: Where the origin describes it.
        licence: As its origin states it.
    """

    name: str
    title: str
    num_data: int
    num_features: int
    target: str
    classes: tuple[str, ...]
    columns: tuple[str, ...]
    scaling: str
    origin: str
    url: str
    licence: str

    @property
    def kind(self) -> Literal["regression", "classification"]:
        """Whether the outputs are real numbers or labels."""
        return "classification" if self.classes else "regression"

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and inputs."""
        return self.num_data, self.num_features


@dataclass(frozen=True, eq=False)
class Dataset:
    """Inputs and outputs of all rows, in the order of their origin, and the splits that have been published of them.

    Attributes:
        about: Title, origin, licence and the like.
        inputs: (num_data, features).
        outputs: (num_data,): real numbers, or labels 0, 1, … as integers.
        test_masks: (splits, num_data); in each row the data for testing of one published split.
        sha256: Of every file that was read, by its path in a folder of data.
    """

    about: Description
    inputs: Float[np.ndarray, "num_data features"]
    outputs: Shaped[np.ndarray, " num_data"]
    test_masks: Bool[np.ndarray, "splits num_data"]
    sha256: Mapping[str, str]

    @property
    def name(self) -> str:
        """What `sivi.datasets.load` calls it."""
        return self.about.name

    @cached_property
    def published_splits(self) -> tuple[Split, ...]:
        """The published splits: one for waveform, MNIST and HAPT; several, or none, for a regression."""
        return tuple(Split.of(self.inputs, self.outputs, mask) for mask in self.test_masks)

    @property
    def train(self) -> Pair:
        """Inputs and outputs for fitting, of the only published split; in the structure of a model's `data`."""
        return self._only_split().train

    @property
    def test(self) -> Pair:
        """Inputs and outputs for testing, of the only published split."""
        return self._only_split().test

    def split(self, seed: int, test_fraction: float = 0.1) -> Split:
        """Split the rows at random: the same rows for the same seed, everywhere and always.

        Args:
            seed: An int, at least 0.
            test_fraction: The share of rows for testing, strictly between 0 and 1, rounded to whole rows.
        """
        fraction = check_positive("test_fraction", test_fraction)
        if fraction >= 1.0:
            raise ValueError(f"test_fraction must be below 1; got {test_fraction}.")
        return Split.of(self.inputs, self.outputs, random_test_mask(seed, len(self.inputs), fraction))

    def _only_split(self) -> Split:
        if len(self.published_splits) != 1:
            raise ValueError(
                f"{self.name} has {len(self.published_splits)} published splits, so train and test are not one pair; "
                "choose rows with split(seed) or one of published_splits."
            )
        return self.published_splits[0]


@dataclass(frozen=True, eq=False)
class PosteriorReference:
    """What long Markov chains say of a posterior.

    Attributes:
        name: The dataset's.
        mean: (dim,), of all draws of the longest run.
        cov: (dim, dim), likewise.
        draws: (n, dim), some of these.
        others: Sets of draws (m, dim) by other samplers, or of other approximations, by name.
    """

    name: str
    mean: np.ndarray
    cov: np.ndarray
    draws: np.ndarray
    others: Mapping[str, np.ndarray]
