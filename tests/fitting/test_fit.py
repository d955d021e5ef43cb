import os
import signal
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from contracts.plugins import small_family
from oracles import linear_gaussian_model
from sivi._fitting import driver
from sivi.critics import MLPCritic
from sivi.objectives import Annealed, LossObjective, ScoreMatching
from sivi.optimizers import Adam, OptimizerLike
from sivi.targets import Banana, LogDensity


def small_objective(**arguments):
    return ScoreMatching(num_particles=32, critic=MLPCritic((16,)), **arguments)


def quick(target=None, **arguments):
    settings = {"family": small_family(), "objective": small_objective(), "num_steps": 10, "progress": False}
    settings["whiten"] = None
    return sivi.fit(Banana() if target is None else target, **settings | arguments)


def parameters(posterior):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(posterior.family, eqx.is_array))]


def assert_same(a, b):
    for left, right in zip(parameters(a), parameters(b), strict=True):
        np.testing.assert_array_equal(left, right)


class TestRun:
    def test_learns_a_correlated_gaussian(self):
        """Means, sds and the correlation of a shifted, stretched Gaussian, from a default call of few updates."""
        covariance = np.array([[1.0, 0.7], [0.7, 2.0]])
        precision = jnp.asarray(np.linalg.inv(covariance), jnp.float32)
        mean = jnp.array([1.0, -2.0])
        posterior = sivi.fit(lambda x: -0.5 * (x - mean) @ precision @ (x - mean), dim=2, num_steps=300, progress=False)
        draws = np.asarray(posterior.sample(50_000, key=1))
        np.testing.assert_allclose(draws.mean(0), mean, atol=0.1)
        np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.2)

    @pytest.mark.slow
    def test_learns_a_posterior_from_minibatches(self):
        model = linear_gaussian_model()
        mean, covariance = model.posterior()
        posterior = sivi.fit(model, num_steps=2000, batch_size=12, progress=False)
        draws = np.asarray(posterior.sample(50_000, key=1))
        sd = np.sqrt(np.diag(covariance))
        np.testing.assert_allclose((draws.mean(0) - mean) / sd, 0.0, atol=0.2)
        np.testing.assert_allclose(draws.std(0) / sd, 1.0, atol=0.12)

    def test_compiles_the_chunk_once(self):
        traces = []

        class Counted(eqx.Module):
            def __call__(self, x):
                traces.append(1)
                return -jnp.sum(x**2)

        target = LogDensity(Counted(), dim=2)
        quick(target, num_steps=10, chunk_size=10)
        one_chunk = len(traces)
        traces.clear()
        quick(LogDensity(Counted(), dim=2), num_steps=95, chunk_size=10)  # ten chunks, the last one ragged
        assert 0 < len(traces) <= one_chunk

    def test_the_compiled_chunk_holds_no_data(self):
        """A million closed-over numbers are arguments of the program, not constants in it."""
        from sivi._fitting.loop import LoopInputs, _PackedRun, _run_chunk_body
        from sivi._fitting.packing import Packing
        from sivi._repeats import stack_repeats
        from sivi.coordinates import IdentityMap
        from sivi.stopping import init_stop

        data = jnp.ones((1000, 1000))
        target = sivi.targets.as_target(lambda x: -jnp.sum(x**2) * jnp.mean(data), 2)
        objective, family = small_objective(), small_family()
        state = objective.bind(10).init(jax.random.key(0), family, target)
        zero = jnp.zeros(1, jnp.int32)
        trees = stack_repeats((family, state), 1)
        packings = tuple(map(Packing.of, trees))
        packed = [packing.pack(tree) for packing, tree in zip(packings, trees, strict=True)]
        carry = _PackedRun(jnp.int32(0), *packed, zero, zero, init_stop(None, 10, 1), None, None, {})
        inputs = LoopInputs(objective, target, IdentityMap(2), None, jax.random.split(jax.random.key(1), 1), None)
        steps = (jnp.int32(5), jnp.int32(5))
        lowered = eqx.filter_jit(_run_chunk_body).lower(carry, None, *steps, inputs, 5, packings)
        assert len(lowered.as_text()) < 1_000_000

    def test_history_has_one_value_per_update(self):
        posterior = quick(num_steps=23, chunk_size=10)
        assert set(posterior.history) == {"loss", "critic_norm"}
        assert {len(values) for values in posterior.history.values()} == {23}
        assert posterior.step == posterior.num_steps == 23

    def test_int_typed_and_raw_keys_are_the_same(self):
        first = quick(key=7)
        assert_same(first, quick(key=jax.random.key(7)))
        assert_same(first, quick(key=jax.random.PRNGKey(7)))
        assert not np.array_equal(parameters(first)[0], parameters(quick(key=8))[0])

    def test_callbacks_see_every_chunk_and_can_stop(self):
        reports = []

        def callback(report):
            reports.append((report.step, report.state.critic(jnp.zeros(2)), len(report.metrics["loss"])))
            return report.step >= 20

        posterior = quick(num_steps=100, chunk_size=10, callbacks=[callback])
        assert [step for step, _, _ in reports] == [10, 20]
        assert [length for _, _, length in reports] == [10, 10]
        assert not np.array_equal(reports[0][1], reports[1][1])
        assert posterior.step == 20

    def test_a_callback_may_answer_in_any_kind_of_truth_value(self):
        for answer, steps in ((np.bool_(True), 10), (jnp.array(True), 10), (np.bool_(False), 30), (1, 30), (None, 30)):
            posterior = quick(num_steps=30, chunk_size=10, callbacks=[lambda report, answer=answer: answer])
            assert posterior.step == steps, answer

    def test_more_updates_do_not_go_back_on_the_annealing_path(self):
        objective = Annealed(small_objective())
        first = quick(objective=objective, num_steps=20)
        assert first.history["beta"][0] < 0.2
        assert first.history["beta"][-1] == 1.0
        more = sivi.fit(Banana(), resume=first, num_steps=60, progress=False)
        assert (more.history["beta"][20:] == 1.0).all()

    def test_structured_unknowns_come_back_structured(self):
        like = {"b": [np.zeros((2, 2)), 1.0], "a": (0.0,)}

        def log_density(p):
            assert set(p) == {"a", "b"}
            return -jnp.sum((p["b"][0] - 3.0) ** 2) - p["b"][1] ** 2 - p["a"][0] ** 2

        posterior = sivi.fit(log_density, like=like, num_steps=5, objective=small_objective(), progress=False)
        draws = posterior.sample(7, key=1)
        assert jax.tree.structure(draws) == jax.tree.structure(like)
        assert draws["b"][0].shape == (7, 2, 2)
        assert draws["a"][0].shape == (7,)
        assert posterior.unconstrained(7, key=1).shape == (7, 6)

    def test_an_objective_with_a_loss_needs_only_the_loss(self):
        class ReverseKL(LossObjective):
            """Exact for the linear-Gaussian family; here just a pull towards the target's mode."""

            optimizer: OptimizerLike

            def loss(self, key, family, target, batch):
                draws = jax.vmap(family.sample)(jax.random.split(key, 64))
                return -jnp.mean(jax.vmap(target.log_prob)(draws)), {}

        target = LogDensity(lambda x: -jnp.sum((x - 2.0) ** 2), dim=2)
        posterior = quick(target, objective=ReverseKL(Adam(0.05)), num_steps=300)
        np.testing.assert_allclose(posterior.sample(2000, key=0).mean(0), 2.0, atol=0.15)


