"""What a fit says of itself at its end: which faults are named, and that good fits are silent."""

import pickle
import re
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from oracles import linear_gaussian_family
from sivi._fitting import remarks
from sivi._fitting.ending import merge, remarks_of
from sivi._fitting.probe import NUM_DRAWS, EndProbe, _mixture_scores, probes_of
from sivi._layout import Layout
from sivi._run import Remark
from sivi.coordinates import DiagonalMap, IdentityMap
from sivi.families.dense_gaussian import DenseGaussianAt
from sivi.families.diagonal_gaussian import GaussianAt
from sivi.objectives import MixtureKL
from sivi.stopping import DoublingState
from sivi.targets import as_target
from unfitted import posterior_of

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import fit_warnings

QUICK = MixtureKL(num_particles=32, optimizer=sivi.optimizers.Adam(1e-3))


def kinds(posterior):
    return [remark.kind for remark in posterior.warnings]


def fitted(log_density, dim=2, num_steps=100, **settings):
    """A short fit by a method that compiles soon."""
    settings = {"objective": QUICK, "whiten": None, "progress": False} | settings
    return sivi.fit(log_density, dim=dim, num_steps=num_steps, **settings)


def at_points(log_density, dim=2, spread=1.0, status="not run", affine=None, log_prob=True):
    """The look at a target of a fit whose draws are `spread` times N(0, I) in u, and the place of it."""
    affine = IdentityMap(dim) if affine is None else affine
    posterior = posterior_of(linear_gaussian_family(), [affine], Layout.vector(dim))
    posterior = replace(posterior, run=replace(posterior.run, warmup_status=(status,)))
    draws, normal = np.random.default_rng(1).normal(size=(2, 256, dim)).astype(np.float32)
    normal[0], draws = 0.0, spread * draws
    target = as_target(log_density, dim)
    x = jax.vmap(affine.forward)(jnp.concatenate([draws, normal]))
    scores = jax.vmap(target.score)(x)
    values = np.asarray(jax.vmap(target.log_prob)(x)) if log_prob else np.full(512, np.nan)
    u_scores = np.asarray(jax.vmap(affine.pull_back)(scores))
    probe = EndProbe(draws, normal, np.asarray(scores), u_scores, values, -draws / spread**2, 0.01, np.ones(dim), 1e-3)
    return probe, remarks.Place(posterior, 0)


