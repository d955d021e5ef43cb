"""Every mistake at the boundary: one sentence that names argument, rule and value, and nothing half-done."""

import errno
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from contracts.plugins import small_family
from oracles import linear_gaussian_model
from sivi.critics import MLPCritic
from sivi.objectives import GaussianKernel, IMQKernel, KernelStein, PathKL, ScoreMatching, SurrogateELBO, UnbiasedELBO
from sivi.targets import Banana, ScoreFunction

pytestmark = pytest.mark.usefixtures("as_a_user")

SMALL = {
    "objective": ScoreMatching(num_particles=16, critic=MLPCritic((8,))),
    "num_steps": 4,
    "whiten": None,
    "progress": False,
}


def log_density(x):
    return -0.5 * jnp.sum(x**2)


def fit(target=log_density, dim=2, **arguments):
    return sivi.fit(target, dim, **SMALL | arguments)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"dim": 0}, ValueError, r"dim must be at least 1; got 0\."),
        ({"dim": -3}, ValueError, r"dim must be at least 1; got -3\."),
        ({"dim": 2.0}, TypeError, r"dim must be an integer of at least 1; got 2\.0\."),
        ({"dim": True}, TypeError, r"dim must be an integer"),
        ({"dim": None}, ValueError, r"dim .* like .* must be given .* got neither\."),
        ({"like": {"a": 0.0}}, ValueError, r"got both\."),
        ({"dim": None, "like": {"a": 1}}, TypeError, r"like: .* float32 or float64 .*'a' has dtype int64"),
        ({"dim": None, "like": {"a": np.zeros(2, np.int32)}}, TypeError, r"'a' has dtype int32"),
        ({"dim": None, "like": {"a": np.zeros(2, np.float16)}}, TypeError, r"'a' has dtype float16"),
        ({"dim": None, "like": {}}, ValueError, r"like must have at least one leaf"),
        ({"num_steps": 0}, ValueError, r"num_steps must be at least 1; got 0\."),
        ({"num_steps": -5}, ValueError, r"num_steps must be at least 1; got -5\."),
        ({"num_steps": 1.5}, TypeError, r"num_steps must be an integer of at least 1; got 1\.5\."),
        ({"chunk_size": 0}, ValueError, r"chunk_size must be at least 1; got 0\."),
        ({"key": "seed"}, TypeError, r"key must be an int or one JAX random key; got 'seed'\."),
        ({"batch_size": 10}, ValueError, r"batch_size needs a target with data"),
        ({"callbacks": [3]}, TypeError, r"callbacks must be functions; got 3\."),
        ({"checkpoint": "no/such/folder/x.sivi"}, FileNotFoundError, r"checkpoint must be in an existing folder"),
        ({"resume": "missing.sivi"}, FileNotFoundError, r"there is no file 'missing\.sivi'"),
        ({"objective": "SIVI"}, TypeError, r"objective must be a sivi objective; got 'SIVI'\."),
        ({"family": 3}, TypeError, r"family must be a sivi family; got 3\."),
        ({"dim": 3, "family": small_family()}, ValueError, r"family must have the target's dim, 3; got 2\."),
    ],
)
def test_wrong_arguments(arguments, error, message):
    with pytest.raises(error, match=message) as caught:
        fit(**arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("target", [3.0, "x**2", None, Banana])
def test_target_that_is_none(target):
    with pytest.raises(Exception, match=r"target must be a sivi Target or a function"):
        fit(target)


def test_dim_of_another_length_than_the_targets():
    with pytest.raises(ValueError, match=r"dim must agree with the target's, 2; got 3\."):
        fit(Banana(), 3)


def test_log_density_that_returns_a_vector():
    with pytest.raises(ValueError, match=r"log density must be a float32 or float64 array of shape \(\); got .*\(2,\)"):
        fit(lambda x: -(x**2))


def test_log_density_that_returns_an_integer():
    with pytest.raises((ValueError, TypeError), match=r"int32|integer"):
        fit(lambda x: jnp.sum(x > 0))


def test_log_density_that_returns_float16():
    with pytest.raises(ValueError, match=r"float16"):
        fit(lambda x: jnp.sum(x).astype(jnp.float16))


def test_log_density_that_returns_nothing():
    with pytest.raises((ValueError, TypeError)):
        fit(lambda x: None)


def test_log_density_that_is_nan_at_the_start():
    with pytest.raises(
        ValueError, match=r"log density must be finite where the fit starts; at 16 of 16 .* nan at x = "
    ):
        fit(lambda x: jnp.log(-jnp.sum(x**2) - 1.0))


def test_score_that_is_not_finite_at_the_start():
    with pytest.raises(ValueError, match=r"score must be finite where the fit starts"):
        fit(ScoreFunction(lambda x: x / 0.0, dim=2), None)


def test_score_of_the_wrong_shape():
    with pytest.raises(Exception, match=r"score must be a float32 or float64 array of shape \(2,\)"):
        fit(ScoreFunction(lambda x: -x[:1], dim=2), None)


def test_an_exception_of_the_users_own_passes_through_with_a_note():
    class MyError(Exception):
        pass

    def broken(x):
        raise MyError("inside my model")

    with pytest.raises(MyError, match="inside my model") as caught:
        fit(broken)
    assert any("log density given as target" in note for note in caught.value.__notes__)
    assert any(entry.name == "broken" for entry in caught.traceback)


def test_a_function_that_needs_another_dim():
    with pytest.raises(Exception, match=r"(?s).*") as caught:
        fit(lambda x: -jnp.sum((x - jnp.zeros(3)) ** 2), 2)
    assert any("shape (2,)" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("function", [lambda x: -(x[0] ** 2) - x[2] ** 2, lambda x: -jnp.sum(x[jnp.arange(3)] ** 2)])
def test_a_function_that_reads_past_the_end(function):
    """JAX itself would clamp the index, and fit the wrong posterior without a word."""
    with pytest.raises(ValueError, match=r"dim must be at least the number of unknowns .* got 2: .*index 2 is out"):
        fit(function, 2)
    assert fit(function, 3).dim == 3


def test_batch_larger_than_the_data():
    with pytest.raises(ValueError, match=r"batch_size must be at most the number of data, 24; got 25\."):
        fit(linear_gaussian_model(), None, batch_size=25)


def test_score_without_a_derivative():
    def on_the_host(x):
        return jax.pure_callback(
            lambda v: np.asarray(-v), jax.ShapeDtypeStruct((2,), x.dtype), x, vmap_method="sequential"
        )

    with pytest.raises(TypeError, match=r"ScoreMatching differentiates the target's score, and this target's has no"):
        fit(ScoreFunction(on_the_host, dim=2), None)


def test_score_without_a_reverse_derivative():
    def looping(x):
        return jax.lax.fori_loop(0, jnp.int32(jnp.abs(x[0]) + 3.0), lambda i, v: 0.5 * v, -x)

    with pytest.raises(TypeError, match=r"ScoreMatching differentiates the target's score"):
        fit(ScoreFunction(looping, dim=2), None)


def test_plug_in_needs_no_derivative_of_a_score_that_its_critic_ignores():
    def on_the_host(x):
        shape = jax.ShapeDtypeStruct((2,), x.dtype)
        return jax.pure_callback(lambda v: np.asarray(-v), shape, x, vmap_method="sequential")

    objective = sivi.objectives.PlugInFisher(num_particles=4, critic=MLPCritic((8,)))
    assert fit(ScoreFunction(on_the_host, dim=2), None, objective=objective).step == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_particles": 0}, "num_particles must be at least 1"),
        ({"critic_steps": 0}, "critic_steps must be at least 1"),
        ({"psi": "one"}, "psi must be a number"),
        ({"optimizer": 1e-3}, "optimizer must be a sivi.optimizers.Optimizer or an Optax transform"),
    ],
)
def test_objective_settings(arguments, message):
    with pytest.raises(Exception, match=f"{message}"):
        ScoreMatching(**arguments)


