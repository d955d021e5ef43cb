"""The groups that a target with derived quantities and observations adds to a tree, and what ArviZ makes of them."""

from dataclasses import replace

import arviz_base
import arviz_stats
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray
from scipy.special import logsumexp

import sivi
from oracles import LinearGaussian, linear_gaussian_model, linear_regression
from sivi.coordinates import DiagonalMap, IdentityMap
from sivi.interop.arviz import to_arviz
from sivi.targets import Tempered, Whitened
from unfitted import conjugate_posterior, posterior_of

NAMES = ["north", "east", "south"]


class Labelled(sivi.targets.StructuredModel):
    """y = slope·x + noise, with labels for everything, and a name that is that of an axis."""

    data: dict
    can_draw: bool = True

    @property
    def like(self):
        return {"slope": np.zeros(3), "noise": sivi.positive()}

    def log_prior(self, p):
        return -jnp.sum(p["slope"] ** 2) - p["noise"]

    def log_likelihood(self, p, datum):
        return jax.scipy.stats.norm.logpdf(datum["y"], p["slope"] @ datum["x"], p["noise"])

    def sample_datum(self, key, p, datum):
        if not self.can_draw:
            raise sivi.MissingFromModel("cannot.")
        return p["slope"] @ datum["x"] + p["noise"] * jax.random.normal(key)

    def derived(self, x):
        p = self.point(x)
        return {"variance": p["noise"] ** 2, "a/ratio": p["slope"] / p["noise"]}

    @property
    def dims(self):
        return {"slope": ("place",), "a/ratio": ("place",), "y": ("draw", "unused")}

    @property
    def coords(self):
        return {"place": NAMES, "draw": range(10, 17)}


def labelled(**settings) -> Labelled:
    rng = np.random.default_rng(5)
    data = {"x": jnp.asarray(rng.normal(size=(7, 3))), "y": jnp.asarray(rng.normal(size=7))}
    return Labelled(data, **settings)


def fitted(target, maps=None):
    """Some Gaussian over the target's unknowns, or as many as there are maps."""
    rng = np.random.default_rng(6)
    A = jnp.asarray(0.3 * rng.normal(size=(target.dim, 2)))
    family = sivi.SemiImplicit(sivi.NormalMixing(2), LinearGaussian(A, jnp.zeros(target.dim), A[:, 0] * 0 - 1.0))
    return replace(posterior_of(family, maps or [IdentityMap(target.dim)], target.layout), target=target)


@pytest.fixture(scope="module")
def posterior():
    dim = labelled().dim
    return fitted(labelled(), [DiagonalMap(jnp.full(dim, m), jnp.ones(dim)) for m in (0.0, 0.5)])


@pytest.fixture(scope="module")
def tree(posterior):
    return posterior.to_arviz(60, key=3)


