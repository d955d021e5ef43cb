"""The interface of targets with equal modes without number, such as networks: they are judged by what they predict."""

import abc

from jaxtyping import Array, Float, PRNGKeyArray

from ..coordinates import CoordinateMap
from .base import Target, TargetWrapper
from .whitened import Whitened


class HasSymmetries(Target):
    """A target that permutations of its unknowns leave as it is, as those of a network's hidden units do.

    Each of its modes stands for very many equal ones. No fit can have them all, and none needs them: what counts is
    what a point predicts. So the default call fits a few modes, each from an optimum of its own, and a verdict judges
    predictions in place of unknowns.
    """

    @abc.abstractmethod
    def predictions(self, x: Float[Array, " dim"]) -> Float[Array, " quantities"]:
        """What one point predicts, at fixed inputs: real numbers that the symmetries leave as they are."""

    @property
    @abc.abstractmethod
    def prediction_names(self) -> tuple[str, ...]:
        """A name for each of the predictions."""

    @property
    def conditional_coordinates(self) -> CoordinateMap | None:
        """Coordinates in which some unknowns are N(0, I) given all others, where that distribution is known; or None.

        The map may go through all data, so a fit takes it only where it sees them all in an update.
        """
        return None

    @property
    def in_conditional_coordinates(self) -> Target | None:
        """This target in them; one that knows a cheaper score there than that of all maps overrides this."""
        coordinates = self.conditional_coordinates
        return None if coordinates is None else Whitened(self, coordinates)

    @abc.abstractmethod
    def random_start(self, key: PRNGKeyArray) -> Float[Array, " dim"]:
        """A random point for an optimiser to start from, such as the usual initial weights of a network."""


def conditional_coordinates_of(target: Target) -> CoordinateMap | None:
    """Those of the target with symmetries inside all wrappers, if every wrapper leaves its unknowns as they are."""
    while isinstance(target, TargetWrapper):
        if type(target).inner_point is not TargetWrapper.inner_point:
            return None
        target = target.target
    return target.conditional_coordinates if isinstance(target, HasSymmetries) else None


def symmetric_inside(target: Target) -> HasSymmetries | None:
    """The target with symmetries inside all wrappers; None if there is none."""
    while isinstance(target, TargetWrapper):
        target = target.target
    return target if isinstance(target, HasSymmetries) else None
