"""Fits of targets with symmetries: the recipe, a few repeats that start apart, settings that the target completes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from sivi import defaults
from sivi._fitting import start
from sivi.defaults import replace
from sivi.targets import BayesianNeuralNetwork
from sivi.targets.base import TargetWrapper
from sivi.warmup.from_optimum import Optimum


def data(rows=30):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, (rows, 1))
    return x, np.sin(3.0 * x[:, 0]) + 0.1 * rng.normal(size=rows)


def network(**settings):
    return BayesianNeuralNetwork(*data(), hidden=(4,), activation="tanh", **settings)


GIVEN = {"noise_precision": 25.0, "weight_precision": 1.0}


class Wrapped(TargetWrapper):
    target: sivi.targets.Target

    def log_prob(self, x, batch=None):
        return self.target.log_prob(x, batch)


@pytest.fixture
def quick(monkeypatch):
    """Fits of a few steps by the recipe of networks."""

    def short(*sizes):
        recipe = defaults.recipe(*sizes)
        changes = {"warmup_steps": 20, "num_steps": 10, "repeats": 3}

        class Short(type(recipe)):
            def for_symmetries(self, *, conditional):
                optimum = Optimum(50, 2e-2, None if conditional else 100, 0.05, conditional)
                return replace(super().for_symmetries(conditional=conditional), optimum=optimum, **changes)

        return Short(**vars(recipe))

    monkeypatch.setattr(start, "recipe_for", short)
    return lambda target, **settings: sivi.fit(target, key=3, progress=False, **settings)


class TestRecipe:
    def test_is_chosen_by_what_the_target_declares(self):
        recipe = defaults.recipe(13, 30)
        assert recipe.for_target(sivi.targets.Banana()) is recipe
        for target in (network(**GIVEN), Wrapped(network(**GIVEN))):
            assert recipe.for_target(target) == recipe.for_symmetries(conditional=True)
            # Its map goes through all rows: not where an update sees some of them, or where there are too many.
            assert recipe.for_target(target, all_rows=False) == recipe.for_symmetries(conditional=False)
        robust = network(likelihood="student-t", **GIVEN)
        assert recipe.for_target(robust) == recipe.for_symmetries(conditional=False)
        assert [recipe.for_symmetries(conditional=known).repeats for known in (True, False)] == [16, 8]
        assert recipe.repeats == 1

    @pytest.mark.parametrize("conditional", [False, True])
    def test_has_a_critic_no_path_and_no_stop_rule(self, conditional):
        recipe = defaults.recipe(13, 30).for_symmetries(conditional=conditional)
        assert recipe.for_modes() == recipe
        assert recipe.with_critic() == replace(recipe, num_steps=1000, num_particles=100)
        assert isinstance(recipe.objective(), sivi.objectives.PathKL)
        assert recipe.stop_rule() is None

    @pytest.mark.parametrize(("rows", "batch"), [(None, None), (1000, None), (1001, 1000), (50_000, 1000)])
    def test_rows_of_an_update(self, rows, batch):
        assert defaults.recipe(13, rows).for_symmetries(conditional=False).batch_size == batch


class TestRepeats:
    def test_start_from_optima_of_their_own(self, quick):
        posterior = quick(network(**GIVEN))
        assert posterior.repeats == 3
        means = np.asarray(posterior.affines.inner.mean)
        assert np.ptp(means, axis=0).max() > 0.05
        assert posterior.sample(6, key=1)["weight_1"].shape == (6, 1, 4)

    @pytest.mark.slow
    def test_are_those_that_are_asked_for(self, quick):
        assert quick(network(**GIVEN), repeats=2).repeats == 2
        assert quick(network(**GIVEN), whiten=None).repeats == 1

    def test_of_other_targets_are_one(self):
        posterior = sivi.fit(lambda x: -0.5 * jnp.sum(x**2), dim=2, num_steps=5, progress=False)
        assert posterior.repeats == 1

    def test_a_resumed_fit_is_the_uninterrupted_one(self, quick):
        whole = quick(network(**GIVEN), num_steps=8)
        half = quick(network(**GIVEN), num_steps=8, chunk_size=4, callbacks=[lambda report: report.step == 4])
        assert half.step == 4
        resumed = sivi.fit(network(**GIVEN), resume=half, progress=False)
        for one, other in zip(jax.tree.leaves(resumed.families), jax.tree.leaves(whole.families), strict=True):
            np.testing.assert_array_equal(one, other)


class TestLeftOut:
    def test_is_found_with_the_key_of_the_fit_and_said(self, quick, tmp_path):
        model = network()
        posterior = quick(model)
        completed = model.with_precisions(3)
        assert posterior.target.noise_precision == completed.noise_precision
        assert posterior.target.notes == completed.notes
        assert f"  {completed.notes[0]}" in str(posterior)
        # The model without its precisions stands for the one that was fitted.
        posterior.save(tmp_path / "fit.sivi")
        loaded = sivi.load(tmp_path / "fit.sivi", target=model)
        assert loaded.target.noise_precision == completed.noise_precision
        with pytest.raises(sivi.FitFileError, match="score differs"):
            sivi.load(tmp_path / "fit.sivi", target=network(**GIVEN))

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"num_steps": -1}, "num_steps must be"),
            ({"repeats": 0}, "repeats must be"),
            ({"batch_size": 31}, "batch_size must be at most"),
            ({"whiten": "no"}, "whiten must be 'auto'"),
            ({"stop": "no"}, "stop must be"),
        ],
    )
    def test_is_not_looked_for_where_other_settings_cannot_work(self, monkeypatch, settings, message):
        monkeypatch.setattr(
            BayesianNeuralNetwork, "prepared", lambda self, key: pytest.fail("precisions were looked for")
        )
        with pytest.raises((TypeError, ValueError), match=message):
            sivi.fit(network(), key=0, progress=False, **settings)

    def test_inside_a_wrapper(self):
        completed = Wrapped(network()).prepared(jax.random.key(3))
        assert completed.notes == network().with_precisions(3).notes
        kept = Wrapped(network(**GIVEN))
        assert kept.prepared(jax.random.key(0)) is kept


def test_predictions_of_the_mixture(quick):
    """Means over draws lie near the data after a short fit, in the units that were given."""
    x, y = data()
    posterior = quick(network(**GIVEN), num_steps=100)
    assert posterior.predict(x, key=1, num_samples=200).shape == (200, 30)
    assert posterior.warnings == ()
    error = np.asarray(posterior.predict(x, key=1, num_samples=200)).mean(0) - y
    assert np.sqrt(np.mean(error**2)) < 0.5 * y.std()