class TestGroups:
    def test_their_order(self, tree):
        assert list(tree.children) == [
            "posterior",
            "posterior_predictive",
            "log_likelihood",
            "sample_stats",
            "observed_data",
            "fit",
        ]

    def test_derived_quantities_stand_beside_the_variables(self, posterior, tree):
        assert list(tree["posterior"].data_vars) == ["noise", "slope", "a.ratio", "variance"]
        draws = posterior.sample(60, key=3, by_repeat=True)
        np.testing.assert_allclose(tree["posterior/variance"], draws["noise"] ** 2, rtol=1e-5)
        np.testing.assert_allclose(tree["posterior/a.ratio"], draws["slope"] / draws["noise"][..., None], rtol=1e-5)

    def test_axes_have_the_targets_names_and_labels(self, tree):
        for name in ("slope", "a.ratio"):
            assert tree["posterior"][name].dims == ("chain", "draw", "place")
        assert tree["posterior"]["place"].values.tolist() == NAMES
        for group in ("log_likelihood", "posterior_predictive"):
            assert tree[group]["y"].dims == ("chain", "draw", "draw_")
        assert tree["observed_data/y"].dims == ("draw_",)
        assert tree["observed_data/draw_"].values.tolist() == list(range(10, 17))

    def test_log_likelihoods_are_those_of_the_draws(self, posterior, tree):
        draws, data = posterior.sample(60, key=3, by_repeat=True), posterior.target.data
        mean = np.asarray(draws["slope"]) @ np.asarray(data["x"]).T
        expected = jax.scipy.stats.norm.logpdf(data["y"], mean, draws["noise"][..., None])
        np.testing.assert_allclose(tree["log_likelihood/y"], expected, rtol=2e-4, atol=1e-5)

    def test_new_data_have_the_moments_of_the_likelihood(self, posterior):
        tree = posterior.to_arviz(4000, key=1)
        draws, x = posterior.sample(4000, key=1, by_repeat=True), np.asarray(posterior.target.data["x"])
        noise = np.asarray(draws["noise"])[..., None]
        z = (tree["posterior_predictive/y"].values - np.asarray(draws["slope"]) @ x.T) / noise
        assert abs(z.mean()) < 5 / np.sqrt(z.size)
        assert abs((z**2).mean() - 1) < 5 * np.sqrt(2 / z.size)
        # Independent of each other, and of the draws.
        assert np.abs(np.corrcoef(z.reshape(-1, 7).T)[np.triu_indices(7, 1)]).max() < 5 / np.sqrt(8000)
        assert abs(np.corrcoef(z[..., 0].ravel(), np.log(noise).ravel())[0, 1]) < 5 / np.sqrt(8000)

    def test_observations(self, posterior, tree):
        np.testing.assert_array_equal(tree["observed_data/y"], posterior.target.data["y"])

    def test_can_be_left_out(self, posterior):
        children = posterior.to_arviz(5, log_likelihood=False, posterior_predictive=False).children
        assert list(children) == ["posterior", "sample_stats", "observed_data", "fit"]

    def test_of_a_target_that_cannot_draw(self):
        assert "posterior_predictive" not in fitted(labelled(can_draw=False)).to_arviz(5).children

    def test_a_mistake_in_the_users_function_is_no_missing_function(self):
        class Mistaken(sivi.targets.BayesianModel):
            data: jax.Array
            dim: int = 1

            def log_prior(self, x):
                return -(x[0] ** 2)

            def log_likelihood(self, x, datum):
                return -((datum - x[0]) ** 2)

            def sample_datum(self, key, x, datum):
                return datum + None

        with pytest.raises(TypeError, match=r"unsupported operand|NoneType"):
            fitted(Mistaken(jnp.zeros(3))).to_arviz(5)

    def test_of_wrapped_targets(self, posterior, tree):
        """A tempered target has the same unknowns; in other coordinates u the inner target's point is m + L u."""
        for wrapped in (Tempered(posterior.target, jnp.asarray(0.5)), None):
            if wrapped is None:
                affine = DiagonalMap(jnp.full(4, 0.25), jnp.full(4, 2.0))
                wrapped = Whitened(posterior.target, affine)
                maps = [DiagonalMap(jnp.full(4, m), jnp.full(4, 0.5)) for m in (-0.125, 0.125)]
                other = replace(fitted(wrapped, maps), target=wrapped)
            else:
                other = replace(posterior, target=wrapped)
            same = to_arviz(other, 60, key=3)
            for name in ("posterior/variance", "posterior/a.ratio", "log_likelihood/y", "posterior_predictive/y"):
                np.testing.assert_allclose(same[name], tree[name], rtol=1e-3, atol=1e-4, err_msg=name)

    def test_a_file_keeps_them(self, tree, tmp_path):
        tree.to_netcdf(tmp_path / "draws.nc", engine="h5netcdf")
        with xarray.open_datatree(tmp_path / "draws.nc", engine="h5netcdf") as stored:
            xarray.testing.assert_identical(stored.load(), tree)


