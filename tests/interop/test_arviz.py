import sys
from dataclasses import replace

import arviz_base
import arviz_stats
import jax
import jax.numpy as jnp
import matplotlib.style
import numpy as np
import pytest
import xarray

import sivi
from oracles import ar1, linear_gaussian_family
from sivi.coordinates import DiagonalMap
from sivi.critics import MLPCritic
from sivi.interop import to_arviz
from sivi.objectives import ScoreMatching
from sivi.posterior import Posterior
from sivi.targets import Layout
from unfitted import posterior_of

matplotlib.use("Agg")

LIKE = {"net": {"w": np.zeros((2, 2)), "b": 0.0}, "tau": sivi.positive((2,)), "L": sivi.correlation_cholesky(2)}


def log_density(p):
    return -jnp.sum(p["net"]["w"] ** 2) - p["net"]["b"] ** 2 - jnp.sum(p["tau"]) + jnp.log(p["L"][1, 1])


@pytest.fixture(scope="module")
def fitted():
    family = sivi.SemiImplicit(sivi.NormalMixing(2), sivi.DiagonalGaussian(2, 8, hidden=(4,), key=jax.random.key(0)))
    objective = ScoreMatching(num_particles=8, critic=MLPCritic((4,)))
    return sivi.fit(
        log_density,
        like=LIKE,
        family=family,
        objective=objective,
        num_steps=5,
        repeats=2,
        whiten=None,
        progress=False,
    )


@pytest.fixture(scope="module")
def tree(fitted):
    return fitted.to_arviz(50, key=3)


def made(means, layout=None) -> Posterior:
    """A posterior whose repeats are one Gaussian with known moments, shifted by these numbers in units of its sd."""
    family = linear_gaussian_family()
    sd = np.sqrt(np.diag(family.conditional.covariance))
    maps = [DiagonalMap(jnp.asarray(shift * sd, jnp.float32), jnp.ones(family.dim)) for shift in means]
    return posterior_of(family, maps, layout)


