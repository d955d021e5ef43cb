import equinox as eqx

from sivi.objectives import ScoreMatching
from sivi.objectives.minimax import MinimaxObjective, minimax
from sivi.schedules import Cosine


class Weighted(MinimaxObjective):
    """A subclass with a setting of its own."""

    weight: float = eqx.field(static=True)

    def __init__(self, weight, **settings):
        super().__init__(**settings)
        self.weight = weight

    def family_loss(self, family, field, target, batch, noise):
        return minimax(family, field, target, batch, noise)


def test_binding_keeps_a_subclass_and_its_own_fields():
    bound = Weighted(7.0, psi=Cosine(1.0)).bind(10)
    assert isinstance(bound, Weighted)
    assert bound.weight == 7.0
    assert bound.psi.timeline.num_steps == 10


def test_the_critics_schedule_counts_its_own_updates():
    bound = ScoreMatching(critic_steps=3).bind(10)
    assert bound.optimizer.learning_rate.timeline.num_steps == 10
    assert bound.critic_optimizer.learning_rate.timeline.num_steps == 30
