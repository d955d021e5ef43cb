import os
import subprocess
import sys
import warnings
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pymc as pm
import pytest

import sivi
from bridges.models import BY_HAND
from bridges.pymc_models import MODELS, model_of
from sivi import from_pymc
from sivi.interop import to_inferencedata

NAMES = list(MODELS)
#: A fit that has not converged.
SHORT = {"num_steps": 20, "progress": False}
TRANSFORMS = pm.distributions.transforms


@cache
def target_of(name, x64=False):
    """Made once for all tests; `x64` says which type JAX has."""
    return from_pymc(model_of(name))


def points_of(target, num=100, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=(num, target.dim)), float)


def value_point(model, target, x):
    """The dict that PyMC's own compiled functions take."""
    point = {}
    for rv in model.free_RVs:
        name, transform = model.rvs_to_values[rv].name, model.rvs_to_transforms[rv]
        if name in target.layout.names:
            point[name] = target.constrain(x)[name]
            continue
        value = np.asarray(target.constrain(x)[rv.name], float)
        point[name] = transform.forward(pm.math.constant(value), *rv.owner.inputs).eval()
    return {name: np.asarray(value, float) for name, value in point.items()}


def density_by_hand(name, target):
    by_hand, data = BY_HAND[name]
    data = jax.tree.map(lambda array: jnp.asarray(array, float if array.dtype.kind == "f" else None), data)

    def log_prob(x):
        point, log_det = MODELS[name][1](target.constrain(x))
        return by_hand(point, data) + log_det + target.layout.log_det(x)

    return log_prob


def check_by_hand(name, target, tolerance):
    points, by_hand = points_of(target), density_by_hand(name, target)
    values, scores = jax.jit(jax.vmap(target.log_prob))(points), jax.jit(jax.vmap(target.score))(points)
    expected, expected_scores = jax.jit(jax.vmap(by_hand))(points), jax.jit(jax.vmap(jax.grad(by_hand)))(points)
    np.testing.assert_allclose(values, expected, rtol=tolerance)
    errors = np.abs(np.asarray(scores - expected_scores)).max(axis=1)
    assert (errors <= tolerance * np.abs(np.asarray(expected_scores)).max(axis=1)).all()
    return values


class TestDensity:
    @pytest.mark.parametrize("name", NAMES)
    def test_and_score_are_those_by_hand(self, name):
        assert check_by_hand(name, target_of(name), 1e-5).dtype == jnp.float32

    @pytest.mark.parametrize("name", NAMES)
    def test_and_score_are_those_by_hand_in_x64(self, name, x64):
        assert check_by_hand(name, target_of(name, x64=True), 1e-10).dtype == jnp.float64

    def test_is_that_of_pymc_with_its_sign(self, x64):
        """PyMC's own compiled function, on its own real numbers: the same but for the coordinates on the simplex."""
        target, model = target_of("mixture", x64=True), model_of("mixture")
        x = points_of(target, 1)[0]
        expected = model.compile_logp()(value_point(model, target, x))
        np.testing.assert_allclose(target.log_prob(x), expected - 0.5 * np.log(3.0), rtol=1e-10)

    def test_order_is_that_of_the_layout(self):
        """Every unknown has a density of its own, so a permutation of them would be seen."""
        sd = {"b": 1.0, "a": 2.0, "c_2": 0.5, "c_10": 3.0, "B": 7.0}
        with pm.Model() as model:
            for i, (name, scale) in enumerate(sd.items()):
                pm.Normal(name, 0.1 * i, scale, shape=2 if name == "a" else ())
        target = from_pymc(model)
        assert target.layout.names == tuple(sorted(sd))
        x = points_of(target, 1)[0]
        point = target.layout.unravel(x)
        expected = sum(
            np.sum(-0.5 * ((point[n] - 0.1 * i) / s) ** 2 - np.log(s) - 0.5 * np.log(2 * np.pi))
            for i, (n, s) in enumerate(sd.items())
        )
        np.testing.assert_allclose(target.log_prob(x), expected, rtol=1e-5)

    def test_potential(self):
        with pm.Model() as model:
            a = pm.Normal("a")
            pm.Potential("pull", -3.0 * (a - 2.0) ** 2)
        target = from_pymc(model)
        expected = -0.5 * 0.25 - 0.5 * np.log(2 * np.pi) - 3.0 * 1.5**2
        np.testing.assert_allclose(target.log_prob(jnp.array([0.5])), expected, rtol=1e-5)
        assert target.observed == {}


