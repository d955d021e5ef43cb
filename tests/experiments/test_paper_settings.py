"""The settings are those of the paper, and what is stored of them says all."""

import ast
import importlib
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from sivi.experiments import EXPERIMENTS, MODES
from sivi.experiments._method import settings_text
from sivi.experiments._toy import DIM, METHODS, described, family, fit_settings, method, sivi_sm
from sivi.objectives import Annealed, ScoreMatching

ROOM = Path(sivi.__file__).parent / "experiments"


def test_the_family_is_the_papers():
    q = family(0)
    conditional = q.conditional.at(jnp.ones(3))
    np.testing.assert_allclose(conditional.sigma, [1.0, 1.0])
    weights = [leaf.size for leaf in jax.tree.leaves(q) if leaf.ndim == 2]
    assert weights == [3 * 50, 50 * 50, 50 * 2]
    collapsed = jax.tree.map(lambda leaf: leaf - 100.0 if leaf.shape == (2,) else leaf, q)
    np.testing.assert_allclose(collapsed.conditional.at(jnp.ones(3)).sigma, math.exp(-3), rtol=1e-6)


def test_rates_decay_every_thousand_updates():
    objective = sivi_sm()
    assert (objective.num_particles, objective.critic_steps, objective.critic.hidden) == (500, 1, (128, 128))
    for optimizer, rate in ((objective.optimizer, 1e-3), (objective.critic_optimizer, 2e-3)):
        assert (optimizer.b1, optimizer.b2) == (0.9, 0.99)
        np.testing.assert_allclose(optimizer.learning_rate(0), rate, rtol=1e-6)
        np.testing.assert_allclose(optimizer.learning_rate(2500), rate * 0.81, rtol=1e-6)


@pytest.mark.parametrize("name", [name for name in METHODS if name != "default"])
def test_annealed_on_two_targets(name):
    kinds = {target: fit_settings(name, target, 0)["objective"] for target in ("banana", "multimodal")}
    assert isinstance(kinds["multimodal"], Annealed)
    assert type(kinds["multimodal"].objective) is type(kinds["banana"])
    assert isinstance(fit_settings(name, "x-shaped", 0)["objective"], Annealed)
    assert not isinstance(fit_settings(name, "x-shaped", 0, annealed=False)["objective"], Annealed)
    # β = min(1, 0.1 + t/(T/2))
    schedule = kinds["multimodal"].bind(50_000).schedule
    np.testing.assert_allclose([schedule(t) for t in (0, 10_000, 22_500, 40_000)], [0.1, 0.5, 1.0, 1.0], rtol=1e-5)


def test_the_papers_settings_are_taken_as_they_are():
    """In x itself and to the last update."""
    for name in METHODS:
        settings = fit_settings(name, "multimodal", 7)
        if name != "default":
            assert (settings["whiten"], settings["stop"], settings["key"]) == (None, None, 7)


def test_the_default_call_has_a_key_and_nothing_else():
    assert fit_settings("default", "multimodal", 7) == {"key": 7}
    assert METHODS["default"].num_updates == sivi.defaults.recipe(2).num_steps
    stored = described("default", "multimodal")
    assert stored["objective"] == settings_text(sivi.defaults.recipe(2).objective())
    assert stored["recipe"]["num_particles"] == sivi.defaults.recipe(2).num_particles
    assert described("default", "banana") == stored


def test_a_change_of_any_number_shows_in_the_description():
    text = described("sivi-sm", "banana")
    assert "num_particles=500" in text["objective"]
    assert "activation=relu" in text["objective"]
    assert text["family"]["sigma_init"] == 1.0
    changed = method("", lambda: sivi_sm(499)).call("banana").described(DIM)
    assert changed["objective"] == text["objective"].replace("=500", "=499")
    narrow = method("", ScoreMatching, sigma_init=0.5).call("banana")
    assert narrow.described(DIM)["family"] == {**text["family"], "sigma_init": 0.5}
    np.testing.assert_allclose(narrow.arguments(DIM, 0)["family"].conditional.at(jnp.ones(3)).sigma, 0.5)
    assert described("sivi-sm", "multimodal")["objective"].startswith("Annealed(objective=ScoreMatching(")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_jobs(name, mode):
    experiment = EXPERIMENTS[name]
    assert experiment.name == name
    jobs = experiment.jobs(mode, 2)
    assert len({job.name for job in jobs}) == len(jobs)
    assert all("0x" not in str(job.settings) for job in jobs), "an address differs from run to run"
    assert {job.name: job.settings for job in experiment.jobs(mode, 1)}.items() <= {
        job.name: job.settings for job in jobs
    }.items()


def test_full_runs_are_as_long_as_the_papers():
    for name in ("toy-kl", "toy-samples", "toy-convergence", "toy-dynamics", "toy-bias"):
        for job in EXPERIMENTS[name].jobs("full", 1):
            method = job.settings.get("method", "sivi-sm")
            if method == "default":
                assert job.settings["num_steps"] == sivi.defaults.recipe(2).num_steps
            elif method == "kernel-stein":
                assert job.settings["num_steps"] == 20_000
            elif method != "exact":
                assert job.settings["num_steps"] == 50_000
    assert EXPERIMENTS["toy-kl"].default_seeds("full") == 5
    dynamics = EXPERIMENTS["toy-dynamics"].jobs("full", 1)
    assert all(job.settings["stops"] == [1000, 2000, 3000, 4000] for job in dynamics)


@pytest.mark.parametrize(
    "path",
    [
        *sorted(ROOM.glob("toy_*.py")),
        *sorted(ROOM.glob("*waveform*.py")),
        ROOM / "_toy.py",
        ROOM / "_method.py",
        ROOM / "_snapshots.py",
    ],
)
def test_experiments_use_the_public_names_only(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 2:
            module = importlib.import_module("sivi" + (f".{node.module}" if node.module else ""))
            public = getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")])
            assert {alias.name for alias in node.names} <= set(public), ast.unparse(node)
            assert "_" not in (node.module or "")
