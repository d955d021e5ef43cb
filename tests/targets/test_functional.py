import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sivi.constraints import interval, positive, simplex
from sivi.targets import LogDensity, as_target
from sivi.targets.evaluate import check_shapes


def test_log_determinant_is_added():
    target = as_target(lambda p: -3.0 * p["tau"] + p["mu"], like={"mu": 0.0, "tau": positive()})
    x = jnp.array([0.5, -0.7])
    np.testing.assert_allclose(target.log_prob(x), 0.5 - 3.0 * np.exp(-0.7) - 0.7, rtol=1e-6)
    np.testing.assert_allclose(target.score(x), [1.0, 1.0 - 3.0 * np.exp(-0.7)], rtol=1e-6)
    np.testing.assert_allclose(target.constrain(x)["tau"], np.exp(-0.7), rtol=1e-6)


def test_a_constant_is_the_uniform_density(precision):
    target = as_target(lambda w: 0.0, like=simplex(3))
    check_shapes(target, log_prob=True)
    assert target.log_prob(jnp.zeros(2)).dtype == precision
    np.testing.assert_allclose(target.log_prob(jnp.zeros(2)), 3 * np.log(1 / 3) + 0.5 * np.log(3.0), rtol=1e-6)


def test_the_layout_of_another_target_will_do():
    first = LogDensity(lambda p: -p["tau"], like={"tau": interval(1.0, None)})
    second = as_target(lambda p: -2.0 * p["tau"], like=first.layout)
    assert second.layout == first.layout
    np.testing.assert_allclose(second.log_prob(jnp.zeros(1)), -4.0, rtol=1e-6)


def test_arrays_closed_over_are_arguments():
    data = jnp.arange(1000.0)
    target = as_target(lambda p: -jnp.sum(data) * p["tau"], like={"tau": positive()})
    assert any(np.shape(leaf) == (1000,) for leaf in jax.tree.leaves(target))


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("dtype", ["float16", "int32"])
def test_another_type_is_refused_as_without_constraints(dtype):
    target = as_target(lambda p: p["tau"].astype(dtype), like={"tau": positive()})
    with pytest.raises((ValueError, TypeError), match=f"float32 or float64 array of shape .*{dtype}"):
        check_shapes(target, log_prob=True)


def test_the_users_own_error_says_what_it_was_called_with():
    data = jnp.ones(3)
    with pytest.raises(KeyError) as caught:
        as_target(lambda p: jnp.sum(data) * p["sigma"], like={"tau": positive(2)})
    assert any("called with tau: (2,)" in note for note in caught.value.__notes__)
