"""The stop rule, the timeline that it bends, and a fit that ends by it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from contracts.plugins import small_family
from sivi.critics import MLPCritic
from sivi.objectives import MixtureKL, Objective, ScoreMatching
from sivi.schedules import Cosine, Ramp, Schedule, Timeline
from sivi.stopping import Doubling, Plateau, init_stop, update_stop
from sivi.targets import Banana

NUM_STEPS = 4000
RULE = Plateau(tolerance=0.05, every=50, blocks=4, after=0.1)


@eqx.filter_jit
def _watched(rule, start, num_steps, losses):
    def see(state, numbered):
        step, loss = numbered
        return update_stop(rule, state, step + 1, jnp.int32(num_steps), loss)[0], None

    return jax.lax.scan(see, start, (jnp.arange(len(losses)), losses))[0]


def watched(losses, rule=RULE, num_steps=NUM_STEPS):
    """The state of the rule after it has seen losses of shape (steps,) or (steps, repeats)."""
    losses = np.asarray(losses, np.float32).reshape(len(losses), -1)
    return _watched(rule, init_stop(rule, num_steps, losses.shape[1]), num_steps, jnp.asarray(losses))


class TestTimeline:
    def test_of_a_run_that_is_not_compressed(self):
        timeline = Timeline.of(50)
        np.testing.assert_allclose([timeline.fraction(step) for step in (0, 10, 50, 60)], [0.0, 0.2, 1.0, 1.2])

    def test_is_continuous_at_the_bend_and_whole_at_the_end(self):
        timeline = Timeline(100, 30, 44)
        np.testing.assert_allclose(
            [timeline.fraction(step) for step in (0, 29, 30, 37, 44)], [0.0, 0.29, 0.3, 0.65, 1.0], rtol=1e-6
        )

    def test_counts_the_updates_of_a_busier_player(self):
        timeline = Timeline(100, 30, 44)
        for step in (5, 30, 40):
            np.testing.assert_allclose((timeline * 3).fraction(3 * step), timeline.fraction(step), rtol=1e-6)

    def test_bends_every_relative_schedule(self):
        timeline = Timeline(100, 40, 60)
        cosine = Cosine(1.0).bind(timeline)
        np.testing.assert_allclose(cosine(40), Cosine(1.0).bind(100)(40), rtol=1e-6)
        np.testing.assert_allclose(cosine(50), Cosine(1.0).bind(100)(70), rtol=1e-5)
        np.testing.assert_allclose(cosine(60), 0.0, atol=1e-6)
        assert float(Ramp(0.0, 1.0, 0.7).bind(timeline)(50)) == pytest.approx(1.0)

    def test_may_be_traced(self):
        values = jax.jit(lambda bend: Cosine(1.0).bind(Timeline(100, bend, 60))(50))(jnp.int32(40))
        np.testing.assert_allclose(values, Cosine(1.0).bind(Timeline(100, 40, 60))(50), rtol=1e-6)


class TestRule:
    noise = np.random.default_rng(0).normal(size=(NUM_STEPS, 2))

    def test_finds_a_plateau_at_the_first_look_that_can(self):
        state = watched(0.1 * self.noise)
        # 400 updates not looked at, then eight blocks of 50.
        assert (int(state.decay_start), int(state.end)) == (800, 1200)

    def test_waits_while_the_loss_falls(self):
        falling = np.linspace(10.0, 0.0, NUM_STEPS)[:, None]  # 0.5 every 200 updates
        assert int(watched(falling + 0.1 * self.noise).decay_start) == NUM_STEPS

    def test_ends_soon_after_the_fall_does(self):
        loss = np.maximum(1.0 - np.arange(NUM_STEPS) / 1500.0, 0.0)[:, None]
        state = watched(loss + 0.1 * self.noise)
        assert 1500 < int(state.decay_start) <= 2000
        assert int(state.end) == int(state.decay_start) + -(-int(state.decay_start) // 2)

    def test_noise_too_large_to_tell_is_no_plateau(self):
        assert int(watched(5.0 * self.noise).decay_start) == NUM_STEPS

    def test_every_repeat_must_be_on_it(self):
        losses = 0.1 * self.noise
        losses[:, 1] += np.linspace(10.0, 0.0, NUM_STEPS)
        assert int(watched(losses).decay_start) == NUM_STEPS

    def test_false_alarms_are_rare_while_the_loss_falls_at_twice_the_tolerance(self):
        """An improvement of 0.1 = 2 tolerances between the sides; noise for which 2 standard errors are 0.05."""
        rng = np.random.default_rng(1)
        losses = -0.1 * np.arange(900)[:, None] / 200 + 0.35 * rng.normal(size=(900, 400))
        # 400 independent first looks, three standard errors below the line each: 0.13 %, and fewer than 4 in all.
        hits = sum(int(watched(losses[:, [i]]).decay_start) < NUM_STEPS for i in range(0, 400, 4))
        assert hits <= 3

    def test_losses_that_are_not_finite_are_no_plateau(self):
        losses = 0.1 * self.noise
        losses[::300] = np.nan
        assert int(watched(losses).decay_start) == NUM_STEPS

    def test_never_ends_after_num_steps(self):
        late = Plateau(tolerance=0.05, every=50, blocks=4, after=0.85)
        state = watched(0.1 * self.noise, late)
        assert (int(state.decay_start), int(state.end)) == (3800, NUM_STEPS)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"tolerance": 0.0}, "tolerance"),
            ({"every": 0}, "every must be at least 1"),
            ({"blocks": 1}, "blocks must be at least 2"),
            ({"after": 1.0}, "after must be a share"),
            ({"decay": -1.0}, "decay"),
        ],
    )
    def test_bad_settings(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            Plateau(**{"tolerance": 1.0} | arguments)


class Recorder(Objective):
    """Records a loss that falls and then stays, and the value of a schedule at every update."""

    schedule: Schedule
    flat_from: int = eqx.field(static=True)

    def bind(self, plan):
        return Recorder(self.schedule.bind(plan), self.flat_from)

    def init(self, key, family, target):
        return jnp.int32(0)

    def step(self, key, family, state, target, batch):
        loss = jnp.maximum(self.flat_from - state, 0).astype(float) + 0.01 * jax.random.normal(key)
        return family, state + 1, {"loss": loss, "rate": self.schedule(state)}


def run(**arguments):
    settings = {
        "family": small_family(),
        "objective": Recorder(Cosine(1.0), 60),
        "num_steps": 400,
        "whiten": None,
        "stop": Plateau(tolerance=0.1, every=10, blocks=2, after=0.05),
        "progress": False,
    }
    return sivi.fit(Banana(), **settings | arguments)


class TestFit:
    def test_ends_early_with_its_schedule_at_the_end(self):
        posterior = run()
        assert posterior.finished
        assert posterior.num_steps == 400
        # The fall ends at 60: the first two pairs of blocks after it are seen at 100, and half as much again follows.
        assert posterior.step == 150
        rate = posterior.history["rate"]
        np.testing.assert_allclose(rate[:101], Cosine(1.0).bind(400)(jnp.arange(101)), rtol=1e-5)
        assert rate[-1] < 2e-3
        assert (np.diff(rate[100:]) < 0).all()

    def test_does_not_depend_on_the_chunks(self):
        whole = run(chunk_size=1000)
        for chunk_size in (1, 7):
            other = run(chunk_size=chunk_size)
            assert other.step == whole.step
            for name, values in whole.history.items():
                np.testing.assert_array_equal(values, other.history[name])

    @pytest.mark.parametrize("cut", [45, 98, 120])
    def test_resumes_before_and_inside_the_decay(self, cut, tmp_path):
        whole = run()
        part = run(chunk_size=1, callbacks=[lambda report: report.step == cut])
        assert (part.step, part.finished) == (cut, False)
        again = sivi.fit(Banana(), resume=part, progress=False)
        assert again.finished
        for name, values in whole.history.items():
            np.testing.assert_array_equal(values, again.history[name])

    def test_a_finished_fit_does_not_go_on_unless_told_to(self):
        done = run()
        assert sivi.fit(Banana(), resume=done, progress=False).step == done.step
        more = sivi.fit(Banana(), resume=done, num_steps=600, progress=False)
        assert 150 < more.step <= 600

    def test_comes_to_the_end_of_a_saved_fit(self, tmp_path):
        objective = ScoreMatching(num_particles=16, critic=MLPCritic((8,)))
        rule = Plateau(tolerance=1e6, every=5, blocks=2, after=0.0)
        settings = {"objective": objective, "num_steps": 100, "stop": rule, "chunk_size": 3}
        whole = run(**settings)
        assert whole.step == 30
        run(**settings, callbacks=[lambda report: report.step >= 9], checkpoint=tmp_path / "fit.sivi")
        resumed = sivi.fit(Banana(), resume=tmp_path / "fit.sivi", progress=False)
        assert resumed.step == 30
        np.testing.assert_array_equal(whole.history["loss"], resumed.history["loss"])
        assert sivi.load(tmp_path / "fit.sivi").settings.stop_rule == rule

    def test_a_rule_can_be_taken_away_when_a_fit_goes_on(self):
        part = run(chunk_size=1, callbacks=[lambda report: report.step == 45])
        assert sivi.fit(Banana(), resume=part, stop=None, progress=False).step == 400
        with pytest.raises(ValueError, match="whiten must be that of the resumed fit"):
            sivi.fit(Banana(), resume=part, whiten=([0.0, 0.0], [1.0, 2.0]), progress=False)

    def test_goes_all_the_way_without_a_rule(self):
        assert run(stop=None).step == 400
        assert run(stop="auto").step == 400  # the objective is given

    def test_a_bad_rule(self):
        with pytest.raises(TypeError, match=r"stop must be 'auto', a sivi\.Plateau or sivi\.Doubling"):
            run(stop="never")


def rounds_seen(losses, rule, num_steps):
    """The state after losses of shape (steps,) or (steps, repeats)."""
    losses = np.asarray(losses, np.float32).reshape(len(losses), -1)
    return _watched(rule, init_stop(rule, num_steps, losses.shape[1]), num_steps, jnp.asarray(losses))


class TestDoubling:
    rule = Doubling(first=100, share=0.5)
    noise = 0.1 * np.random.default_rng(0).normal(size=(4000, 2))

    def test_ends_after_two_rounds_that_are_alike(self):
        state = rounds_seen(self.noise[:300], self.rule, 4000)
        assert int(state.end) == 300

    def test_goes_on_while_rounds_improve(self):
        falling = self.noise - np.log1p(np.arange(4000))[:, None]
        assert int(rounds_seen(falling, self.rule, 4000).end) == 4000

    def test_improvement_is_judged_by_the_noise(self):
        """0.04 from round to round: 0.4 of the noise ends the run, and 0.4 times as much noise does not."""
        steps = np.where(np.arange(300) < 100, 0.0, -0.04)
        noise = 0.1 * (-1.0) ** np.arange(300)
        assert int(rounds_seen(steps + noise, self.rule, 4000).end) == 300
        assert int(rounds_seen(steps + 0.4 * noise, self.rule, 4000).end) == 4000

    def test_noise_that_is_not_quiet_waits_for_a_second_round(self):
        """The second round is no better: at once the end if the noise, 0.1, is quiet, and one round later if not."""
        for quiet, end in ((0.15, 300), (0.05, 700)):
            rule = Doubling(first=100, share=0.5, quiet=quiet)
            assert int(rounds_seen(self.noise[:end], rule, 4000).end) == end
        improving = self.noise[:700].copy()
        improving[300:] -= 5.0
        assert int(rounds_seen(improving, Doubling(first=100, share=0.5, quiet=0.05), 4000).end) == 4000

    def test_all_repeats_must_have_stopped_improving(self):
        losses = self.noise.copy()
        losses[:, 1] -= np.log1p(np.arange(4000))
        assert int(rounds_seen(losses[:2000], self.rule, 4000).end) == 4000

    def test_losses_that_are_not_finite_do_not_count(self):
        losses = self.noise[:300].copy()
        losses[::7] = np.nan
        state = rounds_seen(losses, self.rule, 4000)
        assert int(state.end) == 300
        assert np.isfinite(state.best).all()

    def test_a_large_loss_does_not_hide_its_noise(self):
        assert int(rounds_seen(1e5 + 10 * self.noise[:300], self.rule, 4000).end) == 300

    @pytest.mark.parametrize(
        ("num_steps", "ends"),
        [
            pytest.param(4000, [100, 300, 700, 1500, 4000], marks=pytest.mark.slow),
            (50, [50]),
            (199, [199]),
            (200, [100, 200]),
        ],
    )
    def test_rounds_double_and_the_last_takes_the_rest(self, num_steps, ends):
        falling = -np.log1p(np.arange(num_steps))
        seen = {
            int(rounds_seen(falling[:step], self.rule, num_steps).round_start) for step in range(1, num_steps + 1, 25)
        }
        assert seen <= {0, *ends}
        assert [end for _, end in self.rule.round_ends(num_steps, num_steps)] == ends
        assert [end for _, end in self.rule.round_ends(num_steps, ends[0])] == ends[:1]

    def test_schedules_start_anew_with_every_round(self):
        state = rounds_seen(-np.log1p(np.arange(150)), self.rule, 4000)
        rate = Cosine(1.0).bind(state.timeline(4000))
        np.testing.assert_allclose([rate(100), rate(200), rate(300)], [1.0, 0.5, 0.0], atol=1e-6)

    def test_bad_settings(self):
        with pytest.raises(ValueError, match="tail must be a share of a round"):
            Doubling(tail=1.5)
        with pytest.raises(ValueError, match="first must be at least 1"):
            Doubling(first=0)


#: A hundred steps of a walk lead the draws beyond all numbers, and the fit says so.
RUNS_OFF = pytest.mark.filterwarnings("ignore:The (draws are not all finite|score is not finite):sivi.FitWarning")


class Walk(Objective):
    """Moves the family by one at every update; the loss of an update is looked up in a table of its round."""

    ends: tuple = eqx.field(static=True)
    results: tuple = eqx.field(static=True)

    def init(self, key, family, target):
        return jnp.int32(0)

    def step(self, key, family, state, target, batch):
        which = jnp.searchsorted(jnp.asarray(self.ends), state, side="right")
        loss = jnp.asarray(self.results, float)[which] + 0.01 * jax.random.normal(key)
        moved = jax.tree.map(lambda leaf: leaf + 1.0 if eqx.is_inexact_array(leaf) else leaf, family)
        return moved, state + 1, {"loss": loss}


class TestBestRound:
    rule = Doubling(first=10, share=0.5)

    def walk(self, results, **arguments):
        objective = Walk((10, 30, 70, 150), results)
        return run(**{"objective": objective, "stop": self.rule, "num_steps": 310} | arguments)

    def moves(self, posterior):
        start = jax.tree.leaves(eqx.filter(small_family(), eqx.is_inexact_array))[0]
        return float(np.ravel(jax.tree.leaves(eqx.filter(posterior.family, eqx.is_inexact_array))[0] - start)[0])

    def test_a_round_that_made_it_worse_is_undone(self):
        posterior = self.walk((5.0, 3.0, 4.0, 0.0, 0.0))
        assert (posterior.step, posterior.finished) == (70, True)
        assert self.moves(posterior) == pytest.approx(30, abs=1e-3)

    @RUNS_OFF
    def test_the_next_round_starts_from_the_best(self):
        posterior = self.walk((5.0, 3.0, 2.0, 1.0, 0.5))
        assert posterior.step == 310
        assert self.moves(posterior) == pytest.approx(310, abs=1e-2)

    @RUNS_OFF
    def test_with_restarts_every_round_starts_from_update_zero(self):
        rule = Doubling(first=10, share=0.5, restart=True)
        better = self.walk((5.0, 3.0, 2.0, 1.0, 0.5), stop=rule)
        assert better.step == 310
        assert self.moves(better) == pytest.approx(160, abs=1e-2)  # the last round's 150, and ten left over
        worse = self.walk((5.0, 3.0, 4.0, 0.0, 0.0), stop=rule)
        assert worse.step == 70
        assert self.moves(worse) == pytest.approx(20, abs=1e-3)  # of the second round
        part = self.walk((5.0, 3.0, 4.0, 0.0, 0.0), stop=rule, chunk_size=1, callbacks=[lambda r: r.step == 35])
        again = sivi.fit(Banana(), resume=part, progress=False)
        assert self.moves(again) == self.moves(worse)

    def test_between_rounds_draws_are_those_of_the_best(self):
        part = self.walk((5.0, 3.0, 2.0, 1.0, 0.5), chunk_size=1, callbacks=[lambda report: report.step == 45])
        assert part.step == 45
        assert self.moves(part) == pytest.approx(30, abs=1e-3)

    @pytest.mark.parametrize("cut", [5, 29, 30, 66])
    def test_resumes_from_a_file(self, cut, tmp_path):
        results = (5.0, 3.0, 4.0, 0.0, 0.0)
        whole = self.walk(results)
        part = self.walk(results, chunk_size=1, callbacks=[lambda report: report.step == cut])
        again = sivi.fit(Banana(), resume=part, progress=False)
        assert again.step == whole.step
        np.testing.assert_array_equal(whole.history["loss"], again.history["loss"])
        assert self.moves(again) == self.moves(whole)

    def test_is_stored(self, tmp_path):
        objective = MixtureKL(num_particles=16)
        settings = {"objective": objective, "stop": Doubling(first=5), "num_steps": 60, "chunk_size": 3}
        whole = run(**settings)
        run(**settings, callbacks=[lambda report: report.step >= 9], checkpoint=tmp_path / "fit.sivi")
        resumed = sivi.fit(Banana(), resume=tmp_path / "fit.sivi", progress=False)
        assert resumed.step == whole.step
        np.testing.assert_array_equal(whole.sample(50, key=1), resumed.sample(50, key=1))
        assert sivi.load(tmp_path / "fit.sivi").settings.stop_rule == Doubling(first=5)

    def test_the_best_stays_the_best_when_a_fit_goes_on(self):
        done = self.walk((5.0, 3.0, 4.0, 9.0, 9.0))
        more = sivi.fit(Banana(), resume=done, num_steps=160, progress=False)
        assert more.step == 160
        assert self.moves(more) == self.moves(done)

    @RUNS_OFF
    def test_goes_on_to_more_updates(self):
        done = self.walk((5.0, 3.0, 4.0, 0.0, 0.0))
        more = sivi.fit(Banana(), resume=done, num_steps=400, progress=False)
        assert 70 < more.step <= 400
        assert float(more.history["loss"][-10:].mean()) < 1.0
