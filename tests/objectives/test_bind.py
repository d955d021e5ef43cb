"""What a run tells an objective reaches its schedules, through wrappers too; all else stays as it was."""

import equinox as eqx
import jax.numpy as jnp
import pytest

from sivi.objectives import Annealed, Bridged, LossObjective, PathKL, ScoreMatching, SurrogateELBO
from sivi.optimizers import Adam, OptimizerLike
from sivi.schedules import Constant, Cosine, Ramp, RunPlan, Timeline
from sivi.targets import IsotropicGaussian


class Weighted(LossObjective):
    """An objective with a setting and a constructor of its own."""

    weight: float = eqx.field(static=True)
    optimizer: OptimizerLike

    def __init__(self, times_two):
        self.weight, self.optimizer = 2.0 * times_two, Adam(Cosine(1.0))

    def loss(self, key, family, target, batch):
        return jnp.zeros(()), {}


def test_binding_keeps_a_class_and_its_own_fields():
    bound = Weighted(3.5).bind(10)
    assert isinstance(bound, Weighted)
    assert bound.weight == 7.0
    assert bound.optimizer.learning_rate.timeline.num_steps == 10


def test_the_critics_schedule_counts_its_own_updates():
    bound = ScoreMatching(critic_steps=3, psi=Cosine(1.0)).bind(RunPlan(Timeline(10, 6, 8)))
    assert bound.optimizer.learning_rate.timeline == bound.psi.timeline == Timeline(10, 6, 8)
    assert bound.critic_optimizer.learning_rate.timeline == Timeline(30, 18, 24)


@pytest.mark.parametrize("run", [100, Timeline(100, 100, 100), RunPlan(Timeline(100, 100, 100))])
def test_a_number_of_updates_a_timeline_and_a_plan_are_the_same_run(run):
    assert RunPlan.of(run) == RunPlan(Timeline(100, 100, 100), "shuffle")
    assert SurrogateELBO(num_aux=Ramp(1, 9)).bind(run).num_aux.timeline == Timeline(100, 100, 100)


def test_wrappers_forward_the_plan():
    wrapped = Annealed(Bridged(PathKL(critic_steps=2), Ramp(0.2, 0.0), base=IsotropicGaussian(2)))
    bound = wrapped.bind(RunPlan.of(50, "rotate"))
    schedules = (bound.schedule, bound.objective.schedule, bound.objective.objective.optimizer.learning_rate)
    assert [schedule.timeline.num_steps for schedule in schedules] == [50, 50, 50]
    assert bound.objective.objective.critic_optimizer.learning_rate.timeline.num_steps == 100


def test_the_value_at_the_start_is_known_without_computing():
    for schedule in (Constant(0.3), Cosine(0.7, 0.1, hold=0.2), Ramp(0.4, 0.9, 0.5, after=0.1)):
        assert schedule.start_value == pytest.approx(float(schedule.bind(10)(0)))