@pytest.mark.parametrize(
    ("objective", "arguments", "message"),
    [
        (SurrogateELBO, {"num_particles": 0}, r"num_particles must be at least 1; got 0\."),
        (SurrogateELBO, {"num_aux": -1}, r"num_aux must be at least 0; got -1\."),
        (SurrogateELBO, {"num_aux": 2.5}, r"num_aux must be an integer of at least 0; got 2\.5\."),
        (SurrogateELBO, {"block_size": 0}, r"block_size must be at least 1; got 0\."),
        (UnbiasedELBO, {"num_particles": 0}, r"num_particles must be at least 1; got 0\."),
        (UnbiasedELBO, {"burn_in": 10, "num_iterations": 10}, r"burn_in must be below num_iterations, 10; got 10\."),
        (UnbiasedELBO, {"burn_in": -1}, r"burn_in must be at least 0; got -1\."),
        (UnbiasedELBO, {"num_leapfrog": 0}, r"num_leapfrog must be at least 1; got 0\."),
        (UnbiasedELBO, {"step_size": -0.1}, r"step_size must be a positive, finite number; got -0\.1\."),
        (UnbiasedELBO, {"target_acceptance": 1.5}, r"target_acceptance must be a probability .* got 1\.5\."),
        (UnbiasedELBO, {"jitter": -0.1}, r"jitter must be .* got -0\.1\."),
        (UnbiasedELBO, {"jitter": 1.0}, r"jitter must be .* got 1\.0\."),
        (UnbiasedELBO, {"jitter": "much"}, r"jitter must be .* got 'much'\."),
        (KernelStein, {"num_particles": 0}, r"num_particles must be at least 2; got 0\."),
        (KernelStein, {"num_particles": 1}, r"num_particles must be at least 2; got 1\."),
        (KernelStein, {"statistic": "W"}, r"statistic must be 'U' or 'V'; got 'W'\."),
        (KernelStein, {"kernel": 1.7}, r"kernel must be a sivi\.objectives\.Kernel; got 1\.7\."),
        (KernelStein, {"kernel": GaussianKernel}, r"kernel must be a sivi\.objectives\.Kernel; got .*GaussianKernel"),
        (GaussianKernel, {"bandwidth": -1.0}, r"bandwidth must be a positive, finite number; got -1\.0\."),
        (GaussianKernel, {"factor": -1.0}, r"factor must be a positive, finite number; got -1\.0\."),
        (IMQKernel, {"bandwidth": 0.0}, r"bandwidth must be a positive, finite number; got 0\.0\."),
        (IMQKernel, {"factor": float("inf")}, r"factor must be a positive, finite number; got inf\."),
        (PathKL, {"num_particles": 0}, r"num_particles must be at least 1; got 0\."),
        (PathKL, {"critic_warmup": -1}, r"critic_warmup must be at least 0; got -1\."),
        (PathKL, {"clip": 0}, r"clip must be a positive, finite number; got 0\.0\."),
    ],
)
def test_settings_of_the_other_objectives(objective, arguments, message):
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        objective(**arguments)
    assert "\n" not in str(caught.value)


