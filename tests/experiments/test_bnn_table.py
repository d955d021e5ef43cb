"""The table of networks: its splits, its units, its programs of all splits at once, and what is said of their rows."""

import dataclasses
import json
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from sivi import DiagonalGaussian, NormalMixing, SemiImplicit
from sivi.experiments import EXPERIMENTS, JobResult, Results, run
from sivi.experiments._bnn_chains import STEP_SIZES, Descent, Hamiltonian, Langevin, LangevinMember
from sivi.experiments._bnn_data import SPLITS, Rows, linear_scores, parts_of, test_rows
from sivi.experiments._bnn_methods import Members, _chosen_steps
from sivi.experiments._bnn_precisions import kept_row, precisions_of
from sivi.experiments._bnn_published import PUBLISHED
from sivi.experiments._bnn_report import SET_LABELS, mean_and_error, paired
from sivi.experiments._bnn_semi_implicit import FAMILY, SemiImplicitFit, sivi_sm, uivi, z_share
from sivi.experiments._bnn_semi_implicit import sivi as sivi_objective
from sivi.experiments._bnn_side_by_side import Process, run_side_by_side, save_states
from sivi.experiments._bnn_stein import WithPrecisions, log_precisions
from sivi.experiments._bnn_target import filled_network, stacked
from sivi.experiments._result_files import read_result, write_result
from sivi.experiments.bnn_table import BNNTable

test_rows.__test__ = False  # a function of the library, not a test

PRECISIONS = {"paper_weight": 0.4, "paper_noise": 0.08, "own_weight": [3.0, 0.5], "own_noise": 20.0}


def made_up_rows(num_data, num_features=2, seed=0):
    rng = np.random.RandomState(seed)
    x = 3.0 + 5.0 * rng.randn(num_data, num_features)
    return Rows(x, 10.0 + 4.0 * np.sin(x[:, 0]) + rng.randn(num_data))


def two_targets(sizes=(30, 24)):
    return stacked([filled_network(made_up_rows(n, seed=n), max(sizes), 1.0, 5.0) for n in sizes])


def keys_of(count):
    return jax.random.split(jax.random.key(5), count)


def member(tree, index):
    return jax.tree.map(lambda leaf: leaf[index] if eqx.is_array(leaf) else leaf, tree)


class TestSplits:
    def test_rule_in_numbers(self):
        assert (*range(20), 42) == SPLITS
        assert test_rows(3, 308)[:6].tolist() == [69, 3, 285, 266, 299, 201]
        assert test_rows(42, 308)[:6].tolist() == [288, 9, 57, 60, 25, 63]
        assert len(test_rows(3, 308)) == 31, "308/10 rounded up"
        assert len(test_rows(0, 1030)) == 103

    def test_parts_of_a_set(self):
        data = sivi.datasets.load("yacht")
        order = np.random.RandomState(103).permutation(308)
        parts = parts_of("yacht", 3)
        np.testing.assert_array_equal(parts.test.x, data.inputs[order[:31]])
        np.testing.assert_array_equal(parts.train.y, data.outputs[order[31:]])
        assert [len(rows.y) for rows in parts] == [277, 249, 28, 31]
        np.testing.assert_array_equal(np.concatenate([parts.fit.y, parts.dev.y]), parts.train.y)

    def test_dev_rows_are_few_in_a_large_set(self):
        assert [len(rows.y) for rows in parts_of("power", 0)] == [8611, 8111, 500, 957]

    def test_most_rows(self):
        assert [len(rows.y) for rows in parts_of("yacht", 0, 50)] == [50, 45, 5, 31]

    def test_linear_regression(self):
        parts = parts_of("yacht", 42)
        scores = linear_scores(parts)
        design = np.column_stack([np.ones(277), parts.train.x])
        coefficients = np.linalg.solve(design.T @ design, design.T @ parts.train.y)
        residuals = parts.train.y - design @ coefficients
        errors = parts.test.y - np.column_stack([np.ones(31), parts.test.x]) @ coefficients
        sd = math.sqrt((residuals**2).sum() / 277)
        np.testing.assert_allclose(scores["rmse"], math.sqrt((errors**2).mean()), rtol=1e-6)
        slow = [math.log(sd * math.sqrt(2 * math.pi)) + 0.5 * (e / sd) ** 2 for e in errors]
        np.testing.assert_allclose(scores["nll"], np.mean(slow), rtol=1e-6)
        np.testing.assert_allclose(scores["noise_sd"], sd, rtol=1e-6)


