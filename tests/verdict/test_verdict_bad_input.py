"""Bad input to `sivi.check`: one sentence that says what is wrong, and nothing is lost."""

from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from oracles import linear_gaussian_family
from sivi._repeats import stack_repeats
from sivi.coordinates import DiagonalMap
from sivi.targets import LogDensity
from sivi.verdict import check_draws as check_module
from unfitted import posterior_of, ran_off

pytestmark = pytest.mark.usefixtures("as_a_user")


def density(x):
    return -0.5 * jnp.sum(x**2)


def draws(num=2000, dim=2):
    return np.random.default_rng(0).normal(size=(num, dim))


def posterior():
    family = linear_gaussian_family()
    identity = DiagonalMap(jnp.zeros(3), jnp.ones(3))
    return replace(posterior_of(family, [identity]), target=LogDensity(density, 3))


def with_nan():
    array = draws()
    array[5, 1] = np.nan
    return array


def with_constant():
    array = draws()
    array[:, 1] = 3.0
    return array


@pytest.mark.parametrize(
    ("given", "target", "sentence"),
    [
        (with_nan(), density, "draws must be finite; 1 of 2,000 are not"),
        (with_constant(), density, r"draws must vary in every unknown; x\[1\] is 3 in all"),
        (draws(1), density, "draws must be at least 50 to be judged; got 1"),
        (draws(), LogDensity(density, 3), "draws must have the target's 3 unknowns; got 2"),
        (draws()[:, 0], LogDensity(density, 2), r"draws must have shape \(draws, dim\) or \(chains, draws, dim\)"),
        (draws(), None, "target must be given with draws"),
        ({"a": draws()[:, 0]}, density, "target must be a sivi Target for draws in a dict"),
        ({"a": draws()[:, 0]}, LogDensity(lambda p: -(p["b"] ** 2), like={"b": 0.0}), "must have the unknowns b"),
        ("fit.sivi", density, "posterior must be a Posterior, an array"),
    ],
)
def test_draws_that_cannot_be_judged(given, target, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence) as raised:
        sivi.check(given, target)
    assert "\n" not in str(raised.value)


def test_a_target_that_is_not_the_posteriors():
    fit = posterior()
    with pytest.raises(ValueError, match="must have the posterior's 3 unknowns; got 2"):
        sivi.check(fit, LogDensity(density, 2))
    with pytest.raises(ValueError, match="the one that the posterior was fitted to"):
        fit.check(lambda x: -jnp.sum(x**2))
    with pytest.raises(ValueError, match="loaded without it"):
        replace(fit, target=None).check()


@pytest.mark.parametrize("effort", [0.0, -1.0, "much"])
def test_effort_is_positive(effort):
    with pytest.raises((ValueError, TypeError), match="effort must be a positive"):
        sivi.check(draws(), density, effort=effort)


def test_a_density_that_raises_outside_its_support():
    def raises(x):
        inside = eqx.error_if(x, jnp.abs(x[0]) > 3.0, "x[0] must be below 3")
        return -0.5 * jnp.sum(inside**2)

    given = np.clip(draws(), -2.9, 2.9)
    with pytest.raises(ValueError, match=r"-inf where the density is zero.*x\[0\] must be below 3"):
        sivi.check(given, LogDensity(raises, 2), modes=False)


def test_an_interrupt_before_anything_is_known(monkeypatch):
    def interrupted(*arguments, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(check_module, "run_drift", interrupted)
    with pytest.raises(KeyboardInterrupt, match="interrupted before it could say anything"):
        sivi.check(draws(), density)


def test_an_interrupt_of_the_search_for_modes_keeps_the_rest(monkeypatch):
    def interrupted(*arguments, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(check_module, "find_modes", interrupted)
    verdict = sivi.check(0.5 * draws(), density)
    assert verdict.level == "bad"
    assert verdict.interrupted
    assert "modes: interrupted" in verdict.not_looked_at


def test_a_fit_that_has_collapsed_is_bad(tmp_path):
    fit = posterior()
    one = replace(fit, affines=stack_repeats(DiagonalMap(jnp.full(3, 1e6), jnp.array([1e-9, 1.0, 1.0])), 1))
    verdict = one.check(key=1)
    assert verdict.level == "bad"
    assert [(item.kind, item.unknowns) for item in verdict.findings] == [("collapsed", ("x[0]",))]
    verdict.save(tmp_path / "verdict.sivi")
    assert sivi.load_verdict(tmp_path / "verdict.sivi").level == "bad"


def test_draws_that_are_no_real_numbers():
    for given, kind in ((draws().astype(complex), "complex128"), (draws().astype(object), "object")):
        with pytest.raises(TypeError, match=f"draws must be real numbers; got an array of {kind}"):
            sivi.check(given, density)


def test_nothing_to_show_of_draws_that_are_not_finite():
    fit = posterior()
    verdict = replace(fit, affines=stack_repeats(ran_off(jnp.full(3, jnp.nan)), 1)).check()
    assert verdict.level == "bad"
    with pytest.raises(ValueError, match="there are no draws"):
        verdict.refined.sample(10, key=0)
    with pytest.raises(ValueError, match="nothing to plot"):
        verdict.plot()
    with pytest.raises(ValueError, match="num_unknowns must be"):
        fit.check(modes=False).plot(0)


def test_few_draws_are_not_compared():
    for given in (draws()[:1], draws()[:0]):
        with pytest.raises(ValueError, match="draws must be at least 50 to be compared"):
            sivi.compare(given, density, reference=draws())


def test_a_repeat_that_is_not_finite_is_named():
    maps = [ran_off(jnp.array([mean, 0.0, 0.0])) for mean in (0.0, jnp.nan)]
    verdict = replace(posterior_of(linear_gaussian_family(), maps), target=posterior().target).check(modes=False)
    assert "repeat 1: draws are not finite" in str(verdict)
    assert len(verdict.repeats) == 2
