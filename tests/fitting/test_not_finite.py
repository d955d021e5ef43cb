"""What the errors of a fit say of a target that is not finite somewhere; and the status of its warm-up."""

import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from contracts.plugins import small_family
from sivi.critics import MLPCritic
from sivi.objectives import Bridged, PathKL, SurrogateELBO
from sivi.optimizers import Adam
from sivi.schedules import Ramp
from sivi.targets import GaussianMixture, IsotropicGaussian


def diverged(log_density, like=None, **settings):
    """The message of a fit whose updates need log density and score at each of its draws."""
    path = PathKL(num_particles=64, critic_steps=1, critic_warmup=0, critic=MLPCritic((8,)))
    settings = {"objective": Bridged(path, Ramp(0.4, 0.0, 0.6), base=IsotropicGaussian(2, 1.5))} | settings
    with pytest.raises(sivi.FitDiverged) as caught:
        sivi.fit(
            log_density,
            None if like else 2,
            like=like,
            family=small_family(),
            whiten=None,
            num_steps=20,
            progress=False,
            **settings,
        )
    assert caught.value.posterior.step < 20
    return str(caught.value)


def test_a_box():
    message = diverged(lambda x: jnp.where(x[0] < 1.0, -0.5 * jnp.sum(x**2), -jnp.inf))
    assert "log density is not finite at" in message
    assert "of 1024 draws of the last good state" in message
    assert "for example -inf at x = [" in message
    assert "sivi.interval(low, high)" in message
    assert "learning rate" not in message
    assert "float32" not in message


def test_a_region_of_nan_in_the_users_names():
    like = {"mu": 0.0, "rate": sivi.positive()}
    message = diverged(lambda p: jnp.where(p["mu"] < 1.0, -(p["mu"] ** 2) - p["rate"], jnp.nan), like)
    assert "for example nan at mu = " in message
    assert ", rate = " in message


@pytest.mark.parametrize("below", [pytest.param(1.0, marks=pytest.mark.slow), -9.0])
def test_a_cholesky_that_fails_in_float32(below):
    """For long length scales: in some updates, or already where the fit starts."""
    grid = np.arange(8.0)

    def log_density(x):
        length = jnp.where(x[0] < below, 0.5, 18.0 + x[0])
        kernel = jnp.exp(-0.5 * ((grid[:, None] - grid) / length) ** 2) + 1e-9 * jnp.eye(8)
        return -0.5 * jnp.sum(x**2) + jnp.sum(jnp.log(jnp.diagonal(jnp.linalg.cholesky(kernel))))

    if below > 0.0:
        message = diverged(log_density)
    else:
        with pytest.raises(ValueError, match="finite where the fit starts; at 16 of 16") as caught:
            sivi.fit(log_density, 2, family=small_family(), whiten=None, num_steps=20, progress=False)
        message = str(caught.value)
    assert "float32 is the likely cause" in message
    assert 'jax.config.update("jax_enable_x64", True)' in message


@pytest.mark.slow
def test_steps_that_are_too_long():
    message = diverged(
        lambda x: -jnp.sum(x**4), objective=SurrogateELBO(num_particles=8, num_aux=4, optimizer=Adam(1e30))
    )
    assert "draws beyond all numbers: a smaller learning rate" in message


@pytest.mark.slow
def test_the_status_of_the_warm_up_is_kept(tmp_path):
    target = GaussianMixture([[3.0, 0.0]], [np.eye(2)])
    settings = {"family": small_family(), "objective": SurrogateELBO(num_particles=8, num_aux=4), "progress": False}
    path = tmp_path / "fit.sivi"
    posterior = sivi.fit(target, num_steps=2, repeats=2, checkpoint=path, **settings)
    assert posterior.warmup_status == ("settled", "settled")
    assert posterior.repeat(1).warmup_status == ("settled",)
    assert sivi.load(path).warmup_status == ("settled", "settled")
    assert sivi.fit(target, resume=path, num_steps=4, progress=False).warmup_status == ("settled", "settled")
    assert sivi.fit(target, whiten=None, num_steps=2, **settings).warmup_status == ("not run",)