class TestTargets:
    def test_units_are_those_of_the_rows_for_fitting(self):
        rows = made_up_rows(30)
        units = filled_network(rows, 44, 1.0, 5.0).model.units
        np.testing.assert_allclose(units.input_mean, rows.x.mean(0), rtol=1e-5)
        np.testing.assert_allclose(units.target_sd, rows.y.std(), rtol=1e-5)

    @pytest.mark.slow
    def test_filling_never_counts(self):
        rows = made_up_rows(30)
        filled = filled_network(rows, 44, [2.0, 0.5], 5.0)
        plain = sivi.targets.BayesianNeuralNetwork(*rows, (50,), weight_precision=(2.0, 0.5), noise_precision=5.0)
        x = 0.3 * jax.random.normal(jax.random.key(0), (plain.dim,))
        batch = jnp.array([3, 29, 0])
        np.testing.assert_allclose(filled.log_prob(x), plain.log_prob(x), rtol=1e-5)
        np.testing.assert_allclose(filled.log_prob(x, batch), plain.log_prob(x, batch), rtol=1e-5)
        np.testing.assert_allclose(filled.score(x), plain.score(x), rtol=1e-3, atol=1e-3)

    def test_windows_are_of_own_rows_and_come_round(self):
        filled = filled_network(made_up_rows(30), 44, 1.0, 5.0)
        assert filled.window(jnp.int32(2), 14).tolist() == [28, 29, *range(12)]

    def test_first_rows_stand_for_all(self):
        filled = filled_network(made_up_rows(30), 44, 1.0, 5.0)
        x = 0.3 * jax.random.normal(jax.random.key(0), (filled.dim,))
        np.testing.assert_allclose(filled.first_rows(10).log_prob(x), filled.log_prob(x, jnp.arange(10)), rtol=1e-5)
        np.testing.assert_allclose(filled.first_rows(40).log_prob(x), filled.log_prob(x), rtol=1e-5)
        assert filled.first_rows(44) is filled

    def test_joint_of_weights_and_precisions(self):
        filled = filled_network(made_up_rows(30), 30, 1.0, 1.0)
        x = 0.3 * jax.random.normal(jax.random.key(0), (filled.dim,))
        log_noise, log_weight = 0.7, -0.4
        fixed = filled_network(made_up_rows(30), 30, math.exp(log_weight), math.exp(log_noise))
        # Gamma(1, 0.1): log 0.1 − 0.1 p, and log p for the logarithm.
        prior = sum(math.log(0.1) - 0.1 * math.exp(value) + value for value in (log_noise, log_weight))
        joint = WithPrecisions(filled).log_prob(jnp.append(x, jnp.array([log_noise, log_weight])))
        np.testing.assert_allclose(joint, fixed.log_prob(x) + prior, rtol=1e-5)


@pytest.fixture(scope="module")
def members():
    settings = {"set": "yacht", "splits": [0, 42], "most_rows": 60, "seed": 0}
    return Members.of(settings, {0: PRECISIONS, 42: PRECISIONS}, ("paper", "own"), "train")


