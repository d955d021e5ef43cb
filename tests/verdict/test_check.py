"""`sivi.check`: planted faults are found and named, exact draws are not, and every form of draws is taken."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from oracles import linear_gaussian_family, linear_gaussian_model
from sivi.coordinates import DiagonalMap
from sivi.samplers.run import SamplerRun
from sivi.targets import LogDensity, ScoreFunction, Target
from sivi.targets.base import TargetWrapper
from sivi.verdict import draws as draws_module
from sivi.verdict import limits
from sivi.verdict import refine as refine_module
from sivi.verdict.check_draws import _fewer
from sivi.verdict.findings import Finding
from sivi.verdict.inference import Inference
from sivi.verdict.minibatch import minibatch_finding
from sivi.verdict.mode_findings import by_mass
from sivi.verdict.modes import Mode, ModeSearch
from sivi.verdict.refine import refine
from sivi.verdict.refined import Refined
from sivi.verdict.result import Cost, ModeFound
from unfitted import posterior_of, ran_off

ROOT = np.array([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [0.0, 0.3, 2.0]])
MEAN = np.array([1.0, -2.0, 0.5])
PRECISION = jnp.asarray(np.linalg.inv(ROOT @ ROOT.T), jnp.float32)
CENTRE = jnp.asarray(MEAN, jnp.float32)


def gaussian(x):
    return -0.5 * (x - CENTRE) @ PRECISION @ (x - CENTRE)


def exact(seed=0, num=12_000):
    return MEAN + np.random.default_rng(seed).normal(size=(num, 3)) @ ROOT.T


def quick(draws, target=gaussian, **settings):
    return sivi.check(draws, target, **{"modes": False} | settings)


def about(verdict, kind):
    return {name for item in verdict.findings if item.kind == kind for name in item.unknowns}


@pytest.mark.parametrize("seed", range(4))
def test_exact_draws_have_no_fault(seed):
    verdict = quick(exact(seed), key=seed)
    assert (verdict.level, verdict.findings) == ("no fault found", ())
    assert str(verdict).startswith("no fault found")


def test_draws_that_are_too_narrow():
    verdict = quick(MEAN + 0.7 * (exact() - MEAN))
    assert verdict.level == "bad"
    assert about(verdict, "spread") == {"x[0]", "x[1]", "x[2]"}
    effects = [item.effect for item in verdict.findings if item.kind == "spread"]
    np.testing.assert_allclose(effects, -np.log(0.7), atol=0.05)
    assert "too narrow" in str(verdict)


def test_one_unknown_that_is_too_wide():
    draws = exact()
    draws[:, 2] = MEAN[2] + 1.3 * (draws[:, 2] - MEAN[2])
    verdict = quick(draws)
    assert verdict.level != "no fault found"
    assert about(verdict, "spread") == {"x[2]"}


def test_one_mean_that_is_off():
    draws = exact()
    draws[:, 1] += 0.3 * draws[:, 1].std()
    verdict = quick(draws)
    assert about(verdict, "mean") == {"x[1]"}
    (mean,) = [item for item in verdict.findings if item.kind == "mean"]
    assert abs(mean.effect + 0.3) < 4.0 * mean.error < 0.15
    assert "x[1]: the draws lie too high" in mean.sentence


def test_a_product_of_marginals():
    rng = np.random.default_rng(0)
    verdict = quick(np.stack([rng.permutation(column) for column in exact().T], 1))
    assert verdict.level == "bad"
    (pair,) = [item for item in verdict.findings if item.kind == "correlation" and item.unknowns == ("x[0]", "x[1]")]
    assert abs(pair.effect - 0.8) < 0.1


def banana(x):
    return -0.5 * (x[0] ** 2 / 4.0 + (x[1] - 0.5 * x[0] ** 2) ** 2)


def test_a_gaussian_with_the_moments_of_a_banana():
    rng = np.random.default_rng(1)
    first = 2.0 * rng.normal(size=12_000)
    draws = np.stack([first, 0.5 * first**2 + rng.normal(size=12_000)], 1)
    assert quick(draws, banana).level == "no fault found"
    wrong = rng.multivariate_normal(draws.mean(0), np.cov(draws.T), 12_000)
    assert quick(wrong, banana).level == "bad"


def two_modes(x):
    left = jnp.log(0.75) - 0.5 * jnp.sum((x + 4.0) ** 2)
    return jnp.logaddexp(left, jnp.log(0.25) - 0.5 * jnp.sum((x - 4.0) ** 2))


def test_a_lost_mode_is_found_and_refined_draws_have_it():
    draws = np.random.default_rng(2).normal(size=(8000, 2)) - 4.0
    verdict = sivi.check(draws, two_modes)
    assert verdict.level == "bad"
    (lost,) = [item for item in verdict.findings if item.kind == "lost mode"]
    assert abs(lost.effect - 0.25) < 0.03
    assert len(verdict.modes) == 2
    assert len(str(verdict).splitlines()) <= 15
    sample = np.asarray(verdict.refined.sample(4000, key=0))
    assert abs((sample[:, 0] > 0.0).mean() - 0.25) < 0.03


def test_every_form_of_draws():
    draws = exact()
    chains = draws.reshape(4, 3000, 3)
    target = LogDensity(lambda p: gaussian(jnp.concatenate([p["a"][None], p["b"]])), like={"a": 0.0, "b": jnp.zeros(2)})
    flat = {"a": draws[:, 0], "b": draws[:, 1:]}
    forms = [
        (draws, gaussian),
        (jnp.asarray(draws), gaussian),
        (chains, gaussian),
        (SamplerRun(chains, LogDensity(gaussian, 3).layout, 0.1), gaussian),
        (flat, target),
        ({"a": chains[..., 0], "b": chains[..., 1:]}, target),
    ]
    for form, density in forms:
        assert quick(form, density).level == "no fault found"
    flat["a"] = flat["a"] + 0.5
    assert about(quick(flat, target), "mean") == {"a"}


def test_constrained_draws_are_looked_at_on_the_free_scale():
    target = LogDensity(lambda p: -p["rate"] + 2.0 * jnp.log(p["rate"]), like={"rate": sivi.positive()})
    draws = np.random.default_rng(0).gamma(3.0, size=8000)
    assert quick({"rate": draws}, target).level == "no fault found"
    assert about(quick({"rate": 1.5 * draws}, target), "mean") == {"rate"}


def test_correlated_draws_are_thinned_and_few_are_said_to_be_few():
    rng = np.random.default_rng(3)
    noise, x = rng.normal(size=(4, 3000, 3)), np.zeros((4, 3000, 3))
    x[:, 0] = noise[:, 0]
    for i in range(1, 3000):
        x[:, i] = 0.95 * x[:, i - 1] + np.sqrt(1.0 - 0.95**2) * noise[:, i]
    verdict = quick(MEAN + x @ ROOT.T)
    assert verdict.level == "no fault found"
    assert "independent ones" in verdict.not_looked_at[0]


def test_a_score_alone():
    target = ScoreFunction(jax.grad(gaussian), dim=3)
    verdict = quick(exact(), target)
    assert verdict.level == "no fault found"
    assert "knows only its score" in " ".join(verdict.not_looked_at)
    assert verdict.memory < 0.25
    assert quick(MEAN + 0.7 * (exact() - MEAN), target).level == "bad"


def posterior(*maps):
    """The linear-Gaussian family, as a posterior of its own density: exact under the identity."""
    family = linear_gaussian_family()
    conditional = family.conditional
    truth = sivi.targets.GaussianMixture([conditional.b], [conditional.covariance])
    identity = DiagonalMap(jnp.zeros(3), jnp.ones(3))
    return replace(posterior_of(family, list(maps) or [identity]), target=truth)


def test_a_posterior_that_is_exact():
    found = posterior().check(modes=False)
    assert found.level == "no fault found"
    assert found.cost.gradients > 100_000


def test_effects_on_the_linear_gaussian_family_are_the_closed_forms():
    """x → m + S x moves means by m and sds by S: known effects, which every finding must have within its error."""
    scale, shift = np.array([0.6, 1.0, 1.5]), np.array([0.0, 0.8, 0.0])
    wrong = posterior(DiagonalMap(jnp.asarray(shift, jnp.float32), jnp.asarray(scale, jnp.float32)))
    conditional = wrong.family.conditional
    centre, sd = np.asarray(conditional.b), np.sqrt(np.diag(np.asarray(conditional.covariance)))
    verdict = wrong.check(modes=False)
    mean = (centre - (shift + scale * centre)) / (scale * sd)
    for item in verdict.findings:
        if item.kind in ("mean", "spread"):
            (name,) = item.unknowns
            i = int(name[2])
            truth = mean[i] if item.kind == "mean" else -np.log(scale[i])
            allowed = 4.0 * item.error + (0.1 if "typical" in item.sentence else 0.02)
            assert abs(item.effect - truth) < allowed, item.sentence
    assert {"x[0]", "x[2]"} <= about(verdict, "spread")
    assert "x[1]" in about(verdict, "mean")


def test_repeats_that_disagree(tmp_path):
    identity = DiagonalMap(jnp.zeros(3), jnp.ones(3))
    shifted = DiagonalMap(jnp.array([0.0, 1.0, 0.0]), jnp.ones(3))
    assert posterior(identity, identity).check(modes=False).level == "no fault found"
    verdict = posterior(identity, shifted).check(modes=False)
    kinds = [item for item in verdict.findings if item.kind == "repeats"]
    assert [item.unknowns for item in kinds] == [("x[1]",), ("x[1]",)]
    assert "repeat" in kinds[0].sentence
    # Each is judged alone too, by the chains that started from its draws.
    right, wrong = verdict.repeats
    assert right == ()
    assert (wrong[0].level, wrong[0].unknowns) == ("bad", ("x[1]",))
    assert "repeats   each alone: no fault found 0; bad 1" in str(verdict)
    verdict.save(tmp_path / "verdict.sivi")
    assert sivi.load_verdict(tmp_path / "verdict.sivi").repeats == verdict.repeats


def test_a_posterior_whose_draws_are_not_finite():
    verdict = posterior(ran_off(jnp.array([jnp.nan, 0.0, 0.0]))).check()
    assert verdict.level == "bad"
    assert "100 % of the draws are not finite" in str(verdict)


def test_draws_where_the_density_is_zero():
    draws = np.random.default_rng(0).normal(size=(4000, 1))
    verdict = quick(draws, lambda x: jnp.where(x[0] > 0.0, -(x[0] ** 2), -jnp.inf))
    assert verdict.level == "bad"
    assert "no density" in str(verdict)


class Unscaled(TargetWrapper):
    """A model whose minibatches are not scaled to all data."""

    target: Target

    def log_prob(self, x, batch=None):
        full = self.target.log_prior(x)
        value = self.target.log_prob(x, batch)
        return value if batch is None else full + (value - full) * batch.shape[0] / self.target.num_data


def test_a_forgotten_scale_of_minibatches():
    model = linear_gaussian_model(24)
    points = np.random.default_rng(0).normal(size=(64, model.dim)).astype(np.float32)
    full = np.asarray(jax.vmap(model.log_prob)(points))
    rng = np.random.default_rng(1)
    assert minibatch_finding(model, 10, points, full, rng) is None
    found = minibatch_finding(Unscaled(model), 6, points, full, rng)
    assert found is not None
    assert found.level == "bad"
    assert "N/B = 4" in found.sentence


@pytest.mark.slow
def test_more_unknowns_than_a_full_matrix_has():
    rng = np.random.default_rng(0)
    sd = np.exp(rng.normal(size=150))
    scale = jnp.asarray(sd, jnp.float32)
    draws = sd * rng.normal(size=(6000, 150))

    def density(x):
        return -0.5 * jnp.sum((x / scale) ** 2)

    assert quick(draws, density, effort=0.25).level == "no fault found"
    draws[:, 7] *= 0.5
    assert about(quick(draws, density, effort=0.25), "spread") == {"x[7]"}


def test_a_verdict_and_refined_draws_come_back_from_files(tmp_path):
    verdict = quick(MEAN + 0.7 * (exact() - MEAN))
    verdict.save(tmp_path / "verdict.sivi")
    again = sivi.load_verdict(tmp_path / "verdict.sivi")
    assert isinstance(again, sivi.Verdict)
    assert str(again) == str(verdict)
    np.testing.assert_array_equal(again.late, verdict.late)
    verdict.refined.save(tmp_path / "refined.sivi")
    refined = sivi.load_verdict(tmp_path / "refined.sivi")
    np.testing.assert_array_equal(refined.sample(100, 3), verdict.refined.sample(100, 3))
    with pytest.raises(sivi.FitFileError, match="format 'verdict 1'"):
        sivi.load(tmp_path / "verdict.sivi")


def test_refining_mends_what_is_wrong():
    draws = MEAN + 0.7 * (exact() - MEAN)
    refined = refine(draws, gaussian, effort=2.0)
    assert refined.ended == "no fault found"
    assert refined.verdict.level == "no fault found"
    sample = np.asarray(refined.sample(8000, key=0))
    np.testing.assert_allclose(sample.std(0), exact().std(0), rtol=0.06)
    assert refined.cost.gradients >= refined.verdict.cost.gradients


def test_the_plot_shows_the_worst_unknowns_first():
    pytest.importorskip("matplotlib").use("Agg")
    draws = exact()
    draws[:, 2] += 2.0
    figure = quick(draws).plot(num_unknowns=2)
    assert [ax.get_title() for ax in figure.axes] == ["x[2]", "x[0]"]


def test_data_too_many_for_chains_are_seen_by_minibatches(monkeypatch):
    """The linear-Gaussian model has a Gaussian posterior, whose mean and covariance are known."""
    model = linear_gaussian_model(400)
    mean = np.linalg.solve(
        -np.asarray(jax.hessian(model.log_prob)(jnp.zeros(model.dim))), model.score(jnp.zeros(model.dim))
    )
    root = np.linalg.cholesky(np.linalg.inv(-np.asarray(jax.hessian(model.log_prob)(jnp.zeros(model.dim)))))
    draws = mean + np.random.default_rng(0).normal(size=(9000, model.dim)) @ root.T
    monkeypatch.setattr(limits, "SECONDS", 1e-9)
    verdict = quick(draws, model)
    assert verdict.level == "no fault found"
    assert "minibatch scores" in verdict.not_looked_at[0]
    wrong = mean + 0.7 * (draws - mean)
    wrong[:, 0] += 0.5 * wrong[:, 0].std()
    verdict = quick(wrong, model)
    assert len(about(verdict, "spread")) == model.dim
    assert len(about(verdict, "mean")) == 1
    assert refine(wrong, model, verdict=verdict).ended == "not refined"


def test_refined_draws_go_to_arviz():
    pytest.importorskip("arviz_base")
    tree = quick(exact()).refined.to_arviz(200)
    assert tree["posterior/x"].shape == (1, 200, 3)
    np.testing.assert_allclose(tree["posterior/x"].mean(("chain", "draw")), MEAN, atol=0.6)


@pytest.mark.usefixtures("x64")
def test_double_precision():
    precision, centre = jnp.asarray(np.linalg.inv(ROOT @ ROOT.T)), jnp.asarray(MEAN)
    verdict = quick(exact(), lambda x: -0.5 * (x - centre) @ precision @ (x - centre))
    assert verdict.level == "no fault found"
    assert verdict.late.dtype == np.float64


def test_a_jump_that_no_score_sees():
    def jumps(x):
        return -0.5 * jnp.sum(x**2) + jnp.where(x[0] > 0.0, 2.0, 0.0)

    verdict = quick(np.random.default_rng(0).normal(size=(4000, 2)), jumps)
    assert verdict.level == "bad"
    assert about(verdict, "mean") == {"x[0]"}


def test_chains_that_cannot_move_are_no_clean_verdict():
    def no_score(x):
        return -0.5 * jnp.sum(x**2) + jnp.sum(jnp.sqrt(0.0 * x))  # its gradient is not a number

    verdict = quick(5.0 + np.random.default_rng(0).normal(size=(2000, 2)), no_score)
    assert verdict.level == "bad"
    assert [item.kind for item in verdict.findings] == ["zero density"]


def test_few_draws_of_many_unknowns_are_not_judged_along_their_own_axes():
    verdict = quick(np.random.default_rng(1).normal(size=(400, 40)), lambda x: -0.5 * (x @ x))
    assert verdict.level == "no fault found"
    assert any(note.startswith("directions") for note in verdict.not_looked_at)


def as_refined(draws):
    return Refined(draws, sivi.targets.Layout.vector(3), None, Cost(0.0, 0), "not judged")


def test_refined_draws_and_inferences_are_taken():
    refined = as_refined(exact())
    assert quick(refined).level == "no fault found"
    assert quick(as_refined(MEAN + 0.5 * (exact() - MEAN))).level == "bad"
    with pytest.raises(ValueError, match="target must be given"):
        sivi.check(refined)
    of_fit = replace(posterior(), target=LogDensity(gaussian, 3))
    inference = Inference(refined, "refine", (), None, (), True, posterior=of_fit)
    assert quick(inference, None).level == "no fault found"
    run = SamplerRun(exact().reshape(4, 3000, 3) + 5.0, refined.layout, 0.1)
    assert quick(replace(inference, source="nuts", run=run), None).level == "bad"


def test_chains_that_disagree_are_bad_and_not_an_error():
    chains = exact(num=2000).reshape(4, 500, 3)
    chains[0] += 8.0
    run = SamplerRun(chains, sivi.targets.Layout.vector(3), 0.1)
    for form in (run, chains):
        verdict = quick(form)
        assert verdict.level == "bad"
        assert [item.kind for item in verdict.findings] == ["sampler"]
        assert "the chains disagree: R-hat is" in str(verdict)
    assert refine(run, gaussian, verdict=verdict).ended == "not refined"


def test_divergences_of_a_run_are_found():
    diverging = np.arange(12_000).reshape(4, 3000) < 60
    run = SamplerRun(exact().reshape(4, 3000, 3), sivi.targets.Layout.vector(3), 0.1, diverging=diverging)
    (item,) = quick(run).findings
    assert (item.kind, item.level) == ("sampler", "doubtful")
    assert "60 of 12,000 transitions diverged" in item.sentence


def test_every_unknown_counts_for_the_effective_size():
    chains = np.random.default_rng(0).normal(size=(2, 500, 40))
    chains[..., 1] = np.cumsum(chains[..., 1], axis=1)
    assert draws_module._effective_size(chains) < 50


def test_a_short_check_has_draws_of_all_chains():
    points = np.arange(8000.0)[:, None]
    few = _fewer(draws_module.Draws(points, 8000.0, points, points, points, 8000.0), np.random.default_rng(0))
    assert (len(few.reference), few.size) == (limits.SHORT_REFERENCE, limits.SHORT_REFERENCE)
    assert all(abs(part.mean() - 4000.0) < 800.0 for part in (few.reference, few.starts, few.tuning))


def test_refining_keeps_to_its_budget(monkeypatch):
    first = quick(MEAN + 0.5 * (exact() - MEAN))
    spent = []

    def spends_all(key, target, draws, *, effort, **settings):
        spent.append(len(draws.starts) * limits.GRADIENTS_ALL * effort)
        return replace(first, cost=Cost(0.0, int(spent[-1])))

    monkeypatch.setattr(refine_module, "check_draws", spends_all)
    unit = limits.CHAINS * limits.GRADIENTS_ALL
    for effort, lengths in ((8.0, [1, 2, 4, 1]), (2.4, [1, 1.4]), (1.3, [1]), (0.1, [0.5])):
        spent.clear()
        refined = refine(exact(), gaussian, effort=effort, verdict=first)
        assert refined.ended == "budget spent"
        np.testing.assert_allclose(np.array(spent) / unit, lengths, rtol=1e-3)


def test_the_share_of_a_mode_is_claimed_only_if_masses_are_known():
    place = np.zeros(3)
    modes = (ModeFound(place, 0.7, 0.01, 0.9), ModeFound(place, 0.3, 0.01, 0.1))
    assert [mode.share for mode in refine_module._picked(modes)] == [0.7, 0.3]
    unknown = (modes[0], modes[1]._replace(error=0.6))
    assert refine_module._picked(unknown) == unknown
    assert refine_module._picked(modes[:1]) == modes[:1]


def test_slight_effects_are_told_and_do_not_count(tmp_path):
    verdict = quick(MEAN + (exact() - MEAN) * np.array([1.0, 0.93, 1.0]))
    assert verdict.level == "no fault found"
    (item,) = verdict.slight
    assert (item.kind, item.unknowns) == ("spread", ("x[1]",))
    assert item.effect == pytest.approx(-np.log(0.93), abs=0.02)
    verdict.save(tmp_path / "verdict.sivi")
    assert sivi.load_verdict(tmp_path / "verdict.sivi").slight == verdict.slight
    assert quick(exact()).slight == ()


def test_refining_has_one_more_round_for_slight_effects(monkeypatch):
    slight = quick(MEAN + (exact() - MEAN) * np.array([1.0, 0.93, 1.0]))
    bad = quick(MEAN + 0.5 * (exact() - MEAN))
    for said, rounds, level in (([slight, slight], 2, "no fault found"), ([slight, bad], 2, "no fault found")):
        left = list(said)
        monkeypatch.setattr(refine_module, "check_draws", lambda *a, left=left, **b: left.pop(0))
        refined = refine(exact(), gaussian, verdict=bad)
        assert (len(said) - len(left), refined.ended) == (rounds, level)
        assert refined.verdict.findings == ()


def test_chains_in_an_array_that_disagree_a_little():
    chains = exact().reshape(4, 3000, 3) + 0.2 * np.array([1.0, -1.0, 1.0, -1.0])[:, None, None] * np.array([1, 0, 0])
    assert any("whether the chains agree: R-hat is 1.0" in note for note in quick(chains).not_looked_at)
    run = SamplerRun(chains, sivi.targets.Layout.vector(3), 0.1)
    assert any("the chains disagree: R-hat is 1.0" in item.sentence for item in quick(run).findings)
    assert quick(exact().reshape(4, 3000, 3)).level == "no fault found"


def test_more_modes_than_can_be_told_apart():
    places = np.stack(np.meshgrid(*[10.0 * np.arange(4)] * 2), -1).reshape(-1, 2)
    target = sivi.targets.GaussianMixture(places, np.stack([np.eye(2)] * 16))
    rng = np.random.default_rng(0)
    weights = np.where(np.arange(16) % 2 == 0, 0.1, 0.025)
    draws = places[rng.choice(16, 12_000, p=weights)] + rng.normal(size=(12_000, 2))
    verdict = sivi.check(draws, target)
    assert "the weights of modes: the draws have more than 12, which are taken as one" in verdict.not_looked_at
    assert any(note.startswith("directions: the chains remember") for note in verdict.not_looked_at)


def test_standard_deviations_that_few_draws_make_are_not_judged():
    draws = np.random.default_rng(0).standard_t(1.0, size=(12_000, 2)) * np.array([1.0, 0.0])
    draws[:, 1] = np.random.default_rng(1).normal(size=12_000)
    verdict = quick(draws, lambda x: -jnp.log1p(x[0] ** 2) - 0.5 * x[1] ** 2)
    (note,) = [note for note in verdict.not_looked_at if note.startswith("standard deviations of")]
    assert note.startswith("standard deviations of x[0]: one draw in a thousand")


def test_pairs_of_many_unknowns_are_a_stated_choice():
    draws = np.random.default_rng(0).normal(size=(4000, 130))
    notes = quick(draws, lambda x: -0.5 * (x @ x), effort=0.25).not_looked_at
    assert any(note.startswith("most pairs of unknowns: of 8,385, up to 8,128") for note in notes)


def test_ctrl_c_of_a_refinement_keeps_the_last_round(monkeypatch):
    bad = quick(MEAN + 0.5 * (exact() - MEAN))

    def stopped(*outcomes):
        left = list(outcomes)

        def call(*arguments, **settings):
            outcome = left.pop(0)
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome

        monkeypatch.setattr(refine_module, "check_draws", call)

    stopped(bad, KeyboardInterrupt())
    refined = refine(exact(), gaussian, verdict=bad)
    assert (refined.ended, refined.verdict.level) == ("interrupted", "bad")
    stopped(KeyboardInterrupt())
    refined = refine(exact(), gaussian, verdict=bad)
    assert (refined.ended, refined.verdict) == ("interrupted", None)
    np.testing.assert_array_equal(refined.draws, bad.late)
    monkeypatch.setattr(refine_module, "check", lambda *a, **b: replace(bad, not_looked_at=("modes: interrupted",)))
    assert refine(exact(), gaussian).ended == "interrupted"


def test_a_lost_mode_that_could_not_be_weighed_stays_a_finding(monkeypatch):
    good, place = quick(exact()), np.zeros(3)
    lost = bad_finding("lost mode")
    modes = (ModeFound(place, 0.7, 0.6, 1.0), ModeFound(place, 0.3, 0.6, 0.0))
    monkeypatch.setattr(refine_module, "check_draws", lambda *a, **b: good)
    refined = refine(exact(), gaussian, verdict=replace(good, findings=(lost,), modes=modes))
    assert refined.verdict.findings == (lost,)
    known = tuple(mode._replace(error=0.01) for mode in modes)
    refined = refine(exact(), gaussian, verdict=replace(good, findings=(lost,), modes=known))
    assert (refined.verdict.findings, refined.ended) == ((), "no fault found")


def bad_finding(kind):
    return Finding(kind, (), 0.3, 0.01, "bad", "A mode has no draws.")


def test_the_verdict_of_a_refinement_is_checked():
    verdict = quick(np.random.default_rng(0).normal(size=(4000, 2)), lambda x: -0.5 * (x @ x))
    with pytest.raises(ValueError, match="verdict must be that of a check of x"):
        refine(exact(), gaussian, verdict=verdict)


def test_a_verdict_prints_fifteen_lines_at_most():
    verdict = quick(MEAN + 0.5 * (exact() - MEAN))
    findings = tuple(Finding(f"kind {i}", (f"x[{i}]",), 1.0, 0.1, "bad", "It is bad.") for i in range(30))
    modes = tuple(ModeFound(np.zeros(3), 0.1, 0.01, 0.1) for _ in range(10))
    notes = tuple(f"part {i}: why" for i in range(9))
    full = replace(verdict, findings=findings, modes=modes, not_looked_at=notes, repeats=((), findings))
    assert len(str(full).splitlines()) <= 15
    assert "30" not in str(replace(full, findings=()))
    assert len(str(replace(full, findings=())).splitlines()) <= 15


def test_modes_come_by_their_masses_in_every_stretch():
    rng = np.random.default_rng(0)
    draws = [np.full((500, 1), float(i)) for i in range(3)]
    modes = [Mode(np.zeros(1), m, 0.01, m, 0.01, d, np.zeros(500)) for m, d in zip((0.6, 0.3, 0.1), draws, strict=True)]
    late = by_mass(ModeSearch(tuple(modes), (), 0, 3), np.zeros((4096, 1)), rng)
    shares = [
        np.bincount(late[-512:, 0].astype(int), minlength=3) / 512,
        np.bincount(late[:, 0].astype(int)) / len(late),
    ]
    np.testing.assert_allclose(shares, [[0.6, 0.3, 0.1]] * 2, atol=0.005)
