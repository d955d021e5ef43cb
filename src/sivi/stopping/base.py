"""What a rule is that says how long a run goes on."""

import abc

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int

from ..schedules import Timeline


class StopState(eqx.Module):
    """Where a run ends, and what its rule needs to say so.

    Attributes:
        end: The update after which the run ends.
    """

    end: eqx.AbstractVar[Int[Array, ""]]

    @abc.abstractmethod
    def repeat(self, index: int) -> "StopState":
        """That of one repeat."""

    @abc.abstractmethod
    def timeline(self, num_steps: int | Int[Array, ""]) -> Timeline:
        """The timeline of schedules in a run planned for `num_steps` updates."""


class StopRule(eqx.Module):
    """How long a run of at most `num_steps` updates goes on."""

    #: Whether the run keeps the best of several families: those at the ends of its rounds.
    keeps_best: eqx.AbstractClassVar[bool]

    @property
    def restarts(self) -> bool:
        """Whether every round starts from the family of update zero."""
        return False

    def round_ends(self, num_steps: int, step: int) -> list[tuple[int, int]]:
        """The first and the last update of the tail of every round that is over by `step`, of a run from update 0."""
        return []

    @abc.abstractmethod
    def init(self, num_steps: int, repeats: int, step: int = 0) -> StopState:
        """The state before update `step`: at the start, or of a run that continues to another `num_steps`."""

    @abc.abstractmethod
    def update(
        self, state: StopState, done: Int[Array, ""], num_steps: Int[Array, ""], losses: Float[Array, " repeats"]
    ) -> "tuple[StopState, RoundEnd | None]":
        """The state after an update, given the updates `done` and the losses of this one.

        Also what happens to the best family of every repeat; None for a rule without rounds.
        """


class RoundEnd(eqx.Module):
    """What happens to families at the end of a round; nothing before it.

    Attributes:
        improved: Which repeats have a new best family.
        back: Which repeats go back to their best one.
        restart: Whether all go back to the one they started with.
    """

    improved: Bool[Array, " repeats"]
    back: Bool[Array, " repeats"]
    restart: Bool[Array, ""]