class TestTree:
    def test_draws_are_those_of_sample_by_name(self, fitted, tree):
        draws = fitted.sample(50, key=3, by_repeat=True)
        expected = {"net.w": draws["net"]["w"], "net.b": draws["net"]["b"], "tau": draws["tau"], "L": draws["L"]}
        assert set(tree["posterior"].data_vars) == set(expected)
        for name, values in expected.items():
            np.testing.assert_allclose(tree["posterior"][name], values, rtol=1e-6, atol=1e-6, err_msg=name)
        assert tree["posterior/net.w"].dims == ("chain", "draw", "net.w_dim_0", "net.w_dim_1")
        assert tree["posterior"].sizes["chain"] == 2
        assert (tree["posterior/tau"] > 0).all()
        np.testing.assert_array_equal(tree["posterior/tau_dim_0"], [0, 1])

    def test_lp_is_that_of_the_unconstrained_draws(self, fitted, tree):
        """With one positive variable the Jacobian is known: log p(τ) + log τ for τ = exp(u)."""
        points = fitted.unconstrained(50, key=3, by_repeat=True)
        expected = jax.vmap(jax.vmap(fitted.target.log_prob))(points)
        np.testing.assert_allclose(tree["sample_stats/lp"], expected, rtol=1e-5, atol=1e-5)
        family = sivi.SemiImplicit(
            sivi.NormalMixing(1), sivi.DiagonalGaussian(1, 1, hidden=(4,), key=jax.random.key(0))
        )
        target = sivi.targets.LogDensity(lambda p: -p["tau"], like={"tau": sivi.positive()})
        one = posterior_of(family, [DiagonalMap(jnp.zeros(1), jnp.ones(1))], target.layout)
        one = replace(one, target=target)
        exponential = one.to_arviz(20)
        tau = exponential["posterior/tau"]
        np.testing.assert_allclose(exponential["sample_stats/lp"], np.log(tau) - tau, rtol=1e-4, atol=1e-5)

    def test_a_model_with_data_is_evaluated_in_blocks(self, monkeypatch):
        rng = np.random.default_rng(0)
        model = sivi.targets.LogisticRegression(rng.normal(size=(30, 3)), rng.integers(0, 2, 30))
        posterior = replace(made([0.0, 1.0]), target=model)
        monkeypatch.setattr("sivi.targets.evaluate.MAX_POINTS_TIMES_ROWS", 100)
        expected = jax.vmap(jax.vmap(model.log_prob))(posterior.unconstrained(7, key=0, by_repeat=True))
        np.testing.assert_allclose(posterior.to_arviz(7)["sample_stats/lp"], expected, rtol=1e-5)

    def test_no_lp_where_the_log_density_is_not_known(self, fitted):
        assert set(replace(fitted, target=None).to_arviz(5).children) == {"posterior", "fit"}
        score_only = sivi.targets.ScoreFunction(lambda x: -x, dim=8)
        assert set(replace(fitted, target=score_only).to_arviz(5).children) == {"posterior", "fit"}

    def test_traces(self, fitted, tree):
        assert set(tree["fit"].data_vars) == set(fitted.history)
        for name, values in fitted.history.items():
            assert tree["fit"][name].dims == ("chain", "step")
            np.testing.assert_array_equal(tree["fit"][name], values)
        np.testing.assert_array_equal(tree["fit/step"], [1, 2, 3, 4, 5])
        about = {name: tree["fit"].attrs[name] for name in ("num_steps", "step", "finished", "skipped")}
        assert about == {"num_steps": 5, "step": 5, "finished": 1, "skipped": 0}
        # One repeat's history has no axis for it.
        np.testing.assert_array_equal(fitted.repeat(1).to_arviz(5)["fit/loss"], fitted.history["loss"][1:])

    def test_says_what_made_it(self, tree):
        for group in ("posterior", "sample_stats", "fit"):
            assert tree[group].attrs["inference_library"] == "sivi"
            assert tree[group].attrs["inference_library_version"] == sivi.__version__

    def test_a_vector(self):
        tree = made([0.0]).to_arviz(5)
        assert tree["posterior/x"].dims == ("chain", "draw", "x_dim_0")
        np.testing.assert_array_equal(tree["posterior/x"], made([0.0]).sample(5, key=0, by_repeat=True))

    @pytest.mark.parametrize(
        ("like", "names"),
        [
            ({"a/b": 0.0, "a": {"b": np.zeros(2)}}, ["a.b", "a.b_"]),
            ({"draw": np.zeros(2), "chain": 0.0}, ["chain_", "draw_"]),
            ({"w": np.zeros(2), "w_dim_0": 0.0}, ["w", "w_dim_0_"]),
        ],
    )
    def test_names_that_xarray_cannot_have(self, like, names, tmp_path):
        tree = made([0.0], Layout.like(like)).to_arviz(5)
        assert sorted(tree["posterior"].data_vars) == names
        tree.to_netcdf(tmp_path / "names.nc", engine="h5netcdf")
        assert len(arviz_stats.summary(tree)) == 3

    @pytest.mark.parametrize("num", [0, -1])
    def test_of_none(self, num):
        with pytest.raises(ValueError, match=f"num_samples must be at least 1; got {num}"):
            made([0.0]).to_arviz(num)


def test_a_file_keeps_everything(tree, tmp_path):
    tree.to_netcdf(tmp_path / "draws.nc")
    with xarray.open_datatree(tmp_path / "draws.nc") as stored:
        xarray.testing.assert_identical(stored.load(), tree)
        assert stored["posterior/tau"].dtype == tree["posterior/tau"].dtype
        assert {name: group.attrs for name, group in stored.children.items()} == {
            name: group.attrs for name, group in tree.children.items()
        }