class TestTransforms:
    @pytest.fixture(scope="class")
    @staticmethod
    def model():
        with pm.Model() as model:
            top = pm.HalfNormal("top", 2.0)
            pm.Beta("share", 2.0, 3.0)
            pm.Uniform("between", -1.0, [2.0, 3.0], shape=2)
            pm.TruncatedNormal("below", 0.0, 1.0, upper=3.0)
            pm.Dirichlet("weights", np.array([1.0, 2.0, 3.0]), shape=(2, 3))
            initval = [-1.0, 0.0, 1.0]
            pm.Normal("cuts", 0.0, 1.0, shape=3, transform=TRANSFORMS.ordered, initval=initval)
            pm.LKJCholeskyCov("chol", n=3, eta=2.0, sd_dist=pm.HalfNormal.dist(1.0), compute_corr=True)
            pm.Uniform("depends", 0.0, top)
            pm.ZeroSumNormal("effects", 1.0, shape=4)
        return model

    @pytest.fixture(scope="class")
    @staticmethod
    def target(model):
        return from_pymc(model)

    def test_names_and_constraints(self, target):
        rules = {v.name: v.constraint and v.constraint.rule for v in target.layout.variables}
        assert rules == {
            "top": "positive",
            "share": "between 0.0 and 1.0, both excluded",
            "between": "between -1.0 and [2. 3.], both excluded",
            "below": "below 3.0",
            "weights": "positive numbers that sum to 1",
            "cuts": "strictly increasing",
            "chol": "between [  0. -inf   0. -inf -inf   0.] and inf, both excluded",
            "depends_interval__": None,
            "effects_zerosum__": None,
        }

    def test_variables_without_a_constraint_are_derived(self, target):
        x = points_of(target, 1)[0]
        point, derived = target.constrain(x), target.derived(x)
        assert set(derived) == {"depends", "effects", "chol_corr", "chol_stds"}
        np.testing.assert_allclose(
            derived["depends"], point["top"] * jax.nn.sigmoid(point["depends_interval__"]), rtol=1e-5
        )
        np.testing.assert_allclose(jnp.sum(derived["effects"]), 0.0, atol=1e-5)
        np.testing.assert_allclose(jnp.diag(derived["chol_corr"]), np.ones(3), rtol=1e-5)

    def test_density_is_that_of_pymc(self, model, target):
        """At three points: the difference is that of coordinates on two simplexes, log 3 in all."""
        logp = model.compile_logp()
        for x in points_of(target, 3):
            expected = logp(value_point(model, target, x)) - np.log(3.0)
            np.testing.assert_allclose(target.log_prob(x), expected, rtol=1e-4)


class TestObservations:
    @pytest.mark.parametrize("name", NAMES)
    def test_log_likelihoods_are_those_of_pymc(self, name, x64):
        """And with the log prior, which PyMC knows too, they sum to the density."""
        target, model = target_of(name, x64=True), model_of(name)
        x = points_of(target, 1)[0]
        found, point = target.pointwise_log_likelihood(x), value_point(model, target, x)
        (expected,) = model.compile_fn(model.logp(vars=model.observed_RVs, sum=False))(point)
        assert found.keys() == target.observed.keys() == {"y"}
        assert found["y"].shape == target.observed["y"].shape
        np.testing.assert_allclose(found["y"], expected, rtol=1e-8)
        np.testing.assert_array_equal(target.observed["y"], BY_HAND[name][1]["y"])

    def test_replicates_are_drawn_from_the_likelihood_at_every_point(self):
        """Two points far apart, many draws of each: means and variances of the negative binomial within six errors."""
        target, num = target_of("counts"), 400
        low = target.layout.ravel({"slopes": np.zeros(3), "intercept": 0.0, "concentration": 2.0})
        high = target.layout.ravel({"slopes": np.zeros(3), "intercept": 2.0, "concentration": 50.0})
        points = jnp.concatenate([jnp.tile(low, (num, 1)), jnp.tile(high, (num, 1))])
        drawn = target.replicates(jax.random.key(0), points)["y"]
        exposure = BY_HAND["counts"][1]["exposure"]
        assert drawn.shape == (2 * num, len(exposure))
        for values, rate, size in ((drawn[:num], 1.0, 2.0), (drawn[num:], np.exp(2.0), 50.0)):
            mean = exposure * rate
            variance = mean + mean**2 / size
            error = (np.mean(values, axis=0) - mean) / np.sqrt(variance / num)
            assert np.abs(error).max() < 6
            np.testing.assert_allclose(np.sum(np.var(values, axis=0)), np.sum(variance), rtol=0.2)
        again = target.replicates(jax.random.key(0), points)["y"]
        np.testing.assert_array_equal(drawn, again)
        assert (drawn != target.replicates(jax.random.key(1), points)["y"]).any()

    def test_a_single_replicate_is_refused(self, as_a_user):
        target = target_of("counts")
        with pytest.raises(sivi.MissingFromModel, match="PyMC draws observations outside JAX: use replicates"):
            target.replicate(jax.random.key(0), points_of(target, 1)[0])


