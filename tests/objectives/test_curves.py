"""What objectives say of their metrics, for plots."""

import equinox as eqx
import jax
import pytest

from contracts.plugins import OBJECTIVES, small_family
from sivi import defaults
from sivi.objectives import Annealed, MixtureKL, PathKL
from sivi.targets import Banana, ScoreFunction


def recorded_by(objective, target):
    """The names of the metrics; nothing is computed."""
    objective, family = objective.bind(10), small_family()
    state = eqx.filter_eval_shape(objective.init, jax.random.key(0), family, target)
    return eqx.filter_eval_shape(objective.step, jax.random.key(0), family, state, target, None)[2].keys()


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_recorded_metric_has_a_label_and_a_word(name):
    recorded = recorded_by(OBJECTIVES[name](), Banana())
    curves = OBJECTIVES[name]().curves(recorded)
    assert set(recorded) <= set(curves)
    assert all(curve.label and curve.good for curve in curves.values())


def test_a_loss_is_what_the_target_allows():
    objective = MixtureKL(num_particles=8)
    for target, label in ((Banana(), "minus ELBO"), (ScoreFunction(lambda x: -x, 2), "Fisher divergence")):
        assert objective.curves(recorded_by(objective, target))["loss"].label == label


def test_wrappers_add_what_they_record_and_what_becomes_of_the_loss():
    curves = Annealed(PathKL()).curves(["loss", "critic_norm", "beta"])
    assert curves["loss"].good.endswith("(β < 1: of another target)")
    assert curves["critic_norm"] == PathKL().curves([])["critic_norm"]


def test_the_weight_that_is_good_is_the_one_by_which_a_run_is_given_up():
    assert f"below {defaults.recipe(2).most_own_weight:g};" in MixtureKL().curves([])["own_weight"].good
