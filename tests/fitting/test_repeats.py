"""Several fits in one program, and the coordinates that each of them is fitted in."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import sivi
from contracts.plugins import small_family
from oracles import linear_gaussian_family, linear_gaussian_model
from sivi import _host_random
from sivi._repeats import repeat_keys
from sivi.coordinates import DenseMap, DiagonalMap, IdentityMap
from sivi.critics import MLPCritic
from sivi.objectives import LossObjective, ScoreMatching
from sivi.optimizers import Adam, OptimizerLike
from sivi.targets import Banana, LogDensity, ScoreFunction
from unfitted import posterior_of

MEAN = jnp.array([30.0, -2.0])
SD = jnp.array([5.0, 0.01])


def far_away(x):
    return -0.5 * jnp.sum(((x - MEAN) / SD) ** 2)


def quick(target=far_away, **arguments):
    settings = {
        "objective": ScoreMatching(num_particles=16, critic=MLPCritic((8,))),
        "num_steps": 6,
        "chunk_size": 4,
        "progress": False,
    }
    if not isinstance(target, sivi.targets.Target):
        settings["dim"] = 2
    return sivi.fit(target, **settings | arguments)


@pytest.fixture(scope="module")
def three():
    return quick(repeats=3)


class TestRepeats:
    def test_draws_are_the_mixture_of_the_repeats_in_turn(self, three):
        apart = three.sample(4, key=1, by_repeat=True)
        assert apart.shape == (3, 4, 2)
        in_turn = np.asarray(jnp.swapaxes(apart, 0, 1))
        mixed = np.asarray(three.sample(11, key=1))
        starts = [i for i in range(3) if np.array_equal(mixed, np.roll(in_turn, -i, axis=1).reshape(-1, 2)[:11])]
        assert len(starts) == 1

    def test_a_single_draw_may_come_from_any_repeat(self, three):
        first = [np.asarray(three.sample(1, key=k))[0] for k in range(20)]
        apart = [np.asarray(three.sample(1, key=k, by_repeat=True))[:, 0] for k in range(20)]
        came_from = {int(np.argmin(np.abs(a - f).sum(1))) for f, a in zip(first, apart, strict=True)}
        assert came_from == {0, 1, 2}  # misses one in 3 · (2/3)^20 of all keys

    def test_each_has_its_own_key_coordinates_and_history(self, three):
        assert three.repeats == 3
        assert three.history["loss"].shape == (3, 6)
        assert len(np.unique(three.history["loss"][:, 0])) == 3
        # Every warm-up has found the Gaussian, each in directions of its own.
        matrices = np.asarray(three.affines.matrix)
        assert len(np.unique(matrices[:, 0, 1])) == 3
        covariances = matrices @ np.swapaxes(matrices, 1, 2)
        np.testing.assert_allclose(covariances / np.outer(SD, SD), np.broadcast_to(np.eye(2), (3, 2, 2)), atol=1e-3)

    def test_the_first_is_the_fit_without_repeats(self, three):
        alone = quick()
        np.testing.assert_allclose(three.history["loss"][0], alone.history["loss"], rtol=1e-3)
        np.testing.assert_allclose(three.repeat(0).sample(5, key=2), alone.sample(5, key=2), rtol=1e-3)

    def test_one_of_them_as_a_posterior(self, three):
        one = three.repeat(2)
        assert one.repeats == 1
        assert one.finished
        np.testing.assert_array_equal(one.history["loss"], three.history["loss"][2])
        assert one.family.dim == 2
        with pytest.raises(IndexError, match="below the number of repeats, 3; got 3"):
            three.repeat(3)
        with pytest.raises(ValueError, match=r"has 3: use repeat\(i\)\.family"):
            _ = three.family

    def test_density_is_that_of_the_mixture(self):
        """Two linear-Gaussian families with different maps: a mixture of two Gaussians in closed form."""
        family = linear_gaussian_family()
        maps = [DiagonalMap(jnp.full(3, shift), jnp.full(3, scale)) for shift, scale in ((0.0, 1.0), (1.0, 2.0))]
        posterior = posterior_of(family, maps)
        b, covariance = np.asarray(family.conditional.b), np.asarray(family.conditional.covariance)
        points = posterior.sample(20, key=1)
        exact = np.logaddexp(
            stats.multivariate_normal(b, covariance).logpdf(points),
            stats.multivariate_normal(1.0 + 2.0 * b, 4.0 * covariance).logpdf(points),
        ) - np.log(2.0)
        estimates = [posterior.log_prob(points, key=k, num_aux=8000) for k in range(30)]
        z = np.array([(np.asarray(value) - exact) / np.asarray(error) for value, error in estimates])
        assert np.abs(z.mean(0)).max() < 5.0 / np.sqrt(30) + 0.15
        assert 0.8 < z.std() < 1.2
        moments = np.asarray(posterior.sample(100_000, key=2))
        np.testing.assert_allclose(moments.mean(0), (b + 1.0 + 2.0 * b) / 2.0, atol=0.03)

    @pytest.mark.slow
    def test_compiles_once_for_all(self):
        def traces_of(repeats):
            traces = []

            class Counted(eqx.Module):
                def __call__(self, x):
                    traces.append(1)
                    return far_away(x)

            quick(LogDensity(Counted(), dim=2), repeats=repeats, num_steps=9)
            return len(traces)

        assert traces_of(4) == traces_of(2) <= 1.5 * traces_of(1)

    def test_save_load_and_resume(self, three, tmp_path):
        part = quick(repeats=3, chunk_size=2, callbacks=[lambda report: report.step == 2])
        part.save(tmp_path / "fit.sivi")
        loaded = sivi.load(tmp_path / "fit.sivi")
        np.testing.assert_array_equal(loaded.sample(7, key=3), part.sample(7, key=3))
        again = sivi.fit(far_away, dim=2, resume=tmp_path / "fit.sivi", progress=False)
        np.testing.assert_array_equal(again.history["loss"], three.history["loss"])
        np.testing.assert_array_equal(again.sample(7, key=0), three.sample(7, key=0))
        with pytest.raises(ValueError, match="repeats must be that of the resumed fit, 3; got 2"):
            sivi.fit(far_away, dim=2, resume=part, repeats=2, progress=False)
        alone = sivi.fit(far_away, dim=2, resume=part.repeat(1), progress=False)
        np.testing.assert_allclose(alone.history["loss"], three.history["loss"][1], rtol=1e-3)

    def test_a_report_has_all_of_them(self):
        reports = []
        quick(repeats=2, callbacks=[reports.append])
        assert [report.step for report in reports] == [4, 6]
        assert reports[-1].metrics["loss"].shape == (2, 2)
        assert reports[-1].posterior().sample(3, key=0).shape == (3, 2)

    def test_with_minibatches_each_shuffles_for_itself(self):
        model = linear_gaussian_model(12)
        posterior = quick(model, repeats=2, batch_size=4, whiten=None, family=None)
        assert posterior.settings.batch_size == 4
        np.testing.assert_allclose(
            posterior.repeat(0).sample(3, key=0), quick(model, batch_size=4, whiten=None).sample(3, key=0), rtol=1e-4
        )

    def test_a_repeat_that_diverges_stops_the_fit_by_name(self):
        class FailsForOne(LossObjective):
            """Not finite where the draws of the first update are on the wrong side, as they are in one repeat."""

            optimizer: OptimizerLike

            def loss(self, key, family, target, batch):
                wrong = family.conditional.networks.mean.layers[0].weight[0, 0] < 0.0
                return jnp.where(wrong, jnp.nan, 1.0) * jnp.mean(family.sample(key) ** 2), {}

        objective = FailsForOne(Adam(1e-6))
        recipe = sivi.defaults.recipe(2)

        def first_weights(key):
            keys = _host_random.fold_in(_host_random.fold_in(repeat_keys(jax.random.key(key), 2), 0), 0)
            return [float(recipe.family(k).conditional.networks.mean.layers[0].weight[0, 0]) for k in keys]

        key = next(key for key in range(50) if np.sign(first_weights(key)).tolist() == [1.0, -1.0])
        with pytest.raises(sivi.FitDiverged, match="in repeat 1"):
            quick(repeats=2, key=key, whiten=None, num_steps=500, objective=objective)

    @pytest.mark.usefixtures("as_a_user")
    @pytest.mark.parametrize("repeats", [0, -1, 1.5])
    def test_bad_numbers(self, repeats):
        with pytest.raises((ValueError, TypeError), match="repeats must be"):
            quick(repeats=repeats)


class TestWhitening:
    def test_starts_at_the_warm_up_gaussian(self):
        posterior = quick(num_steps=1, objective=None)
        draws = np.asarray(posterior.sample(20_000, key=1))
        np.testing.assert_allclose((draws.mean(0) - MEAN) / SD, 0.0, atol=0.1)
        np.testing.assert_allclose(draws.std(0) / SD, 1.0, atol=0.1)

    def test_given_coordinates(self):
        for scale, kind in ((SD, DiagonalMap), (np.diag(SD), DenseMap)):
            posterior = quick(whiten=(MEAN, scale), family=small_family(), num_steps=2)
            assert isinstance(posterior.affine, kind)
            u = jax.vmap(posterior.affine.inverse)(posterior.sample(1000, key=1))
            assert float(jnp.abs(u.mean(0)).max()) < 1.0

    def test_none_takes_x_as_it_is(self):
        posterior = quick(Banana(), whiten=None)
        assert isinstance(posterior.affine, IdentityMap)

    def test_is_the_same_fit_as_that_of_the_pulled_back_target(self):
        """Family, critic and objective are written as if u were x."""
        inside = quick(whiten=(MEAN, SD), family=small_family())
        by_hand = LogDensity(lambda u: far_away(MEAN + SD * u), dim=2)
        outside = quick(by_hand, whiten=None, family=small_family())
        np.testing.assert_allclose(inside.history["loss"], outside.history["loss"], rtol=1e-3)
        np.testing.assert_allclose(inside.sample(9, key=1), MEAN + SD * outside.sample(9, key=1), rtol=1e-4)

    def test_a_score_alone_is_enough(self):
        posterior = quick(ScoreFunction(jax.grad(far_away), 2), num_steps=1)
        np.testing.assert_allclose((posterior.affine.mean - MEAN) / SD, 0.0, atol=0.1)

    def test_density_has_the_scale_of_x(self):
        posterior = quick(num_steps=1, objective=None)
        exact = stats.multivariate_normal(MEAN, np.diag(np.asarray(SD) ** 2)).logpdf(np.asarray(MEAN))
        assert abs(float(posterior.log_prob(MEAN)[0]) - exact) < 0.3

    @pytest.mark.parametrize(
        ("whiten", "message"),
        [
            ("yes", "whiten must be 'auto', None or a pair"),
            (([0.0, 0.0], [[1.0, 0.0], [1.0, 0.0]]), "whiten"),
            (([0.0], [1.0]), "whiten"),
            (([0.0, np.nan], [1.0, 1.0]), "whiten"),
            (3.0, "whiten"),
        ],
    )
    def test_bad_coordinates(self, whiten, message):
        with pytest.raises((ValueError, TypeError), match=message):
            quick(whiten=whiten)
