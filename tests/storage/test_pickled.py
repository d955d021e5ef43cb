"""Posteriors that are pickled, copied, and sent to another process."""

import copy
import multiprocessing
import pickle
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from sivi.families import Family
from sivi.targets import Banana

QUICK = {"num_steps": 4, "whiten": None, "progress": False}


class Own(Family):
    """A family of the user's own class, which a file cannot hold and pickle can."""

    mean: jax.Array

    @property
    def dim(self):
        return len(self.mean)

    def sample(self, key):
        return self.mean + jax.random.normal(key, self.mean.shape)

    def log_prob(self, key, x, num_aux=4096):
        return -0.5 * jnp.sum((x - self.mean) ** 2), jnp.zeros(())


class WithFunction(Own):
    activation: object = eqx.field(static=True, default=lambda x: x)


def with_family(posterior, family):
    """A posterior with another family in place of its own."""
    families = jax.tree.map(lambda leaf: leaf[None], family)
    run = eqx.tree_at(lambda s: s.families, posterior.run.state, families)
    return replace(posterior, run=replace(posterior.run, state=run))


def draws_of(posterior):
    return np.asarray(posterior.sample(20, key=3))


def sent(posterior):
    return pickle.loads(pickle.dumps(posterior))  # noqa: S301


@pytest.fixture(scope="module")
def fitted():
    return sivi.fit(Banana(), **QUICK)


def test_pickled_with_its_target(fitted):
    again = sent(fitted)
    np.testing.assert_array_equal(draws_of(again), draws_of(fitted))
    assert isinstance(again.target, Banana)
    assert again.settings.objective == fitted.settings.objective
    further = [sivi.fit(Banana(), resume=posterior, num_steps=6, progress=False) for posterior in (fitted, again)]
    np.testing.assert_array_equal(*map(draws_of, further))


def test_a_target_that_cannot_be_pickled_is_left_out():
    posterior = sivi.fit(lambda p: -jnp.sum(p["a"] ** 2), like={"a": np.zeros(2)}, **QUICK)
    again = sent(posterior)
    assert again.target is None
    np.testing.assert_array_equal(again.sample(9, key=1)["a"], posterior.sample(9, key=1)["a"])


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies_keep_the_target(copied):
    posterior = sivi.fit(lambda x: -jnp.sum(x**2), dim=2, **QUICK)
    again = copied(posterior)
    assert again is not posterior
    assert again.target is posterior.target
    np.testing.assert_array_equal(draws_of(again), draws_of(posterior))
    assert (again.history["loss"] is posterior.history["loss"]) == (copied is copy.copy)


def test_a_family_of_an_own_class():
    fitted = sivi.fit(Banana(), stop=None, **QUICK)
    posterior = with_family(fitted, Own(jnp.ones(2)))
    np.testing.assert_array_equal(draws_of(sent(posterior)), draws_of(posterior))
    with pytest.raises(pickle.PicklingError, match=r"^the posterior cannot be pickled, since its family WithFunction"):
        pickle.dumps(with_family(fitted, WithFunction(jnp.ones(2))))


def test_in_another_process(fitted):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        np.testing.assert_array_equal(pool.apply(draws_of, (fitted,)), draws_of(fitted))