class TestUnitsOfTheNoise:
    """The paper's γ is found in units of the dataset and used where targets are standardised; the library's is not."""

    def test_members(self, members):
        assert members.names == [(0, "paper"), (0, "own"), (42, "paper"), (42, "own")]
        np.testing.assert_allclose(members.targets.model.noise_precision, [0.08, 20.0, 0.08, 20.0], rtol=1e-6)
        np.testing.assert_allclose(members.targets.model.weight_precision[:2], [[0.4, 0.4], [3.0, 0.5]], rtol=1e-6)
        sds = [parts_of("yacht", split, 60).train.y.std() for split in (0, 42)]
        expected = [0.08, 20.0 / sds[0] ** 2, 0.08, 20.0 / sds[1] ** 2]
        np.testing.assert_allclose(members.noise, expected, rtol=1e-5)
        assert members.targets.num_rows.tolist() == [54, 60, 54, 60], "the paper's leave one in ten aside"
        fit = parts_of("yacht", 0, 60).fit
        np.testing.assert_allclose(members.targets.model.units.target_mean[0], fit.y.mean(), rtol=1e-5)
        assert len({tuple(np.asarray(jax.random.key_data(key))) for key in members.keys}) == 4

    def test_estimates_of_particles(self):
        rows, dev = made_up_rows(30), made_up_rows(9, seed=1)
        target = filled_network(rows, 30, 1.0, 1.0)
        particles = 0.2 * np.random.RandomState(0).randn(3, target.dim + 2).astype(np.float32)
        # Errors of about 4 in units of the dataset suggest 1/16; the last particle's own γ is close to that.
        particles[:, -2:] = [[0.0, 0.1], [-30.0, 0.3], [-2.7, 0.8]]
        log_weight, log_noise = log_precisions(jnp.asarray(particles), target, *map(jnp.asarray, dev))
        chosen = []
        for particle in particles:
            predictions = target.model.predict(target.model.point(jnp.asarray(particle[:-2])), dev.x)
            error = np.mean((np.asarray(predictions) - dev.y) ** 2)
            values = [particle[-2], -math.log(error)]
            chosen.append(max(values, key=lambda value: 0.5 * value - 0.5 * math.exp(value) * error))
        np.testing.assert_allclose(log_weight, 0.4, rtol=1e-5)
        np.testing.assert_allclose(log_noise, np.mean(chosen), rtol=1e-4)
        assert -4.0 < log_noise < -2.0

    def test_scores_are_those_of_a_slow_loop(self, members):
        rng = np.random.RandomState(0)
        draws = 0.3 * rng.randn(4, 6, members.targets.dim).astype(np.float32)
        scores = members.scores(jnp.asarray(draws))
        for i, parts in enumerate(members.parts):
            model = member(members.targets, i).model
            predictions = np.array([model.predict(model.point(jnp.asarray(w)), parts.test.x) for w in draws[i]], float)
            gamma = members.noise[i]
            densities = np.sqrt(gamma / (2 * np.pi)) * np.exp(-0.5 * gamma * (predictions - parts.test.y) ** 2)
            np.testing.assert_allclose(scores["nll"][i], -np.log(densities.mean(0)).mean(), rtol=1e-4)
            errors = predictions.mean(0) - parts.test.y
            np.testing.assert_allclose(scores["rmse"][i], np.sqrt((errors**2).mean()), rtol=1e-5)

    def test_own_scores_are_those_of_the_library(self, members):
        draws = 0.3 * np.random.RandomState(0).randn(4, 6, members.targets.dim).astype(np.float32)
        parts = members.parts[3]
        model = sivi.targets.BayesianNeuralNetwork(*parts.train, (50,), weight_precision=1.0, noise_precision=20.0)
        expected = sivi.metrics.regression_scores(model, draws[3], *parts.test)
        scores = members.scores(jnp.asarray(draws))
        np.testing.assert_allclose([scores["rmse"][3], scores["nll"][3]], [expected.rmse, expected.nll], rtol=1e-5)

    def test_a_row_says_none_where_a_number_is_not_finite(self, members):
        rows = members.rows({"rmse": np.array([1.0, np.nan, np.inf, 2.0])}, skipped=np.arange(4))
        assert [row["rmse"] for row in rows] == [1.0, None, None, 2.0]
        assert rows[2]["skipped"] == 2
        assert (rows[2]["split"], rows[2]["precisions"]) == (42, "paper")
        json.dumps(rows, allow_nan=False)


PROCESSES = {
    "sivi-sm": lambda: SemiImplicitFit(dataclasses.replace(sivi_sm(), num_particles=8).bind(20)),
    "sivi": lambda: SemiImplicitFit(sivi_objective().bind(20)),
    "langevin": lambda: Langevin(jnp.int32(3), 12),
}


