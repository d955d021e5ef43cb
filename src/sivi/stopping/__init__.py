"""How long a run goes on: until a plateau of the loss, or in rounds of doubled length while they improve it.

Both rules judge an improvement against the noise of the loss. What they do depends on absolute steps and on recorded
losses alone, so a run does not depend on how it is cut into chunks.
"""

from jaxtyping import Array, Float, Int

from .base import RoundEnd as RoundEnd
from .base import StopRule as StopRule
from .base import StopState as StopState
from .doubling import Doubling as Doubling
from .doubling import DoublingState as DoublingState
from .plateau import Plateau as Plateau
from .plateau import PlateauState as PlateauState
from .plateau import plateau_state


def init_stop(rule: StopRule | None, num_steps: int, repeats: int, step: int = 0) -> StopState:
    """The state before update `step`; a run without a rule goes on to `num_steps`."""
    return plateau_state(num_steps, repeats, 0) if rule is None else rule.init(num_steps, repeats, step)


def update_stop(
    rule: StopRule | None,
    state: StopState,
    done: Int[Array, ""],
    num_steps: Int[Array, ""],
    losses: Float[Array, " repeats"],
) -> tuple[StopState, RoundEnd | None]:
    """The state after an update, and what happens to the best families; see `StopRule.update`."""
    return (state, None) if rule is None else rule.update(state, done, num_steps, losses)
