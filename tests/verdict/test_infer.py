"""`sivi.infer`: every path that it can take, what it says of it, and that nothing is lost."""

import sys
import warnings
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from oracles import linear_gaussian_family
from sivi._run import Remark
from sivi.coordinates import DiagonalMap
from sivi.samplers.run import SamplerRun
from sivi.targets import GaussianMixture, LogDensity, ScoreFunction
from sivi.verdict import infer as module
from sivi.verdict.findings import Finding
from sivi.verdict.large_data import NOTE
from sivi.verdict.reference import Reference, faults_of_run
from sivi.verdict.refined import Refined
from sivi.verdict.result import INTERRUPTED, Cost, Verdict
from unfitted import posterior_of

pytestmark = pytest.mark.usefixtures("as_a_user")

FAMILY = linear_gaussian_family()
CONDITIONAL = FAMILY.conditional
#: What the family has exactly.
EXACT = GaussianMixture(np.asarray(CONDITIONAL.b)[None], np.asarray(CONDITIONAL.covariance)[None])


def density(x):
    return -0.5 * jnp.sum(x**2)


def made(target, *, finished=True, remarks=(), scale=1.0):
    """A posterior that was never fitted, of a family with known moments."""
    identity = DiagonalMap((1.0 - scale) * CONDITIONAL.b, scale * jnp.ones(3))
    posterior = posterior_of(FAMILY, [identity])
    run = replace(posterior.run, step=1 if finished else 0, warnings=remarks)
    return replace(posterior, target=target, run=run)


def draws(seed=0, num=512):
    return np.random.default_rng(seed).normal(size=(num, 3))


def verdict(level, severity=2.0, notes=(), memory=0.1):
    found = (
        ()
        if level == "no fault found"
        else (Finding("mean", ("x[0]",), 0.5, 0.01, level, f"It is {level}.", severity),)
    )
    return Verdict(found, (), Cost(1.0, 100), notes, sivi.targets.Layout.vector(3), draws(), draws(), memory)


def refined(level, ended="budget spent"):
    return Refined(draws(1), sivi.targets.Layout.vector(3), verdict(level), Cost(2.0, 200), ended)


def chains(shift=0.0):
    points = np.random.default_rng(2).normal(size=(4, 500, 3))
    points[0] += shift
    return SamplerRun(points, sivi.targets.Layout.vector(3), 0.1, sampler="nuts", num_gradients=300)


@pytest.fixture
def staged(monkeypatch):
    """Replace the steps by ones with a known outcome, and count them; an exception is raised in place of a result."""

    def stage(*, posterior=None, checks=(), refines=(), runs=()):
        waiting = {"fit": [posterior or made(LogDensity(density, 3))], "check": list(checks)}
        waiting |= {"refine": list(refines), "run_reference": list(runs)}
        seen = []

        def step(name):
            def call(*arguments, **settings):
                seen.append((name, arguments, settings))
                outcome = waiting[name].pop(0)
                if isinstance(outcome, BaseException):
                    raise outcome
                return outcome

            return call

        for name in waiting:
            monkeypatch.setattr(module, name, step(name))
        return seen

    return stage


def warned(*, match="", **settings):
    """The inference, which must issue exactly one warning."""
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always")
        inference = sivi.infer(density, dim=3, **settings)
    assert [item.category for item in issued] == [sivi.FitWarning]
    assert str(issued[0].message) == "\n".join(inference.warnings)
    assert match in str(issued[0].message)
    assert len(str(inference).splitlines()) <= 10
    assert not inference.believed
    return inference


def test_a_good_fit_ends_after_its_check(staged):
    staged(checks=[verdict("no fault found")])
    inference = sivi.infer(density, dim=3)
    assert (inference.path, inference.source, inference.level) == (("fit", "check"), "fit", "no fault found")
    assert inference.believed
    assert inference.warnings == ()
    np.testing.assert_array_equal(inference.sample(10, key=3), inference.posterior.sample(10, key=3))
    assert str(inference).splitlines()[0] == "draws of fit, believed: no fault found"
    assert inference.cost["check"] == Cost(1.0, 100)


@pytest.mark.parametrize("level", ["doubtful", "bad"])
def test_what_is_not_good_is_refined(staged, level):
    seen = staged(checks=[verdict(level)], refines=[refined("no fault found")])
    inference = sivi.infer(density, dim=3, effort=0.5)
    assert (inference.path, inference.source) == (("fit", "check", "refine"), "refine")
    assert inference.believed
    assert seen[-1][2]["effort"] == 4.0
    assert seen[-1][2]["verdict"].level == level
    assert "It is" in str(inference).splitlines()[2]
    assert sivi.compare(inference, reference=draws(7, 4000)).level == "no fault found"


