from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sivi.metrics import covariance_rmse, energy_distance, knn_kl, ksd, mmd, noise_floor, sliced_wasserstein
from sivi.targets import Banana, IsotropicGaussian, LogDensity

PLANE = IsotropicGaussian(2)

#: Mean and scatter at 1,000 draws of each from N(0, I) in the plane, as the docstrings say, and the power of n that
#: the scatter falls with.
DOCUMENTED = {
    "knn_kl": (knn_kl, 0.0, 0.033, 0.5),
    "sliced_wasserstein": (sliced_wasserstein, 0.057, 0.013, 0.5),
    "mmd": (mmd, 0.0, 0.0006, 1.0),
    "energy_distance": (energy_distance, 0.0, 0.0019, 1.0),
    "covariance_rmse": (covariance_rmse, 0.050, 0.022, 0.5),
    "ksd": (lambda p, q: ksd(p, PLANE), 0.0, 0.0015, 1.0),
}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_documented_noise(name):
    """60 repeats know the scatter to about 10 to 15 %: asked within a third, and its ratio within a factor 1.5."""
    distance, mean, scatter, power = DOCUMENTED[name]
    floor = noise_floor(distance, PLANE, num_samples=1000, repeats=60, key=3)
    assert abs(floor.mean() - mean) < 4.1 * scatter / np.sqrt(60)
    assert 1 / 1.4 < floor.std(ddof=1) / scatter < 1.4
    smaller = noise_floor(distance, PLANE, num_samples=250, repeats=60, key=4)
    assert 1 / 1.5 < smaller.std(ddof=1) / floor.std(ddof=1) / 4.0**power < 1.5


def test_is_the_distance_between_independent_exact_sets():
    seen = []

    def record(p, q, k):
        seen.append((p, q, k))
        return jnp.asarray(len(seen), float)

    floor = noise_floor(record, Banana(), num_samples=(400, 300), repeats=3, key=1, k=7)
    np.testing.assert_array_equal(floor, [1.0, 2.0, 3.0])
    assert all((p.shape, q.shape, k) == ((400, 2), (300, 2), 7) for p, q, k in seen)
    draws = np.concatenate([array for p, q, _ in seen for array in (p, q)])
    assert len(np.unique(draws, axis=0)) == len(draws)
    assert abs(knn_kl(draws, jax.jit(jax.vmap(Banana().sample))(jax.random.split(jax.random.key(9), 2000)))) < 0.15


def test_key_decides_and_a_function_will_do():
    settings = {"num_samples": 50, "repeats": 4}
    floor = noise_floor(energy_distance, PLANE, key=5, **settings)
    np.testing.assert_array_equal(noise_floor(energy_distance, PLANE.sample, key=jax.random.key(5), **settings), floor)
    assert (noise_floor(energy_distance, PLANE, key=6, **settings) != floor).all()


def test_settings_reach_the_distance():
    settings = {"num_samples": 60, "repeats": 3}
    one, two = (noise_floor(sliced_wasserstein, PLANE, order=order, **settings) for order in (1, 2))
    assert (two > one).all()  # Jensen, on the same draws and slices
    other = noise_floor(partial(sliced_wasserstein, key=8), PLANE, **settings)
    assert (other != one).all()


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"num_samples": 0}, ValueError, r"^num_samples must be at least 1; got 0\.$"),
        (
            {"num_samples": (5, 5, 5)},
            ValueError,
            r"^num_samples must be a number or a pair of them; got \(5, 5, 5\)\.$",
        ),
        ({"repeats": 0}, ValueError, r"^repeats must be at least 1; got 0\.$"),
        ({"sample": LogDensity(jnp.sum, 2)}, TypeError, r"^sample must be a target that can be sampled exactly"),
        ({"sample": np.zeros((5, 2))}, TypeError, r"^sample must be .* one draw; got an array of dtype"),
        ({"sample": jax.random.normal}, ValueError, r"^sample must return one draw of shape \(dim,\); got shape \(\)"),
    ],
)
def test_wrong_arguments(arguments, kind, message, as_a_user):
    with pytest.raises(kind, match=message):
        noise_floor(knn_kl, **({"sample": PLANE, "num_samples": 9, "repeats": 2} | arguments))