class TestWithArviZ:
    def test_summary_has_the_moments(self):
        family = linear_gaussian_family()
        table = arviz_stats.summary(made([0.0] * 4).to_arviz(20_000), round_to="none")
        sd = np.sqrt(np.diag(family.conditional.covariance))
        # 80,000 draws: five standard errors, of the mean and of the sd.
        np.testing.assert_allclose(table["mean"], family.conditional.b, atol=5 * sd.max() / np.sqrt(80_000))
        np.testing.assert_allclose(table["sd"], sd, rtol=5 / np.sqrt(2 * 80_000))
        assert list(table.index) == [f"x[{i}]" for i in range(family.dim)]

    def test_r_hat_of_one_fit_is_not_a_number(self):
        table = arviz_stats.summary(made([0.0]).to_arviz(200))
        assert table["r_hat"].isna().all()
        assert table.drop(columns="r_hat").notna().all(axis=None)

    def test_r_hat_of_fits_that_agree(self):
        assert (arviz_stats.summary(made([0.0] * 4).to_arviz(1000), round_to="none")["r_hat"] < 1.01).all()

    def test_r_hat_of_fits_that_disagree(self):
        """Means apart by a variance B in units of the variance within: R-hat² ≈ 1 + B, for Gaussians by ranks too."""
        means = np.array([-0.75, -0.25, 0.25, 0.75])
        table = arviz_stats.summary(made(means).to_arviz(2000), round_to="none")
        # Cut in halves, the variance of eight means: 8/7 of theirs.
        np.testing.assert_allclose(table["r_hat"], np.sqrt(1 + means.var() * 8 / 7), rtol=0.03)

    @pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # matplotlib's, of what arviz-plots does
    def test_forest_plot(self, monkeypatch):
        # arviz-plots 0.8.0 looks for `core` when it is imported; in matplotlib 3.11 its names are one level higher.
        monkeypatch.setattr(matplotlib.style, "core", matplotlib.style, raising=False)
        import arviz_plots

        tree = made([0.0, 1.0]).to_arviz(100)
        plots = arviz_plots.plot_forest(tree, backend="matplotlib", combined=True)
        labels = [text.get_text() for ax in plots.viz["figure"].item().axes for text in ax.texts]
        assert {"x", "0", "1"} <= set(labels)

    def test_its_own_rhat_agrees_with_the_librarys(self):
        posterior = made([0.0, 0.3, 0.0])
        tree = posterior.to_arviz(400)
        ours = sivi.samplers.split_rhat(np.asarray(posterior.sample(400, key=0, by_repeat=True)))
        np.testing.assert_allclose(arviz_stats.rhat(tree)["x"], ours, rtol=1e-5)

    def test_its_effective_sample_size_agrees_with_the_librarys(self):
        posterior = made([0.0, 0.3, 0.0])
        tree = posterior.to_arviz(400)
        ours = sivi.samplers.effective_sample_size(np.asarray(posterior.sample(400, key=0, by_repeat=True)))
        np.testing.assert_allclose(arviz_stats.ess(tree, method="bulk")["x"], ours, rtol=1e-5)

    @pytest.mark.parametrize("shape", [(4, 500), (3, 401), (1, 2000)])
    @pytest.mark.parametrize("rho", [-0.9, -0.5, 0.0, 0.5, 0.9])
    def test_effective_sample_size_of_dependent_draws(self, rho, shape):
        chains = ar1(rho, shape)
        theirs = arviz_stats.ess(chains, chain_axis=0, draw_axis=1, method="bulk")
        np.testing.assert_allclose(sivi.samplers.effective_sample_size(chains[:, :, None])[0], theirs, rtol=1e-10)

    def test_effective_sample_size_where_it_differs(self):
        """Autocorrelations that are positive at all lags: ArviZ leaves the last ones out, and finds more draws."""
        chains = ar1(0.99, (4, 20))
        theirs = float(arviz_stats.ess(chains, chain_axis=0, draw_axis=1, method="bulk"))
        ours = sivi.samplers.effective_sample_size(chains[:, :, None])[0]
        assert 4 < ours < 0.9 * theirs < 12


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz_base", None)
    with pytest.raises(ImportError) as caught:
        made([0.0]).to_arviz(5)
    assert str(caught.value) == "to_arviz needs arviz-base: pip install 'sivi[arviz]'"
    with pytest.raises(ImportError, match="sivi\\[arviz\\]"):
        to_arviz(made([0.0]), 5)


def test_conventions_are_those_of_arviz_base(tree):
    """What ArviZ's own converter makes of the same arrays."""
    values = {name: array.values for name, array in tree["posterior"].data_vars.items()}
    own = arviz_base.from_dict({"posterior": values})["posterior"].to_dataset()
    xarray.testing.assert_equal(own, tree["posterior"].to_dataset())