def test_dims_and_coords_are_those_of_the_model():
    target = target_of("hierarchical")
    assert target.dims["z"] == target.dims["effects"] == ("group", "coefficient")
    assert target.dims["y"] == ("row",)
    assert target.coords["group"] == ("g0", "g1", "g2", "g3", "g4", "g5")
    assert target.coords["coefficient"] == ("intercept", "slope")


def test_new_data_are_arrays_of_the_same_program():
    data = BY_HAND["counts"][1]
    model = model_of("counts")
    before = from_pymc(model)
    with model:
        pm.set_data({"x": 2.0 * data["x"]})
    after = from_pymc(model)
    assert after.density.trace == before.density.trace
    x = points_of(before, 1)[0]
    twice = target_of("counts").layout.unravel(x)
    by_hand = BY_HAND["counts"][0](twice, data | {"x": 2.0 * data["x"]})
    np.testing.assert_allclose(after.log_prob(x), by_hand + before.layout.log_det(x), rtol=1e-5)
    assert before.log_prob(x) != after.log_prob(x)


class TestWhatIsRefused:
    def test_another_object(self, as_a_user):
        with pytest.raises(TypeError, match=r"model must be a pymc.Model; got 3"):
            from_pymc(3)

    def test_no_unknowns(self):
        with pm.Model() as model:
            pm.Normal("y", 0.0, 1.0, observed=[1.0, 2.0])
        with pytest.raises(ValueError, match="model must have an unknown variable"):
            from_pymc(model)

    def test_discrete_unknowns_by_name(self):
        with pm.Model() as model:
            pm.Normal("a")
            pm.Poisson("count", 3.0)
            pm.Bernoulli("flag", 0.5)
        with pytest.raises(ValueError, match="continuous unknowns; count, flag of type int64 must be summed out"):
            from_pymc(model)

    def test_minibatches_by_name(self):
        with pm.Model() as model:
            batch = pm.Minibatch(np.arange(20.0), batch_size=5)
            pm.Normal("y", pm.Normal("a"), 1.0, observed=batch, total_size=20)
        with pytest.raises(ValueError, match=r"y is observed in random minibatches \(pymc.Minibatch\)"):
            from_pymc(model)

    def test_an_operation_that_jax_does_not_have(self):
        from pytensor.compile.ops import wrap_py
        from pytensor.tensor import dscalar

        @wrap_py(itypes=[dscalar], otypes=[dscalar])
        def cubed(a):
            return a**3

        with pm.Model() as model:
            a = pm.Normal("a")
            pm.Normal("y", cubed(a), 1.0, observed=[1.0])
        with pytest.raises(NotImplementedError, match=r"an operation that PyMC cannot run on JAX: .*cubed"):
            from_pymc(model)


