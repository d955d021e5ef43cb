"""Targets with symmetries are judged by what they predict: in which of their equal modes draws are does not matter."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from oracles import linear_gaussian_family
from sivi.coordinates import DiagonalMap
from sivi.samplers.run import SamplerRun
from sivi.targets import BayesianNeuralNetwork, HasSymmetries, LogDensity, Target
from sivi.targets.base import TargetWrapper
from sivi.verdict import limits
from sivi.verdict.frame import frame_of_predictions
from sivi.verdict.quantities import quantities_of
from sivi.verdict.reference import faults_of_run
from sivi.verdict.refine import refine
from sivi.verdict.refined import Refined
from sivi.verdict.result import Cost
from unfitted import posterior_of

DIM, FAR = 3, 6.0
SD = np.array([1.0, 0.5, 2.0])
SCALE = jnp.asarray(SD, jnp.float32)


def two_modes(x):
    """N(m, S) and N(−m, S) with half of the probability each, m = 6 S 1."""
    log_probs = [-0.5 * jnp.sum((x / SCALE - sign * FAR) ** 2) for sign in (1.0, -1.0)]
    return jnp.logaddexp(*log_probs)


class Mirrored(HasSymmetries):
    """Two equal modes, and predictions that x → −x leaves as they are: given either mode, they are N(m, S)."""

    dim: int = DIM
    judged: int = DIM

    def log_prob(self, x, batch=None):
        return two_modes(x)

    def predictions(self, x):
        return (x * jnp.sign(jnp.sum(x / SCALE)))[: self.judged]

    @property
    def prediction_names(self):
        return tuple(f"f[{i}]" for i in range(self.judged))

    def random_start(self, key):
        return jax.random.normal(key, (self.dim,))


def in_one_mode(num=6000, seed=0):
    return SD * (FAR + np.random.default_rng(seed).normal(size=(num, DIM)))


def about(verdict, kind):
    return {name for item in verdict.findings if item.kind == kind for name in item.unknowns}


@pytest.fixture(scope="module")
def exact():
    return sivi.check(in_one_mode(), Mirrored())


def test_one_of_two_equal_modes_is_enough(exact):
    assert (exact.level, exact.findings, exact.modes) == ("no fault found", (), ())
    (note,) = exact.not_looked_at
    assert note.startswith("modes, and the 3 unknowns themselves: the target has equal modes without number, so 3 pred")
    assert exact.memory < limits.ENOUGH_MEMORY


@pytest.mark.slow
def test_the_same_draws_lack_a_mode_of_a_target_that_is_judged_by_its_unknowns():
    verdict = sivi.check(in_one_mode(), two_modes)
    assert verdict.level == "bad"
    assert "lost mode" in {item.kind for item in verdict.findings}


def test_faults_of_predictions_are_found_and_named():
    draws = in_one_mode()
    draws[:, 1] = SD[1] * FAR + 0.5 * (draws[:, 1] - SD[1] * FAR)
    draws[:, 2] += 0.5 * SD[2]
    draws *= np.random.default_rng(1).choice([-1.0, 1.0], (len(draws), 1))  # in either mode
    verdict = sivi.check(draws, Mirrored())
    assert verdict.level == "bad"
    assert about(verdict, "spread") == {"f[1]"}
    assert about(verdict, "mean") == {"f[2]"}
    for item in verdict.findings:
        truth = np.log(2.0) if item.kind == "spread" else -0.5
        if item.kind in ("spread", "mean"):
            assert abs(item.effect - truth) < 0.06, item.sentence


def chains_in_either_mode():
    signs = np.array([1.0, -1.0, 1.0, -1.0])[:, None, None]
    return signs * in_one_mode().reshape(4, -1, DIM)


def test_r_hat_is_that_of_predictions():
    chains, target = chains_in_either_mode(), Mirrored()
    run = SamplerRun(chains, target.layout, step_size=0.1)
    assert (run.rhat > 1.5).all()
    assert faults_of_run(run)
    assert faults_of_run(run, quantities_of(target)) == []
    for given in (run, chains, {"x": chains}):
        verdict = sivi.check(given, target, effort=0.25)
        assert verdict.level == "no fault found"
        assert len(verdict.not_looked_at) == 1  # R-hat and the number of independent draws are as they should be


def test_chains_that_disagree_in_what_they_predict():
    chains = chains_in_either_mode()
    chains[0, :, 1] += 2.0
    verdict = sivi.check(SamplerRun(chains, Mirrored().layout, 0.1), Mirrored(), effort=0.25)
    (fault,) = [item for item in verdict.findings if item.kind == "sampler"]
    assert (fault.level, fault.unknowns) == ("bad", ("f[1]",))


def test_fits_are_compared_by_predictions():
    chains = chains_in_either_mode()
    comparison = sivi.compare(in_one_mode(seed=1), Mirrored(), reference=chains)
    assert comparison.unknowns == ("f[0]", "f[1]", "f[2]")
    assert comparison.believed
    np.testing.assert_allclose(comparison.sd_ratio, 1.0, atol=0.06)


class Moved(TargetWrapper):
    """Another target in coordinates of its own."""

    target: Target

    def inner_point(self, x):
        return x - 1.0

    def log_prob(self, x, batch=None):
        return self.target.log_prob(self.inner_point(x), batch)


def test_the_target_inside_wrappers_predicts():
    wrapped = Moved(Moved(Mirrored()))
    draws = in_one_mode().astype(np.float32)
    assert quantities_of(wrapped).names == ("f[0]", "f[1]", "f[2]")
    np.testing.assert_allclose(quantities_of(wrapped).at(2.0 - draws), draws, rtol=1e-5)
    verdict = sivi.check(2.0 - draws, wrapped, effort=0.25)
    assert verdict.level == "no fault found"
    assert verdict.predicted.names == ("f[0]", "f[1]", "f[2]")


class TwoFunctions(Mirrored):
    """The modes predict different things, so that only draws of both are right."""

    def predictions(self, x):
        return x


def test_repeats_are_judged_as_the_mixture_that_they_are():
    conditional = linear_gaussian_family().conditional
    centre, covariance = np.asarray(conditional.b), np.asarray(conditional.covariance)
    shift = np.full(DIM, 20.0)

    class Parts(TwoFunctions):
        def log_prob(self, x, batch=None):
            offsets = [x - jnp.asarray(sign * shift + centre, jnp.float32) for sign in (1.0, -1.0)]
            precision = jnp.asarray(np.linalg.inv(covariance), jnp.float32)
            return jnp.logaddexp(*(-0.5 * offset @ precision @ offset for offset in offsets))

    maps = [DiagonalMap(jnp.asarray(sign * shift, jnp.float32), jnp.ones(DIM)) for sign in (1.0, -1.0)]
    verdict = replace(posterior_of(linear_gaussian_family(), maps), target=Parts()).check(effort=0.25)
    assert not [item for item in verdict.findings if item.kind == "repeats"]
    assert verdict.repeats == ()
    assert any(note.startswith("each repeat alone: the 2 are judged together") for note in verdict.not_looked_at)


def test_what_was_judged_is_kept_and_shown(exact, tmp_path):
    assert exact.predicted.draws.shape == exact.draws.shape
    np.testing.assert_allclose(exact.predicted.late, np.abs(exact.late), rtol=1e-5)
    exact.save(tmp_path / "verdict.sivi")
    again = sivi.load_verdict(tmp_path / "verdict.sivi")
    assert str(again) == str(exact)
    assert again.predicted.names == exact.predicted.names
    np.testing.assert_array_equal(again.predicted.late, exact.predicted.late)
    pytest.importorskip("matplotlib").use("Agg")
    assert [ax.get_title() for ax in exact.plot(2).axes] == ["f[0]", "f[1]"]


def test_draws_are_refined_by_what_they_predict():
    draws = SD * FAR + 0.5 * (in_one_mode() - SD * FAR)
    refined = refine(draws, Mirrored(), effort=2.0)
    assert refined.ended == "no fault found"
    np.testing.assert_allclose(np.asarray(refined.sample(8000, key=0)).std(0), SD, rtol=0.06)
    again = Refined(refined.draws, refined.layout, None, Cost(0.0, 0), "not judged")
    assert sivi.check(again, Mirrored(), effort=0.25).level == "no fault found"


class Constant(Mirrored):
    """Some, or all, of its predictions are the same number everywhere."""

    some: bool = True

    def predictions(self, x):
        return jnp.where(jnp.array([self.some, self.some, False]), super().predictions(x), 1.0)


def test_predictions_that_do_not_vary():
    verdict = sivi.check(in_one_mode(), Constant(), effort=0.25)
    assert verdict.level == "no fault found"
    assert verdict.not_looked_at[1] == "f[2]: the same number for all draws"
    assert verdict.predicted.names == ("f[0]", "f[1]")
    verdict = sivi.check(in_one_mode(), Constant(some=False), effort=0.25)
    assert [(item.kind, item.unknowns) for item in verdict.findings] == [("collapsed", ("f[0]", "f[1]", "f[2]"))]


class Undefined(Mirrored):
    def predictions(self, x):
        return jnp.log(super().predictions(x) - FAR)


def test_predictions_that_are_no_numbers():
    with pytest.raises(
        ValueError, match=r"predictions must be finite numbers .* f\[\d\] is (nan|-inf) at a draw"
    ) as raised:
        sivi.check(in_one_mode(), Undefined())
    assert "\n" not in str(raised.value)


def network(**settings):
    x = np.linspace(-1.0, 1.0, 30)[:, None]
    fixed = {"noise_precision": 20.0, "weight_precision": 1.0}
    return BayesianNeuralNetwork(x, np.sin(3.0 * x[:, 0]), hidden=(5,), activation="tanh", **fixed | settings)


def test_permuted_hidden_units_change_nothing():
    model, rng = network(), np.random.default_rng(0)
    draws = rng.normal(size=(2, 300, model.dim)).astype(np.float32)
    tree = model.layout.unravel_many(jnp.asarray(draws.reshape(-1, model.dim)))
    orders = np.argsort(rng.normal(size=(600, 5)), axis=1)
    for name, axis in (("weight_1", 2), ("bias_1", 1), ("weight_2", 1)):
        shape = [600 if i == 0 else 5 if i == axis else 1 for i in range(tree[name].ndim)]
        tree[name] = jnp.take_along_axis(tree[name], orders.reshape(shape), axis=axis)
    permuted = np.asarray(model.layout.ravel_many(tree)).reshape(draws.shape)
    assert np.abs(permuted - draws).max() > 1.0
    judged = quantities_of(model)
    np.testing.assert_allclose(judged.for_size(permuted), judged.for_size(draws), rtol=1e-4, atol=1e-4)


def test_directions_without_spread_are_no_axes():
    """Predictions at neighbouring inputs are almost the same number."""
    rng = np.random.default_rng(0)
    inputs = np.linspace(0.0, 1.0, 40)
    curves = rng.normal(size=(4000, 3)) @ np.stack([np.ones(40), np.sin(3.0 * inputs), inputs**2])
    curves += 1e-3 * rng.normal(size=curves.shape)
    frame = frame_of_predictions(curves, 4000.0)
    assert frame.rank == frame.axes.shape[1] <= 3
    np.testing.assert_allclose((frame.standardised(curves) @ frame.axes).std(0), 1.0, rtol=0.01)
    assert frame_of_predictions(curves, 50.0).rank <= 50 / limits.DRAWS_PER_AXIS


def test_data_too_many_for_chains(monkeypatch):
    model = network()
    draws = np.random.default_rng(0).normal(size=(2000, model.dim))
    monkeypatch.setattr(limits, "SECONDS", 1e-9)
    verdict = sivi.check(draws, model)
    assert verdict.level == "doubtful"
    (finding,) = verdict.findings
    assert finding.kind == "not judged"
    assert "allows it" in finding.sentence
    assert np.isnan(verdict.memory)
    assert refine(draws, model, verdict=verdict).ended == "not refined"


@pytest.mark.slow
def test_a_network_by_chains_of_its_own_and_half_as_wide():
    model = network()
    run = sivi.samplers.hmc(
        model, key=0, num_chains=8, num_warmup=1000, num_samples=2000, num_leapfrog=40, progress=False
    )
    assert sivi.check(np.asarray(run.draws), model).level == "no fault found"
    narrow = LogDensity(lambda x: 4.0 * model.log_prob(x), model.dim)
    run = sivi.samplers.hmc(
        narrow, key=0, num_chains=8, num_warmup=1000, num_samples=2000, num_leapfrog=40, progress=False
    )
    verdict = sivi.check(run.flat(), model)
    assert verdict.level == "bad"
    assert len(about(verdict, "spread")) > len(model.prediction_names) / 2