def test_data_that_are_lists():
    with pytest.raises(ValueError, match="data must be a pytree of arrays with a leading axis; turn lists into arrays"):
        linear_gaussian_model().__class__(([1.0, 2.0], [1.0, 2.0]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scale": "local"}, "scale must be 'global' or 'network'; got 'local'"),
        ({"floor": "soft"}, "floor must be 'smooth' or 'clamp'; got 'soft'"),
        ({"sigma_init": 1e-4}, "0 < sigma_floor < sigma_init"),
        ({"activation": "swoosh"}, "activation must be a function or one of"),
        ({"hidden": (0,)}, "hidden must be at least 1; got 0"),
    ],
)
def test_family_settings(arguments, message):
    with pytest.raises(Exception, match=message):
        sivi.DiagonalGaussian(2, 2, key=jax.random.key(0), **arguments)


def test_layers_of_different_lengths():
    conditional = sivi.DiagonalGaussian(3, 2, key=jax.random.key(0))
    with pytest.raises(ValueError, match="mixing makes z of length 2, but conditional takes 3"):
        sivi.SemiImplicit(sivi.NormalMixing(2), conditional)


class TestResume:
    @pytest.fixture
    def saved(self, tmp_path):
        path = tmp_path / "fit.sivi"
        fit(Banana(), None, checkpoint=path)
        return path

    def test_of_another_dim(self, saved):
        with pytest.raises(sivi.FitFileError, match=r"another model: its unknowns are x float32\[2\], .*\[3\]"):
            fit(log_density, 3, resume=saved)

    def test_of_another_density_of_the_same_dim(self, saved):
        with pytest.raises(sivi.FitFileError, match="another model: the target's score differs"):
            fit(log_density, 2, resume=saved)

    def test_of_other_names(self, saved):
        with pytest.raises(sivi.FitFileError, match="another model"):
            fit(lambda p: -jnp.sum(p["w"] ** 2), None, like={"w": np.zeros(2)}, resume=saved)

    def test_with_another_family(self, saved):
        with pytest.raises(sivi.FitFileError, match="family does not fit the file"):
            fit(Banana(), None, resume=saved, family=small_family())

    def test_with_another_objective(self, saved):
        for other in (sivi.objectives.PlugInFisher(num_particles=16, critic=MLPCritic((8,))), ScoreMatching()):
            with pytest.raises(sivi.FitFileError, match="objective must be the one the fit was begun with"):
                fit(Banana(), None, resume=saved, objective=other)
        with pytest.raises(sivi.FitFileError, match="objective must be the one the fit was begun with"):
            fit(Banana(), None, resume=sivi.load(saved), objective=ScoreMatching())

    def test_backwards(self, saved):
        with pytest.raises(ValueError, match=r"num_steps counts from zero .* 4 updates done; got 2\."):
            fit(Banana(), None, resume=saved, num_steps=2)

    def test_with_another_batch_size(self, saved):
        with pytest.raises(ValueError, match="batch_size must be that of the resumed fit"):
            fit(Banana(), None, resume=saved, batch_size=3)