class TestTheSentences:
    def test_unused_unknown_of_a_default_call(self):
        with pytest.warns(sivi.FitWarning, match=r"does not depend on it") as caught:
            posterior = sivi.fit(lambda x: -0.5 * x[0] ** 2, dim=2, num_steps=100, progress=False)
        assert len(caught) == 1
        assert kinds(posterior)[:2] == ["warm-up", "unused-unknown"]
        assert all(remark.unknowns == ("x[1]",) for remark in posterior.warnings[:2])
        assert str(caught[0].message) == "\n".join(posterior.warnings)

    def test_names_are_those_of_the_user(self):
        like = {"mu": 0.0, "tau": sivi.positive((2,)), "share": sivi.simplex(3)}
        with pytest.warns(sivi.FitWarning):
            posterior = fitted(lambda p: -(p["mu"] ** 2) - p["tau"][1], None, like=like)
        (remark,) = posterior.warnings
        # An unused positive number is e^y of a free y, and the density of y is e^y.
        assert (remark.kind, remark.unknowns) == ("unbounded", ("tau[0]",))
        assert "tau[0]" in remark

    @pytest.mark.parametrize(
        ("name", "words"),
        [("constant", "the density is constant"), ("round", "it rounds"), ("argmax", "it rounds")],
    )
    def test_zero_scores(self, name, words):
        case = fit_warnings.CASES[name]
        (remark,) = remarks.of_target(*at_points(case.log_density, case.dim), ran_off=False)
        assert remark.kind == "zero-score"
        assert "at all 512 points" in remark
        assert words in remark

    def test_underflow(self):
        affine = DiagonalMap(jnp.zeros(2), jnp.full(2, 1e16))
        (remark,) = remarks.of_target(
            *at_points(fit_warnings.CASES["underflow"].log_density, affine=affine), ran_off=False
        )
        assert remark.kind == "zero-score"
        assert "underflows" in remark

    def test_constant_slope(self):
        (remark,) = remarks.of_target(*at_points(lambda x: 3.0 * x[0] - 0.5 * x[1] ** 2), ran_off=False)
        assert (remark.kind, remark.unknowns) == ("unbounded", ("x[0]",))
        assert "slope, 3," in remark

    @pytest.mark.parametrize(
        ("name", "unknowns", "curvature"),
        [("wrong-sign", {"x[0]", "x[1]"}, "+4"), ("saddle", {"x[0]"}, "+4"), ("fourth-power", {"x[0]", "x[1]"}, None)],
    )
    def test_curvature_of_the_wrong_sign(self, name, unknowns, curvature):
        affine = DiagonalMap(jnp.ones(2), jnp.full(2, 2.0))
        case = fit_warnings.CASES[name]
        (remark,) = remarks.of_target(*at_points(case.log_density, affine=affine, status="not settled"), ran_off=True)
        assert remark.kind == "unbounded"
        assert set(remark.unknowns) <= unknowns
        if curvature is not None:  # L² of the map, up to the noise of 256 points
            found = float(re.search(r"mean curvature \+([\d.]+)", remark)[1])
            assert abs(found - 4.0) < 4.0 * 4.0 * (2 / 256) ** 0.5

    @pytest.mark.parametrize("status", ["settled", "not settled", "ran away"])
    def test_proper_densities_have_no_such_remark(self, status):
        for case in fit_warnings.CASES.values():
            if not case.expected and case.dim == 2:
                probe, place = at_points(case.log_density, case.dim, affine=None, status=status)
                assert remarks.of_target(probe, place, ran_off=False) == []

    @pytest.mark.parametrize(
        ("status", "words"), [("never moved", "never moved"), ("ran away", "ran away in x[1], to a standard deviation")]
    )
    def test_warm_up(self, status, words):
        affine = DiagonalMap(jnp.zeros(2), jnp.array([1.0, 1e12]))
        (remark,) = remarks.of_warmup(at_points(lambda x: -x @ x, affine=affine, status=status)[1])
        assert remark.kind == "warm-up"
        assert words in remark
        assert not list(remarks.of_warmup(at_points(lambda x: -x @ x, status="not settled")[1]))

    def test_far_and_wide_draws(self):
        def said(log_density, spread, status="settled"):
            return [(r.kind, r) for r in remarks.of_draws(*at_points(log_density, spread=spread, status=status))]

        assert said(lambda x: -0.5 * x @ x, 1.0) == []
        assert said(lambda x: -0.5 * x @ x, 1e3, "not run") == []  # u has no scale there
        assert said(lambda x: -0.5 * x @ x, 1e3)[0][0] == "far-draws"
        assert said(lambda x: 0.5 * x @ x, 1e3)[0][0] == "unbounded"
        ((kind, sentence),) = said(lambda x: -0.5 * x @ x, 30.0)
        assert kind == "far-draws"
        assert "times as wide" in sentence
        probe, place = at_points(lambda x: -0.5 * x @ x)
        overflown = replace(probe, draws=np.where(np.arange(256)[:, None] < 3, np.inf, probe.draws))
        (remark,) = remarks.of_draws(overflown, place)
        assert remark.startswith("The draws are not all finite")

    def test_heavy_tails_are_neither(self):
        probe, place = at_points(lambda x: -jnp.sum(jnp.log1p(x**2)), status="settled")
        tails = np.random.default_rng(0).standard_cauchy(size=probe.draws.shape)
        assert list(remarks.of_draws(replace(probe, draws=tails), place)) == []

    def test_scores_that_are_not_finite_and_sigma_at_its_floor(self):
        probe, place = at_points(lambda x: -0.5 * x @ x)
        scores = probe.x_scores.copy()
        scores[:26] = np.nan
        (remark,) = remarks.of_draws(replace(probe, x_scores=scores), place)
        assert remark.kind == "not-finite"
        assert "26 of 256 draws" in remark
        (remark,) = remarks.of_draws(replace(probe, sigma=np.array([1e-3, 0.1])), place)
        assert remark.kind == "sigma-floor"
        assert "in 1 of 2 coordinates" in remark