class TestFinitenessPolicy:
    @staticmethod
    def bad_after(limit):
        """An objective that turns NaN at chosen steps."""

        class SometimesNaN(LossObjective):
            optimizer: OptimizerLike

            def loss(self, key, family, target, batch):
                bits = jax.random.uniform(key)
                draws = jax.vmap(family.sample)(jax.random.split(key, 16))
                factor = jnp.where(bits < limit, jnp.nan, 1.0)
                return factor * jnp.mean(draws**2), {}

        return SometimesNaN(Adam(1e-3))

    def test_a_bad_update_is_skipped_and_counted(self):
        with pytest.warns(sivi.FitWarning, match="of 400 updates .* were skipped"):
            posterior = quick(objective=self.bad_after(0.05), num_steps=400, chunk_size=37)
        bad = int(np.isnan(posterior.history["loss"]).sum())
        assert (bad,) == posterior.skipped
        assert bad > 0
        assert all(np.isfinite(leaf).all() for leaf in parameters(posterior))

    def test_too_many_bad_updates_stop_the_fit_at_the_same_step_for_any_chunk_size(self):
        stops = []
        for chunk_size in (1000, 7):
            with pytest.raises(sivi.FitDiverged, match="not finite") as caught:
                quick(objective=self.bad_after(0.3), num_steps=400, chunk_size=chunk_size)
            stops.append(caught.value.posterior)
        assert stops[0].step == stops[1].step < 400
        assert stops[0].skipped == (41,)
        assert np.isfinite(stops[0].sample(10, key=0)).all()
        assert_same(*stops)

    def test_a_long_run_of_bad_updates_stops_the_fit(self):
        with pytest.raises(sivi.FitDiverged, match="100 in a row"):
            quick(objective=self.bad_after(2.0), num_steps=100_000)

    def test_the_error_survives_a_process_pool(self):
        import pickle

        with pytest.raises(sivi.FitDiverged) as caught:
            quick(objective=self.bad_after(2.0), num_steps=500)
        copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301
        assert str(copy) == str(caught.value)