class TestSideBySide:
    @pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in ("sivi-sm", "sivi")])
    def test_every_member_is_what_it_is_alone(self, name, tmp_path):
        """One by one, as in `sivi.fit`: `init`, then `step` on a minibatch with the key of the update."""
        targets, keys, process = two_targets(), keys_of(2), PROCESSES[name]()
        start = run_side_by_side(process, targets, keys, 0, tmp_path).states
        together = run_side_by_side(process, targets, keys, 5, tmp_path).states
        family, state = member((start.family, start.objective), 1)
        step = eqx.filter_jit(process.objective.step)
        for index in range(5):
            key, batch = jax.random.fold_in(keys[1], index + 1), (index * 100 + np.arange(100)) % 24
            family, state, _ = step(key, family, state, member(targets, 1), jnp.asarray(batch))
        for a, b in zip(jax.tree.leaves(member(together.family, 1)), jax.tree.leaves(family), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        assert together.skipped.tolist() == [0, 0]

    def test_members_do_not_know_of_each_other(self, tmp_path):
        targets, keys, process = two_targets(), keys_of(2), PROCESSES["sivi"]()
        states = run_side_by_side(process, targets, keys, 3, tmp_path).states
        others = jax.tree.map(lambda leaf: leaf[::-1], targets)
        turned = run_side_by_side(process, others, keys[::-1], 3, tmp_path).states
        for a, b in zip(jax.tree.leaves(member(states, 0)), jax.tree.leaves(member(turned, 1)), strict=True):
            np.testing.assert_array_equal(a, b)

    @pytest.mark.parametrize("name", [pytest.param("sivi-sm", marks=pytest.mark.slow), "sivi", "langevin"])
    def test_resumed_is_uninterrupted(self, name, tmp_path):
        targets, keys, process = two_targets(), keys_of(2), PROCESSES[name]()
        if name == "langevin":
            targets = LangevinMember(targets, jnp.array([1e-4, 1e-5]), jnp.array([7, 5]))
        whole = run_side_by_side(process, targets, keys, 7, tmp_path / "a")
        first = run_side_by_side(process, targets, keys, 4, tmp_path / "b", chunk_size=3)
        (tmp_path / "c").mkdir()
        save_states(tmp_path / "c/side-by-side.npz", first.states, 4, 1000.0)
        resumed = run_side_by_side(process, targets, keys, 7, tmp_path / "c", chunk_size=2)
        assert 1000.0 < resumed.seconds < 1600.0
        for a, b in zip(jax.tree.leaves(whole.states), jax.tree.leaves(resumed.states), strict=True):
            np.testing.assert_array_equal(a, b)

    def test_a_file_of_another_shape_is_not_gone_on_from(self, tmp_path):
        save_states(tmp_path / "side-by-side.npz", jnp.ones((2, 3)), 2, 1000.0)
        ran = run_side_by_side(Descent(1, 3, 0.01), two_targets(), keys_of(2), 3, tmp_path)
        assert ran.seconds < 1000.0

    def test_files_are_written_on_the_way(self, tmp_path, monkeypatch):
        monkeypatch.setattr("sivi.experiments._bnn_side_by_side._SECONDS_BETWEEN_FILES", 0.0)
        run_side_by_side(Descent(1, 6, 0.01), two_targets(), keys_of(2), 6, tmp_path, chunk_size=2)
        with np.load(tmp_path / "side-by-side.npz") as stored:
            assert int(stored["step"]) == 4

    def test_an_update_that_is_not_finite_is_skipped(self, tmp_path):
        targets, process = two_targets(), PROCESSES["sivi"]()
        broken = eqx.tree_at(lambda t: t.model.noise_precision, targets, jnp.array([5.0, jnp.nan]))
        states = run_side_by_side(process, broken, keys_of(2), 3, tmp_path).states
        assert states.skipped.tolist() == [0, 3]


class TestProcesses:
    @pytest.mark.slow
    def test_langevin_step(self):
        network, process = member(two_targets(), 0), Langevin(jnp.int32(1), 12)
        noise = jax.random.normal(jax.random.key(1), (12, network.dim))
        rows = jnp.arange(100) % 30
        for h in STEP_SIZES:
            target = LangevinMember(network, jnp.float32(h), jnp.int32(2))
            state = process.start(jax.random.key(0), target)
            moved = process.step(jax.random.key(1), jnp.int32(0), state, target)
            later = process.step(jax.random.key(2), jnp.int32(1), moved, target)
            x = state.particles[7]
            expected = x + 0.5 * h * network.score(x, rows) + math.sqrt(h) * noise[7]
            np.testing.assert_allclose(moved.particles[7], expected, rtol=1e-4, atol=1e-5)
            np.testing.assert_array_equal(later.half_way, moved.particles)
            assert not np.array_equal(later.particles, moved.particles)
            after = process.step(jax.random.key(3), jnp.int32(2), later, target)
            np.testing.assert_array_equal(after.particles, later.particles)

    @pytest.mark.slow
    def test_langevin_takes_the_steps_that_are_best_on_dev_rows(self, tmp_path, monkeypatch):
        """One of the sizes throws the particles off; of the others, the larger one gets further."""
        monkeypatch.setattr("sivi.experiments._bnn_methods.STEP_SIZES", (1e3, 1e-4, 1e-6))
        settings = {"set": "yacht", "seed": 0, "splits": (0, 1), "most_rows": 60}
        members = Members.of(settings, {0: PRECISIONS, 1: PRECISIONS}, ("own",), "fit")
        chosen, seconds = _chosen_steps(members, 200, tmp_path)
        np.testing.assert_allclose(chosen.step_size, [1e-4, 1e-4], rtol=1e-6)
        assert set(chosen.num_steps.tolist()) <= {100, 200}
        assert seconds > 0.0

    @pytest.mark.slow
    def test_hmc_draws_from_the_prior_where_rows_say_nothing(self, tmp_path):
        targets = stacked([filled_network(made_up_rows(8), 8, [4.0, 25.0], 1e-6)])
        process = Hamiltonian.of(jax.random.key(0), num_warmup=150, num_chains=4, num_kept=40, thin=2, start_steps=5)
        assert process.num_steps == 150 + 1 + 39 * 2
        states = run_side_by_side(process, targets, keys_of(1), process.num_steps, tmp_path).states
        model = member(targets, 0).model
        draws = jax.vmap(model.point)(states.kept[0].reshape(-1, model.dim))
        np.testing.assert_allclose(np.mean(np.asarray(draws["weight_1"]) ** 2), 1 / 4.0, rtol=0.15)
        np.testing.assert_allclose(np.mean(np.asarray(draws["weight_2"]) ** 2), 1 / 25.0, rtol=0.15)
        assert 0.6 < float(states.acceptance[0]) < 0.95

    @pytest.mark.slow
    def test_descent_ends_at_an_optimum(self, tmp_path):
        targets = stacked([filled_network(made_up_rows(20), 20, 1.0, 5.0)])
        weights, _ = run_side_by_side(Descent(2, 1500, 0.02), targets, keys_of(1), 1500, tmp_path).states
        target = member(targets, 0)
        before = jax.vmap(target.score)(Descent(2, 1, 0.02).start(keys_of(1)[0], target)[0])
        after = jax.vmap(target.score)(weights[0])
        assert float(jnp.linalg.norm(after)) < 0.05 * float(jnp.linalg.norm(before))

    def test_share_of_the_variance_that_comes_from_z(self):
        conditional = DiagonalGaussian(2, 3, hidden=(), skip=False, sigma_init=0.5, floor="clamp", key=0)
        family = SemiImplicit(NormalMixing(2), conditional)
        (layer,) = conditional.networks.mean.layers
        from_z = float(jnp.sum(layer.weight**2))
        share = z_share(jax.random.key(0), family, 20_000)
        np.testing.assert_allclose(share, from_z / (from_z + 3 * 0.25), rtol=0.03)

    def test_settings_are_those_of_the_papers_authors(self):
        objective = sivi_sm()
        assert (objective.num_particles, objective.critic_steps, objective.critic.hidden) == (100, 1, (16, 16))
        assert (objective.optimizer.b1, objective.optimizer.b2) == (0.9, 0.999)
        assert (objective.critic_optimizer.b1, objective.critic_optimizer.b2) == (0.9, 0.99)
        rates = [objective.optimizer.learning_rate(2500), objective.critic_optimizer.learning_rate(2500)]
        np.testing.assert_allclose(rates, [2e-5 * 0.81, 1e-2 * 0.81], rtol=1e-5)
        assert (sivi_objective().num_particles, int(sivi_objective().num_aux.value)) == (10, 100)
        inner = uivi()
        assert (inner.num_particles, inner.num_iterations, inner.burn_in, inner.num_leapfrog) == (1, 10, 5, 5)
        assert (inner.optimizer.b2, float(inner.optimizer.learning_rate(0))) == (0.999, pytest.approx(2e-5))
        target = filled_network(made_up_rows(30, 13), 30, 1.0, 5.0)
        family = eqx.filter_eval_shape(PROCESSES["sivi"]().start, jax.random.key(0), target).family
        assert (target.dim, family.conditional.latent_dim) == (751, 3)
        assert [layer.bias.shape for layer in family.conditional.networks.mean.layers] == [(10,), (10,), (751,)]
        assert family.conditional.networks.log_variance.kind == "clamp"
        assert family.conditional.networks.log_variance.floor == pytest.approx(-20.0)
        networks = DiagonalGaussian(dim=4, **FAMILY, key=0).networks
        np.testing.assert_allclose(networks.raw_scale, -8.0, rtol=1e-6)

    def test_the_start_predicts(self, tmp_path):
        targets = two_targets()
        states = run_side_by_side(PROCESSES["sivi"](), targets, keys_of(2), 0, tmp_path).states
        target, family = member(targets, 0), member(states.family, 0)
        draws = jax.vmap(family.sample)(keys_of(100))
        outputs = jax.vmap(lambda w: target.model.outputs(target.model.point(w), target.model.data["x"])[0])(draws)
        error = jnp.mean((outputs.mean(0) - target.model.data["y"]) ** 2)
        assert error < 0.5, "of a variance of 1"


class TestPrecisions:
    ROWS = tuple({"split": s, **PRECISIONS} for s in (0, 1))

    @pytest.fixture
    def job(self):
        (job,) = [job for job in BNNTable().jobs("quick", 1) if job.name == "yacht-precisions-0"]
        return job

    @pytest.fixture
    def scratch(self, tmp_path):
        folder = tmp_path / "bnn-table/quick/yacht-sivi-0.partial"
        folder.mkdir(parents=True)
        return folder

    def test_of_the_file_of_the_job(self, job, scratch):
        content = {"name": job.name, "settings": job.settings, "numbers": {"rows": list(self.ROWS)}}
        write_result(scratch.parent / f"{job.name}.json", content, {})
        assert precisions_of(job, scratch)[1]["own_noise"] == 20.0

    def test_of_the_combined_results(self, job, scratch, tmp_path):
        results = Results("bnn-table", "quick", 1, (JobResult(job, {"rows": list(self.ROWS), "seconds": 1.0}),))
        sivi.experiments.save(BNNTable(), results, tmp_path)
        assert precisions_of(job, scratch)[0]["paper_noise"] == 0.08

    def test_found_anew_if_settings_differ(self, job, scratch, monkeypatch):
        content = {"name": job.name, "settings": {**job.settings, "num_steps": 1}, "numbers": {"rows": list(self.ROWS)}}
        write_result(scratch.parent / f"{job.name}.json", content, {})
        found = {"rows": [{"split": 0, "own_noise": 1.0}]}
        monkeypatch.setattr("sivi.experiments._bnn_precisions.find_precisions", lambda settings, scratch: found)
        assert precisions_of(job, scratch) == {0: {"split": 0, "own_noise": 1.0}}

    def test_a_finished_row_is_kept(self, tmp_path):
        assert kept_row(tmp_path / "row.json", lambda: {"rmse": 0.1}) == {"rmse": 0.1}
        assert kept_row(tmp_path / "row.json", lambda: {"rmse": 0.2}) == {"rmse": 0.1}


def made_up(score, methods=("sivi", "sgld", "default", "linear"), sets=("boston", "yacht")):
    """Results in which a row's numbers are `score(method, kind, split)`."""
    done = []
    for job in BNNTable().jobs("full", 1):
        method = job.settings["method"]
        if job.settings["set"] in sets and method in methods:
            kinds = {"linear": [None], "default": ["own"]}.get(method, ["paper", "own"])
            rows = [
                {"split": s, "precisions": kind, **score(method, kind, s)}
                for s in job.settings["splits"]
                for kind in kinds
            ]
            numbers = {"rows": rows, "seconds": 84.0, "members": len(rows)}
            done.append(JobResult(job, numbers, environment={"machine": {"device": "some GPU"}}))
    return Results("bnn-table", "full", 1, tuple(done))


def plain(method, kind, split):
    offset = {"sivi": 3.0, "sgld": 4.0, "default": 2.5, "linear": 5.0}[method] + (kind == "paper")
    wave = 0.1 * (split % 2) if method == "sivi" else 0.0
    return {"rmse": offset + wave + 0.01 * split, "nll": offset - 1.0, "z_share": 0.25 if method == "sivi" else None}


class TestReport:
    def test_mean_and_standard_error(self):
        cell = mean_and_error([1.0, 2.0, None, 6.0])
        np.testing.assert_allclose([cell["mean"], cell["error"]], [3.0, np.std([1, 2, 6], ddof=1) / math.sqrt(3)])
        assert (cell["count"], cell["failed"]) == (3, 1)
        assert mean_and_error([None]) is None
        assert mean_and_error([4.0])["error"] is None

    def test_paired_differences(self):
        ours = {0: {"rmse": 1.0}, 1: {"rmse": 2.0}, 2: {"rmse": 3.0}, 42: {"rmse": 0.0}}
        theirs = {0: {"rmse": 1.5}, 1: {"rmse": None}, 2: {"rmse": 4.5}, 42: {"rmse": 100.0}}
        cell = paired(ours, theirs, "rmse")
        np.testing.assert_allclose([cell["mean"], cell["error"]], [-1.0, 0.5])
        assert paired(ours, {}, "rmse") is None

    def test_summary(self):
        cells = BNNTable().summary(made_up(plain))["boston"]
        sivi_cells = cells["SIVI, paper's λ, γ"]
        first = [4.0 + 0.1 * (s % 2) + 0.01 * s for s in range(10)]
        np.testing.assert_allclose(sivi_cells["rmse"]["0–9"]["mean"], np.mean(first))
        np.testing.assert_allclose(sivi_cells["rmse"]["0–9"]["error"], np.std(first, ddof=1) / math.sqrt(10))
        differences = [-1.5 - 0.1 * (s % 2) for s in range(20)]
        np.testing.assert_allclose(sivi_cells["rmse"]["default_minus"]["mean"], np.mean(differences))
        error = np.std(differences, ddof=1) / math.sqrt(20)
        np.testing.assert_allclose(sivi_cells["rmse"]["default_minus"]["error"], error)
        np.testing.assert_allclose(sivi_cells["rmse"]["42"], 4.42)
        assert (sivi_cells["z_share"], sivi_cells["seconds"]) == (0.25, 2.0)
        assert cells["default call"]["rmse"]["default_minus"] is None
        assert cells["SIVI"]["paper"] is None
        assert "UIVI" not in cells
        json.dumps(cells, allow_nan=False)

    def test_text(self):
        text = BNNTable().report(made_up(plain))
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
        (row,) = [row for row in rows if row[0] == "SIVI, paper's λ, γ" and row[4] == "2.714 ± 0.08"]
        assert row[1:4] == ["4.095 ± 0.021", "4.195 ± 0.021", "4.420"]
        assert row[5] == "−1.550 ± 0.011"
        assert row[9:] == ["2.420 ± 0.09", "−1.500 ± 0.000", "0.250", "2.0"]
        assert "**Boston**" in text
        assert "**Wine red**" not in text
        spread = np.std([0.01 * s for s in range(20)], ddof=1)
        assert f"{spread:.3f} on Boston and {spread:.3f} on Yacht" in text
        assert "splits are not known" in " ".join(text.split())
        # Seven of the eight lines' jobs: SIVI and SGLD with 42 members, the default call and the linear one with 21.
        assert f"All {2 * (2 * 42 + 2 * 21)} runs together took {8 * 84 / 60:.1f} minutes on some GPU" in text

    def test_fits_that_failed_are_counted(self):
        def score(method, kind, split):
            lost = method == "sgld" and split == 3
            return {"rmse": None, "nll": None} if lost else plain(method, kind, split)

        text = BNNTable().report(made_up(score, sets=("yacht",)))
        assert "1 not finite" in text
        assert "12 updates" not in text
        assert "100,000 steps" in " ".join(text.split())

    def test_published_numbers(self):
        """Table 1 of the paper."""
        assert set(PUBLISHED) == set(SET_LABELS)
        for row in PUBLISHED.values():
            assert set(row) == {"sivi", "uivi", "sgld", "sivi-sm"}
        best = {name: min(row, key=lambda m, row=row: row[m].rmse) for name, row in PUBLISHED.items()}
        assert best == {
            **dict.fromkeys(("boston", "concrete", "winered", "yacht"), "sivi-sm"),
            **dict.fromkeys(("protein", "power", "winewhite"), "sgld"),
        }, "the bold ones"
        best = {name: min(row, key=lambda m, row=row: row[m].nll) for name, row in PUBLISHED.items()}
        assert (best["power"], best["winewhite"], best["protein"]) == ("uivi", "sivi", "sgld")
        assert PUBLISHED["yacht"]["uivi"] == (2.1407, 0.18, 2.309, 0.09)
        assert PUBLISHED["winered"]["sivi-sm"] == (0.560, 0.08, 0.836, 0.07)


class TestJobs:
    def test_full(self):
        jobs = BNNTable().jobs("full", 1)
        assert len(jobs) == 7 * 9
        settings = {job.name: job.settings for job in jobs}
        assert settings["protein-sivi-sm-0"]["num_steps"] == 20_000
        assert settings["protein-sivi-sm-0"]["splits"] == [*range(20), 42]
        assert settings["yacht-sgld-0"]["num_steps"] == 100_000
        assert "num_aux=Constant(value=100.0)" in settings["boston-sivi-0"]["objective"]
        assert EXPERIMENTS["bnn-table"].default_seeds("full") == 1

    def test_only_texts_that_name_jobs(self, tmp_path):
        with pytest.raises(ValueError, match=r"only must be part of a job's name, such as 'boston-.*got 'iris'"):
            run(BNNTable(), mode="quick", seeds=1, out=tmp_path, only=("boston", "iris"))

    def test_some_jobs_and_then_others(self, tmp_path):
        arguments = {"mode": "quick", "seeds": 1, "out": tmp_path}
        first = run(BNNTable(), only=("boston-linear", "yacht-linear"), **arguments)
        assert (set(first.ran), first.failures) == ({"boston-linear-0", "yacht-linear-0"}, {})
        again = run(BNNTable(), only="linear", **arguments)
        assert again.ran == ()
        lines = (tmp_path / "bnn-table-quick.json").read_text().splitlines()
        rows = [json.loads(line.rstrip(",")) for line in lines if '"split"' in line]
        assert [row["split"] for row in rows] == [0, 1, 0, 1], "a row a line"
        assert "| linear regression |" in BNNTable().report(again.results)

    def test_rows_have_a_line_each_and_all_else_is_as_before(self, tmp_path):
        content = {"a": [1, {"b": {"c": []}}], "rows": [{"x": 1.5, "y": [1, 2]}, {"x": None}], "λ": {}}
        write_result(tmp_path / "x.json", content, {})
        assert read_result(tmp_path / "x.json") == (content, {})
        text = (tmp_path / "x.json").read_text()
        assert '\n  {"x": 1.5, "y": [1, 2]},\n  {"x": null}\n' in text
        without = json.loads(text) | {"rows": 0}
        write_result(tmp_path / "y.json", {name: without[name] for name in ("a", "rows", "λ")}, {})
        assert (tmp_path / "y.json").read_text() == json.dumps(without, indent=1, ensure_ascii=False) + "\n"

    @pytest.mark.slow
    def test_quick_run(self, tmp_path):
        outcome = run(BNNTable(), mode="quick", seeds=1, out=tmp_path)
        assert (outcome.failures, outcome.results.missing) == ({}, ())
        for result in outcome.results.done:
            assert len(result.numbers["rows"]) in (2, 4), result.job.name
            for row in result.numbers["rows"]:
                if result.job.settings["method"] != "precisions":
                    assert math.isfinite(row["rmse"])
                    assert math.isfinite(row["nll"])
        assert "default call" in BNNTable().report(outcome.results)


def test_every_process_is_tested_here():
    assert {cls.__name__ for cls in Process.__subclasses__()} == {
        "SemiImplicitFit",
        "Langevin",
        "Descent",
        "Hamiltonian",
        "Stein",
    }