class TestDerivedOfSample:
    def test_beside_the_variables(self, posterior):
        draws = posterior.sample(9, key=2, derived=True)
        assert list(draws) == ["noise", "slope", "a/ratio", "variance"]
        np.testing.assert_array_equal(draws["slope"], posterior.sample(9, key=2)["slope"])
        np.testing.assert_allclose(draws["variance"], draws["noise"] ** 2, rtol=1e-5)
        by_repeat = posterior.sample(9, key=2, derived=True, by_repeat=True)
        assert by_repeat["a/ratio"].shape == (2, 9, 3)

    def test_a_vector_becomes_a_dict(self):
        plain = fitted(linear_gaussian_model())
        draws = plain.sample(4, key=0, derived=True)
        assert list(draws) == ["x"]
        np.testing.assert_array_equal(draws["x"], plain.sample(4, key=0))

    def test_another_structure_becomes_a_dict_by_dotted_names(self):
        target = sivi.targets.LogDensity(lambda p: -(p[0] ** 2) - p[1]["b"] ** 2, like=(0.0, {"b": 0.0}))
        assert list(fitted(target).sample(4, key=0, derived=True)) == ["0", "1.b"]

    def test_refused(self, posterior):
        with pytest.raises(
            ValueError, match="the target is needed for derived quantities, and this fit was loaded without it"
        ):
            replace(posterior, target=None).sample(4, key=0, derived=True)

        class Twice(Labelled):
            def derived(self, x):
                return {"slope": x[0]}

        with pytest.raises(ValueError, match="must not have the name of a variable; got two called 'slope'"):
            fitted(Twice(labelled().data)).sample(4, key=0, derived=True)


def test_loo_is_that_of_the_leave_one_out_posteriors():
    """For a conjugate model they are Gaussian, and so log p(y_i | y_-i) is known."""
    posterior = conjugate_posterior(repeats=2)
    loo = arviz_stats.loo(posterior.to_arviz(4000, key=0), pointwise=True)
    features, y = (np.asarray(a, float) for a in posterior.target.data)
    exact = []
    for i in range(len(y)):
        rest = np.delete(features, i, 0), np.delete(y, i)
        covariance = np.linalg.inv(np.eye(3) + rest[0].T @ rest[0] / 0.25)
        mean, variance = features[i] @ covariance @ rest[0].T @ rest[1] / 0.25, features[i] @ covariance @ features[i]
        exact.append(-0.5 * np.log(2 * np.pi * (variance + 0.25)) - 0.5 * (y[i] - mean) ** 2 / (variance + 0.25))
    np.testing.assert_allclose(loo.elpd_i, exact, atol=0.05)
    assert abs(loo.elpd - np.sum(exact)) < 0.1 * loo.se
    assert (loo.pareto_k < 0.7).all()
    # And the plain estimate by the same draws: the harmonic mean of the likelihoods.
    log_lik = posterior.to_arviz(4000, key=0)["log_likelihood/y"].values.reshape(-1, len(y))
    assert abs(loo.elpd - np.sum(np.log(len(log_lik)) - logsumexp(-log_lik, axis=0))) < 0.05


@pytest.mark.slow
@pytest.mark.optimised
def test_loo_of_a_fit_is_that_of_nuts():
    """Within a tenth of its standard error, on a conjugate regression with unknown noise."""
    model = linear_regression()
    ours = arviz_stats.loo(sivi.fit(model, key=0, progress=False).to_arviz(4000, key=0))
    run = sivi.samplers.nuts(model, key=1, progress=False)
    log_lik = jax.vmap(jax.vmap(model.pointwise_log_likelihood))(jnp.asarray(run.draws))
    log_lik = {name: np.array(values) for name, values in log_lik.items()}
    theirs = arviz_stats.loo(arviz_base.from_dict({"posterior": {"x": run.draws}, "log_likelihood": log_lik}))
    assert abs(ours.elpd - theirs.elpd) < 0.1 * theirs.se
    np.testing.assert_allclose(ours.se, theirs.se, rtol=0.05)
    np.testing.assert_allclose(ours.p, theirs.p, rtol=0.2)