class TestCheckpoint:
    def test_in_a_folder_that_cannot_be_written(self):
        with pytest.raises(OSError, match=r"checkpoint .*/proc"):
            fit(Banana(), None, checkpoint="/proc/fit.sivi")

    def test_that_is_a_folder(self, tmp_path):
        with pytest.raises(IsADirectoryError, match="checkpoint must be a file"):
            fit(Banana(), None, checkpoint=tmp_path)

    def test_full_disk_keeps_the_earlier_checkpoint_and_the_fit(self, tmp_path, monkeypatch):
        path = tmp_path / "fit.sivi"
        fit(Banana(), None, checkpoint=path)
        before = path.read_bytes()

        def full(descriptor):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(sivi.CheckpointError, match=r"checkpoint .*fit\.sivi.*No space left on device") as caught:
            fit(Banana(), None, checkpoint=path)
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["fit.sivi"]
        assert caught.value.posterior.sample(3, key=0).shape == (3, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 2.0], np.eye(2)), r"means must have shape \(components, dim\)"),
        (([[1.0, 2.0]], np.eye(2)), r"covariances \(components, dim, dim\); got \(1, 2\) and \(2, 2\)"),
        (([[1.0, 2.0]], [np.eye(2)], [0.0]), r"weights must be 1 positive numbers; got \[0\.0\]"),
        (([[1.0, 2.0]], [np.eye(2)], [0.5, 0.5]), r"weights must be 1 positive numbers"),
    ],
)
def test_mixtures_of_gaussians(arguments, message):
    with pytest.raises(ValueError, match=message):
        sivi.targets.GaussianMixture(*arguments)


def test_a_positive_number_is_a_number(as_a_user):
    with pytest.raises(TypeError, match=r"clip must be a positive number; got 1j"):
        sivi.objectives.PathKL(clip=1j)