def test_what_is_doubtful_after_refining_is_returned_with_a_warning(staged):
    staged(checks=[verdict("bad")], refines=[refined("doubtful")])
    inference = warned(match="The draws of refine are doubtful: It is doubtful.")
    assert (inference.path, inference.level) == (("fit", "check", "refine"), "doubtful")


def test_what_is_still_bad_goes_to_chains_from_the_refined_draws(staged):
    seen = staged(
        checks=[verdict("bad"), verdict("no fault found")],
        refines=[refined("bad")],
        runs=[Reference(chains(), Cost(3.0, 300))],
    )
    inference = sivi.infer(density, dim=3)
    assert (inference.path, inference.source) == (("fit", "check", "refine", "nuts"), "nuts")
    assert inference.believed
    (_, _, settings) = next(item for item in seen if item[0] == "run_reference")
    assert all((draws(1) == start).all(1).any() for start in settings["init"])
    assert inference.cost["nuts"].gradients == 300 + 100
    np.testing.assert_array_equal(
        np.sort(inference.unconstrained(2000, key=0), 0), np.sort(chains().flat().astype("f4"), 0)
    )
    assert inference.to_arviz()["posterior/x"].shape == (4, 500, 3)
    assert sivi.compare(inference, reference=draws(7, 4000)).level == "no fault found"


def test_chains_that_disagree_are_not_believed(staged):
    staged(
        checks=[verdict("bad"), verdict("no fault found")],
        refines=[refined("bad")],
        runs=[Reference(chains(3.0), Cost(3.0, 300))],
    )
    inference = warned(match="the chains disagree: R-hat is")
    assert (inference.source, inference.level) == ("nuts", "bad")


def test_chains_that_are_worse_than_the_refined_draws_are_not_returned(staged):
    staged(
        checks=[verdict("bad"), verdict("bad", severity=9.0)],
        refines=[refined("bad")],
        runs=[Reference(chains(), Cost(3.0, 300))],
    )
    inference = warned(match="The draws of NUTS are not returned")
    assert (inference.path[-1], inference.source) == ("nuts", "refine")


def test_without_blackjax_it_is_hmc_and_says_so(staged, monkeypatch):
    monkeypatch.setitem(sys.modules, "blackjax", None)
    run = Reference(replace(chains(), sampler="hmc"), Cost(3.0, 300))
    staged(checks=[verdict("bad"), verdict("no fault found")], refines=[refined("bad")], runs=[run])
    inference = sivi.infer(density, dim=3)
    assert (inference.path[-1], inference.source, inference.believed) == ("hmc", "hmc", True)
    assert "HMC in place of NUTS, since BlackJAX is not installed" in str(inference)


def test_a_fit_that_diverged_goes_straight_to_chains(staged):
    error = sivi.FitDiverged("Too many updates were not finite. More.", made(LogDensity(density, 3)))
    seen = staged(posterior=error, checks=[verdict("no fault found")], runs=[Reference(chains(), Cost(3.0, 300))])
    inference = sivi.infer(density, dim=3)
    assert (inference.path, inference.source, inference.believed) == (("fit", "nuts"), "nuts", True)
    assert next(item for item in seen if item[0] == "run_reference")[2]["init"] is None
    assert "The fit diverged, so Markov chains ran from random starts: Too many" in str(inference)


def test_a_fit_that_diverged_on_a_score_alone_is_an_error(staged):
    staged(posterior=sivi.FitDiverged("Too many updates were not finite."))
    with pytest.raises(sivi.FitDiverged, match="Too many"):
        sivi.infer(ScoreFunction(lambda x: -x, 3))


def test_a_score_alone_has_no_chains(staged):
    staged(posterior=made(ScoreFunction(lambda x: -x, 3)), checks=[verdict("bad")], refines=[refined("bad")])
    inference = warned(match="No NUTS: the target knows only its score")
    assert (inference.path, inference.source) == (("fit", "check", "refine"), "refine")


def test_data_too_many_for_full_gradients(staged):
    staged(checks=[verdict("bad", notes=(NOTE.format(rows=10**7, hours=30.0),), memory=float("nan"))])
    inference = warned(match="the data are too many for full gradients")
    assert (inference.path, inference.source) == (("fit", "check"), "fit")