class TestFit:
    @pytest.fixture(scope="class")
    @staticmethod
    def fitted():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sivi.FitWarning)
            return sivi.fit(target_of("hierarchical"), key=0, **SHORT)

    def test_arviz_has_names_dims_and_loo(self, fitted):
        import arviz_stats

        tree = fitted.to_arviz(200, key=1)
        posterior = tree["posterior"]
        assert set(posterior.data_vars) == {"centre", "chol", "sigma", "z", "effects", "chol_corr", "chol_stds"}
        assert posterior["effects"].dims == ("chain", "draw", "group", "coefficient")
        assert list(posterior["group"].values) == [f"g{i}" for i in range(6)]
        C = np.zeros((200, 2, 2))
        C[:, *np.tril_indices(2)] = posterior["chol"].values[0]
        expected = posterior["centre"].values[0][:, None] + posterior["z"].values[0] @ C.transpose(0, 2, 1)
        np.testing.assert_allclose(posterior["effects"].values[0], expected, rtol=1e-4, atol=1e-5)
        assert tree["log_likelihood/y"].dims == tree["posterior_predictive/y"].dims == ("chain", "draw", "row")
        assert tree["observed_data/y"].dims == ("row",)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a short fit
            assert arviz_stats.loo(tree).n_data_points == 72
            assert "sigma" in arviz_stats.summary(tree, kind="stats").index

    def test_pymc_takes_its_draws(self, fitted):
        """With pupils of no hours the mean is the intercept of the group: drawn by PyMC from our draws."""
        data, model = BY_HAND["hierarchical"][1], model_of("hierarchical")
        idata = to_inferencedata(fitted, 500, key=1)
        assert set(idata.groups()) >= {"posterior", "log_likelihood", "sample_stats", "observed_data"}
        assert list(idata.posterior["group"].values) == [f"g{i}" for i in range(6)]
        with model:
            pm.set_data({"x": np.zeros(72)})
            new = pm.sample_posterior_predictive(idata, progressbar=False, random_seed=3).posterior_predictive["y"]
        intercepts = idata.posterior["effects"].values[0, :, data["group"], 0].T
        sigma = idata.posterior["sigma"].values[0]
        errors = (new.values[0] - intercepts) / sigma[:, None]
        assert abs(errors.mean()) < 5 / np.sqrt(errors.size)
        assert abs(errors.var() - 1) < 5 * np.sqrt(2 / errors.size)

    def test_a_file_is_read_without_pymc_and_with_the_model(self, fitted, tmp_path):
        fitted.save(tmp_path / "fit.sivi")
        alone, again = (
            sivi.load(tmp_path / "fit.sivi"),
            sivi.load(tmp_path / "fit.sivi", target=target_of("hierarchical")),
        )
        expected = fitted.sample(20, key=5)
        for other in (alone, again):
            jax.tree.map(np.testing.assert_array_equal, other.sample(20, key=5), expected)
        np.testing.assert_array_equal(
            again.sample(20, key=5, derived=True)["effects"], fitted.sample(20, key=5, derived=True)["effects"]
        )
        with pytest.raises(ValueError, match="target"):
            sivi.load(tmp_path / "fit.sivi", target=target_of("counts"))

    @pytest.mark.slow
    @pytest.mark.optimised
    @pytest.mark.parametrize("name", NAMES)
    def test_moments_are_those_of_nuts(self, name):
        """Means within a tenth of a standard deviation, and standard deviations within a tenth."""
        target = target_of(name)
        run = sivi.samplers.nuts(target, key=1, num_chains=4, num_samples=5000, progress=False)
        assert np.max(run.rhat) < 1.01
        reference = run.flat()
        draws = sivi.fit(target, key=0, progress=False).unconstrained(20_000, key=1)
        entries = [np.asarray(jax.vmap(target.layout.elements)(x)) for x in (draws, jnp.asarray(reference))]
        means, sds = [x.mean(0) for x in entries], [x.std(0) for x in entries]
        offsets, ratios = (means[0] - means[1]) / sds[1], sds[0] / sds[1]
        assert np.abs(offsets).max() < 0.1, offsets
        assert np.abs(ratios - 1).max() < 0.1, ratios


SETTINGS = """
import os, sys
before = os.environ.get("XLA_FLAGS")
import jax
wanted, how = sys.argv[1] == "x64", sys.argv[2]
if how == "config":
    jax.config.update("jax_enable_x64", wanted)
import numpy as np, pymc as pm
from sivi import from_pymc
from sivi.interop import to_inferencedata
with pm.Model() as model:
    s = pm.HalfNormal("s", 1.0)
    pm.Normal("y", pm.Normal("m"), s, observed=np.arange(3.0))
if how == "context":
    with jax.enable_x64(wanted):
        target = from_pymc(model)
        value = target.log_prob(jax.numpy.zeros(2, float))
        score = target.score(jax.numpy.zeros(2, float))
        terms = target.pointwise_log_likelihood(jax.numpy.zeros(2, float))
    assert not jax.config.jax_enable_x64
else:
    target = from_pymc(model)
    value, score = target.log_prob(jax.numpy.zeros(2, float)), target.score(jax.numpy.zeros(2, float))
    terms = target.pointwise_log_likelihood(jax.numpy.zeros(2, float))
    assert jax.config.jax_enable_x64 == wanted
    assert jax.numpy.zeros(1).dtype == value.dtype
assert value.dtype == score.dtype == ("float64" if wanted else "float32")
assert target.observed["y"].dtype == value.dtype
assert terms["y"].dtype == value.dtype
assert os.environ.get("XLA_FLAGS") == before and len(jax.devices()) == 1
import pytensor
assert pytensor.config.floatX == "float64"
"""


@pytest.mark.parametrize(("wanted", "how"), [("x32", "config"), ("x64", "config"), ("x64", "context")])
def test_settings_of_jax_stay_as_they_are(wanted, how):
    run = subprocess.run(
        [sys.executable, "-c", SETTINGS, wanted, how],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ.copy(),
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert "float64" not in run.stderr


def test_pymc_is_asked_for_when_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymc", None)
    with pytest.raises(ImportError, match=r"from_pymc needs PyMC: pip install 'sivi\[pymc\]'"):
        from_pymc(object())