class TestDivergence:
    def test_limits(self):
        """q = N(0, s² I) and p = N(0, I): the ratio of squared scores is (s² − 1)², whatever the draws."""
        for spread, expected in ((1.0, None), (1.3, None), (1.5, 1.5625), (4.0, 225.0)):
            probe, place = at_points(lambda x: -0.5 * x @ x, spread=spread)
            posterior = replace(place.posterior, run=replace(place.posterior.run, step=1000))
            found = list(remarks.of_divergence(probe, posterior, 0, full=True))
            assert len(found) == (expected is not None)
            if expected is not None:
                assert float(re.search(r"differ by ([\d.e+]+)", found[0])[1]) == pytest.approx(expected, rel=0.05)
            # A run that was told its length is judged only where the difference is gross.
            gross = list(remarks.of_divergence(probe, posterior, 0, full=False))
            assert len(gross) == (expected is not None and expected > 100)
            assert not list(remarks.of_divergence(probe, place.posterior, 0, full=False))  # too few updates

    def test_the_loss_of_a_critic(self):
        probe, place = at_points(lambda x: -0.5 * x @ x, status="settled")
        history = {"loss": np.full(2000, 3.0), "critic_norm": np.zeros(2000)}
        run = replace(place.posterior.run, step=2000)
        posterior = replace(place.posterior, run=run, history=history)
        found = [
            list(remarks.of_divergence(replace(probe, own_weight=1.0), posterior, 0, full=f)) for f in (True, False)
        ]
        assert [len(own) for own in found] == [1, 0]
        assert "differ by 1.5 (per unknown" in found[0][0]

    @pytest.mark.parametrize("dense", [False, True])
    def test_scores_of_the_mixture(self, dense):
        """Against autodiff of the density that the families have."""
        keys = jax.random.split(jax.random.key(0), 4)
        mean, eps = jax.random.normal(keys[0], (2, 64, 3))
        sigma = jnp.exp(0.3 * jax.random.normal(keys[1], (64, 3)))
        at = jax.vmap(GaussianAt)(mean, sigma)
        basis = jnp.eye(3) + jnp.tril(0.5 * jax.random.normal(keys[2], (3, 3)), -1) if dense else jnp.eye(3)
        draws = (mean + sigma * eps) @ basis.T
        if dense:
            at = DenseGaussianAt(at, basis, jnp.linalg.inv(basis))

        def log_q(x):
            return jax.nn.logsumexp(at.log_prob_pairs(x[None])[0])

        scores, own = _mixture_scores(np.asarray(draws), jax.device_get(at))
        np.testing.assert_allclose(scores, jax.vmap(jax.grad(log_q))(draws), atol=2e-4)
        pairs = at.log_prob_pairs(draws)
        assert own == pytest.approx(float(jnp.mean(jnp.diagonal(jax.nn.softmax(pairs, axis=1)))), rel=1e-4)

    def test_draws_are_those_of_the_family(self):
        """With z and ε standard normal, q is N(b, A Aᵀ + diag σ²)."""
        family = linear_gaussian_family()
        posterior = posterior_of(family, [IdentityMap(family.dim)])
        posterior = replace(posterior, target=as_target(lambda x: -0.5 * x @ x, family.dim))
        (probe,) = probes_of(posterior)
        exact = np.asarray(posterior.sample(20_000, key=0))
        np.testing.assert_allclose((probe.draws.mean(0) - exact.mean(0)) / exact.std(0), 0.0, atol=4 / NUM_DRAWS**0.5)
        np.testing.assert_allclose(probe.draws.std(0) / exact.std(0), 1.0, atol=4 * (0.5 / NUM_DRAWS) ** 0.5)
        np.testing.assert_allclose(probe.u_scores[:NUM_DRAWS], -probe.draws, rtol=1e-6)
        assert not probe.normal[0].any()