def test_a_refinement_that_fails_does_not_lose_the_fit(staged):
    staged(checks=[verdict("bad")], refines=[RuntimeError("out of memory")])
    inference = warned(match="The fit could not be refined: out of memory")
    assert (inference.path, inference.source) == (("fit", "check", "refine"), "fit")
    staged(
        checks=[RuntimeError("out of memory"), verdict("no fault found")], runs=[Reference(chains(), Cost(3.0, 300))]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inference = sivi.infer(density, dim=3)
    assert "The fit could not be checked: out of memory" in inference.warnings
    assert (inference.path, inference.source) == (("fit", "check", "nuts"), "nuts")


def test_an_interrupted_refinement_ends_with_its_last_round(staged):
    staged(checks=[verdict("bad")], refines=[refined("doubtful", "interrupted")])
    inference = warned(match="these are the draws of the last round that was judged")
    assert (inference.source, inference.level) == ("refine", "doubtful")
    staged(checks=[verdict("doubtful")], refines=[refined("bad", "interrupted")])
    assert warned(match="Interrupted during the refinement: these are the draws of the fit.").source == "fit"


@pytest.mark.parametrize(
    "note",
    [
        "the weights of modes: the draws have more than 12, which are taken as one",
        "standard deviations of x[0]: one draw in a thousand makes more than a quarter of the variance",
    ],
)
def test_what_could_not_be_judged_is_not_believed(staged, note):
    staged(checks=[verdict("no fault found", notes=(note,))])
    assert warned(match="judged" if note[0] == "s" else "were not looked at").level == "no fault found"


def test_slight_effects_are_refined_and_no_reason_for_chains(staged):
    slight = replace(verdict("no fault found"), slight=verdict("doubtful").findings)
    staged(checks=[slight], refines=[refined("no fault found")])
    inference = sivi.infer(density, dim=3)
    assert (inference.path, inference.source, inference.believed) == (("fit", "check", "refine"), "refine", True)
    staged(checks=[slight], refines=[refined("bad")])
    inference = sivi.infer(density, dim=3)
    assert (inference.path, inference.source, inference.believed) == (("fit", "check", "refine"), "fit", True)


def test_what_was_hardly_looked_at_is_not_believed(staged):
    staged(checks=[verdict("no fault found", notes=(NOTE.format(rows=10**7, hours=30.0),), memory=float("nan"))])
    assert warned(match="Only means and spreads were looked at").level == "no fault found"
    staged(checks=[verdict("no fault found", notes=(INTERRUPTED,))])
    assert warned(match="Interrupted during the check: modes were not looked for.").path == ("fit", "check")


def test_a_fault_of_chains_is_said_once(staged):
    run = chains(3.0)
    known = replace(verdict("no fault found"), findings=tuple(faults_of_run(run)))
    staged(checks=[verdict("bad"), known], refines=[refined("bad")], runs=[Reference(run, Cost(3.0, 300))])
    inference = warned(match="the chains disagree: R-hat is")
    assert inference.verdict.findings == known.findings


def test_a_density_without_a_posterior_is_not_handed_on(staged):
    remark = Remark("unused-unknown", "The score of x[1] is zero.", ("x[1]",))
    for level in ("no fault found", "bad"):
        staged(posterior=made(LogDensity(density, 3), remarks=(remark,)), checks=[verdict(level)])
        inference = warned(match="The score of x[1] is zero.")
        assert inference.path == ("fit", "check")


def test_draws_that_cannot_be_checked(staged):
    staged(
        checks=[ValueError("draws must vary."), verdict("no fault found")], runs=[Reference(chains(), Cost(3.0, 300))]
    )
    inference = sivi.infer(density, dim=3)
    assert (inference.path, inference.source, inference.believed) == (("fit", "check", "nuts"), "nuts", True)
    assert "The fit could not be checked: draws must vary." in inference.warnings
    staged(checks=[ValueError("draws must vary.")], runs=[ValueError("no start.")])
    inference = warned(match="NUTS could not run: no start.")
    assert (inference.source, inference.level, inference.verdict) == ("fit", "not judged", None)


class TestInterrupted:
    def test_in_the_fit(self, staged):
        staged(posterior=made(LogDensity(density, 3), finished=False))
        inference = warned(match="Interrupted during the fit: the draws were not judged.")
        assert (inference.path, inference.level) == (("fit",), "not judged")
        assert inference.sample(5, key=0).shape == (5, 3)

    def test_in_the_check(self, staged):
        staged(checks=[KeyboardInterrupt()])
        assert warned(match="Interrupted during the check").path == ("fit", "check")

    def test_in_the_refinement(self, staged):
        staged(checks=[verdict("doubtful")], refines=[KeyboardInterrupt()])
        inference = warned(match="Interrupted during the refinement")
        assert (inference.source, inference.level) == ("fit", "doubtful")

    def test_in_the_chains(self, staged):
        staged(checks=[verdict("bad")], refines=[refined("bad")], runs=[KeyboardInterrupt()])
        inference = warned(match="Interrupted during NUTS")
        assert (inference.source, inference.level) == ("refine", "bad")


@pytest.mark.parametrize("level", ["no fault found", "bad"])
def test_files(staged, tmp_path, level):
    family = sivi.SemiImplicit(sivi.NormalMixing(2), sivi.DiagonalGaussian(2, 3, hidden=(4,), key=jax.random.key(0)))
    posterior = replace(posterior_of(family, [DiagonalMap(jnp.zeros(3), jnp.ones(3))]), target=LogDensity(density, 3))
    posterior = replace(posterior, run=replace(posterior.run, step=1))
    staged(posterior=posterior, checks=[verdict(level)], refines=[refined("no fault found")])
    inference = sivi.infer(density, dim=3)
    inference.save(tmp_path / "inference.sivi")
    loaded = sivi.load_verdict(tmp_path / "inference.sivi")
    assert isinstance(loaded, sivi.Inference)
    assert str(loaded) == str(inference)
    assert (loaded.path, loaded.cost, loaded.warnings) == (inference.path, inference.cost, inference.warnings)
    np.testing.assert_array_equal(loaded.sample(50, key=1), inference.sample(50, key=1))
    np.testing.assert_array_equal(loaded.posterior.sample(50, key=0), inference.posterior.sample(50, key=0))
    assert loaded.verdict.level == inference.verdict.level


def test_the_file_of_a_family_that_no_file_holds(staged, tmp_path):
    staged(checks=[verdict("bad")], refines=[refined("no fault found")])
    inference = sivi.infer(density, dim=3)
    inference.save(tmp_path / "inference.sivi")
    loaded = sivi.load_verdict(tmp_path / "inference.sivi")
    assert loaded.posterior is None
    np.testing.assert_array_equal(loaded.sample(50, key=0), inference.sample(50, key=0))
    staged(checks=[verdict("no fault found")])
    sivi.infer(density, dim=3).save(tmp_path / "inference.sivi")
    with pytest.raises(sivi.FitFileError, match=r"save inference\.posterior to a file of its own"):
        sivi.load_verdict(tmp_path / "inference.sivi")


def test_too_narrow_draws_are_mended(monkeypatch):
    """All steps but the fit are real."""
    monkeypatch.setattr(module, "fit", lambda *arguments, **settings: made(EXACT, scale=0.6))
    inference = sivi.infer(EXACT, effort=0.3)
    assert inference.path == ("fit", "check", "refine")
    assert inference.believed
    points = np.asarray(inference.unconstrained(4000, key=0))
    np.testing.assert_allclose(points.std(0), np.sqrt(np.diagonal(CONDITIONAL.covariance)), rtol=0.08)
    assert "too narrow" in inference.steps[1].said


def test_chains_run_for_real_after_a_fit_that_diverged(monkeypatch):
    def diverges(*arguments, **settings):
        raise sivi.FitDiverged("Too many updates were not finite.")

    monkeypatch.setattr(module, "fit", diverges)
    monkeypatch.setitem(sys.modules, "blackjax", None)
    monkeypatch.setattr(module, "check", lambda *arguments, **settings: verdict("no fault found"))
    inference = sivi.infer(EXACT, effort=0.5, progress=False, key=jax.random.key(3))
    assert inference.path == ("fit", "hmc")
    points = np.asarray(inference.unconstrained(2000, key=0))
    np.testing.assert_allclose(points.mean(0), CONDITIONAL.b, atol=0.25)
    assert inference.cost["hmc"].gradients > 100


def test_bad_input():
    with pytest.raises(ValueError, match="effort must be a positive, finite number; got -1"):
        sivi.infer(density, dim=3, effort=-1)
    with pytest.raises(TypeError, match="nonsense"):
        sivi.infer(density, dim=3, nonsense=1)