class TestInterrupt:
    def test_ctrl_c_returns_what_was_fitted(self):
        def interrupt(report):
            if report.step == 20:
                raise KeyboardInterrupt

        with pytest.warns(UserWarning, match="update 20 of 100"):
            posterior = quick(num_steps=100, chunk_size=10, callbacks=[interrupt])
        assert posterior.step == 20
        assert len(posterior.history["loss"]) == 20
        assert posterior.sample(5, key=0).shape == (5, 2)
        assert_same(sivi.fit(Banana(), resume=posterior, progress=False), quick(num_steps=100, chunk_size=10))

    def test_ctrl_c_before_anything_was_fitted_is_not_swallowed(self, monkeypatch):
        def interrupted(*arguments):
            raise KeyboardInterrupt

        monkeypatch.setattr(driver, "run_chunk", interrupted)
        with pytest.raises(KeyboardInterrupt):
            quick()


PROCESS = """
import os, resource, signal, sys, warnings
import sivi
from sivi.critics import MLPCritic
from sivi.objectives import ScoreMatching

path, resume = sys.argv[1], sys.argv[2] == "resume"
objective = ScoreMatching(num_particles=16, critic=MLPCritic((8,)))
settings = {"objective": objective, "num_steps": 200_000, "chunk_size": 5, "whiten": None, "progress": False}
say = lambda *words: print(*words, flush=True)

def interrupt(report):
    if report.step == 30:
        os.kill(os.getpid(), signal.SIGINT)

if not resume:
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job starts with it ignored
    posterior = sivi.fit(sivi.targets.Banana(), callbacks=[interrupt], **settings)
    say("interrupted", posterior.step, *posterior.sample(3, key=0).shape)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        posterior.save(path)
    except OSError as error:
        say("refused", error.strerror, os.listdir(os.path.dirname(path)))
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
callbacks = [lambda report: say(report.step)]
sivi.fit(sivi.targets.Banana(), checkpoint=path, resume=path if resume else None, callbacks=callbacks, **settings)
"""


def kill_at_random(path, times, seed=0):
    """Start a fit, kill it after a random time, check the checkpoint, go on from it; again and again.

    The first process does more: its first fit gets a real SIGINT, and the file of that fit may not be longer than
    20 kB. What it says of both is returned beside the steps.
    """
    rng = np.random.default_rng(seed)
    steps, said = [0], []
    for i in range(times):
        command = [sys.executable, "-c", PROCESS, str(path), "resume" if i else "new"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for line in process.stdout:
            if line.strip().isdigit() and int(line) > steps[-1]:
                break  # it has written at least one checkpoint of its own
            said.append(line.strip())
        try:
            process.wait(timeout=rng.uniform(0.0, 0.4))
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
        process.stdout.close()
        assert process.wait() == -signal.SIGKILL
        loaded = sivi.load(path, Banana())
        assert loaded.step > steps[-1]
        assert len(loaded.history["loss"]) == loaded.step
        steps.append(loaded.step)
    return steps, said


def test_a_process_that_is_interrupted_refused_its_file_and_killed(tmp_path):
    """SIGINT returns what was fitted; half a file is no file; a killed fit resumes from a whole checkpoint."""
    _, (interrupted, refused) = kill_at_random(tmp_path / "fit.sivi", times=2)
    word, step, *shape = interrupted.split()
    assert (word, shape) == ("interrupted", ["3", "2"])
    assert 30 <= int(step) <= 50
    assert refused == "refused File too large []"


@pytest.mark.slow
def test_a_fit_killed_twenty_times_always_resumes(tmp_path):
    path = tmp_path / "fit.sivi"
    steps, _ = kill_at_random(path, times=20, seed=1)
    objective = ScoreMatching(num_particles=16, critic=MLPCritic((8,)))
    whole = sivi.fit(
        Banana(),
        objective=objective,
        num_steps=200_000,
        chunk_size=steps[-1],
        whiten=None,
        progress=False,
        callbacks=[lambda report: True],
    )
    assert_same(whole, sivi.load(path))