class TestTheRun:
    def test_losses_and_skipped_updates(self):
        place = at_points(lambda x: -x @ x)[1]
        losses = np.where(np.arange(400) >= 385, np.nan, 1.0)
        run = replace(place.posterior.run, step=400, state=replace_skipped(place.posterior.run.state, 12))
        posterior = replace(place.posterior, run=run, history={"loss": losses})
        found = list(remarks.of_losses(posterior, 0))
        assert [remark.kind for remark in found] == ["loss", "skipped"]
        assert "in 75 % of the last 20 updates" in found[0]
        assert "12 of 400 updates (3.0 %)" in found[1]
        quiet = replace(
            posterior, run=replace(run, state=replace_skipped(run.state, 3)), history={"loss": losses[:380]}
        )
        assert not list(remarks.of_losses(quiet, 0))

    def test_still_improving(self):
        recipe = sivi.defaults.recipe(2)
        rule, num_steps = recipe.stop_rule(), recipe.num_steps

        def said(last, **changes):
            ends = rule.round_ends(num_steps, num_steps)
            losses = np.zeros(num_steps)
            losses[ends[-2][1] :] = last
            place = at_points(lambda x: -x @ x)[1]
            settings = replace(
                place.posterior.run.settings, num_steps=num_steps, stop_rule=rule, most_own_weight=0.25, **changes
            )
            run = replace(place.posterior.run, settings=settings, step=num_steps)
            return [
                r.kind for r in remarks.still_improving(replace(place.posterior, run=run, history={"loss": losses}))
            ]

        assert isinstance(rule.init(num_steps, 1), DoublingState)
        assert said(-0.21) == ["still-improving"]
        assert said(-0.01) == said(0.2) == []
        assert said(-0.21, repeats=1) == ["still-improving"]

    def test_repeats_are_named(self):
        one, two = Remark("warm-up", "The warm-up ran away.", ("x",)), Remark("skipped", "3 updates.")
        found = merge([[one], [], [one, two]])
        assert list(found) == ["In 2 of 3 repeats, the warm-up ran away.", "In repeat 2, 3 updates."]
        assert [remark.repeats for remark in found] == [(0, 2), (2,)]
        assert list(merge([[one]])) == ["The warm-up ran away."]
        assert str(merge([[two], [two]])[0]).startswith("In all repeats")

    def test_repeats_keep_their_own(self):
        with pytest.warns(sivi.FitWarning):
            posterior = fitted(lambda x: -0.5 * x[0] ** 2, repeats=2)
        assert posterior.warnings[0].repeats == (0, 1)
        assert kinds(posterior.repeat(1)) == ["unused-unknown"]

    def test_few_updates_and_good_fits_are_silent(self):
        assert fitted(lambda x: -0.5 * x[0] ** 2, num_steps=20).warnings == ()
        assert fitted(lambda x: -0.5 * jnp.sum(x**2)).warnings == ()

    def test_stored_and_recomputed(self, tmp_path):
        def log_density(x):
            return -0.5 * x[0] ** 2

        file = tmp_path / "fit.sivi"
        with pytest.warns(sivi.FitWarning):
            posterior = fitted(log_density, checkpoint=file)
        loaded = sivi.load(file)
        assert loaded.warnings == posterior.warnings != ()
        assert [(r.kind, r.unknowns, r.repeats) for r in loaded.warnings] == [("unused-unknown", ("x[1]",), (0,))]
        with pytest.warns(sivi.FitWarning) as caught:
            again = sivi.fit(log_density, dim=2, resume=posterior, num_steps=120, progress=False)
        assert len(caught) == 1
        assert kinds(again) == ["unused-unknown"]
        copy = pickle.loads(pickle.dumps(posterior.warnings[0]))  # noqa: S301
        assert (copy, copy.kind, copy.unknowns) == (posterior.warnings[0], "unused-unknown", ("x[1]",))

    def test_after_a_callback_that_stops(self):
        with pytest.warns(sivi.FitWarning):
            posterior = fitted(lambda x: -0.5 * x[0] ** 2, 2, 300, chunk_size=100, callbacks=[lambda report: True])
        assert (posterior.step, kinds(posterior)) == (100, ["unused-unknown"])

    @pytest.mark.slow
    def test_a_score_alone_and_a_family_of_another_kind(self):
        target = sivi.targets.ScoreFunction(lambda x: jnp.stack([-x[0], 0.0 * x[1]]), dim=2)
        key = jax.random.key(0)
        family = sivi.SemiImplicit(sivi.NormalMixing(2), sivi.StudentT(2, 2, df=5.0, key=key))
        with pytest.warns(sivi.FitWarning, match=r"score of x\[1\]"):
            sivi.fit(target, family=family, objective=QUICK, num_steps=100, whiten=None, progress=False)

    def test_a_diverged_fit_names_the_density(self):
        steep = MixtureKL(num_particles=16, clip=None, optimizer=sivi.optimizers.Adam(1e4))
        with pytest.raises(sivi.FitDiverged, match=r"rises along x\[0\] with the same slope"):
            fitted(lambda x: x[0] + jnp.sum(x[1] ** 4), num_steps=2000, objective=steep)

    def test_a_target_that_cannot_be_evaluated_again(self, monkeypatch):
        def fails(posterior):
            raise RuntimeError("out of memory")

        monkeypatch.setattr("sivi._fitting.ending.probes_of", fails)
        assert fitted(lambda x: -0.5 * x[0] ** 2).warnings == ()


@pytest.mark.slow
def test_the_warning_points_at_the_call(tmp_path):
    """In a Python without the suite's type checks, which stand between the call and the function."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sivi\nobjective = sivi.objectives.MixtureKL(num_particles=8)\n"
        "sivi.fit(lambda x: -x[0] ** 2, dim=2, num_steps=100, whiten=None, objective=objective, progress=False)\n"
    )
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0
    assert run.stderr.startswith(f"{script}:3: FitWarning: The score of x[1] is zero"), run.stderr


def replace_skipped(state, number):
    import equinox as eqx

    return eqx.tree_at(lambda s: s.skipped, state, jnp.array([number], jnp.int32))


@pytest.mark.slow
@pytest.mark.parametrize("name", fit_warnings.CASES)
def test_cases(name):
    """Densities without a posterior are named, by a warning or where the fit diverges; others pass in silence."""
    case = fit_warnings.CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sivi.FitWarning)
        row = fit_warnings.measured(lambda: sivi.fit(case.log_density, dim=case.dim, num_steps=2000, progress=False))
    if not case.expected:
        assert row["sentences"] == []
    else:
        said = " ".join(row["sentences"])
        assert re.search(r"cannot be normalised|score is zero|never moved|no finite mass", said), said


def test_remarks_of_a_fit_with_its_target_only():
    posterior = fitted(lambda x: -0.5 * jnp.sum(x**2))
    assert remarks_of(posterior) == ()
