import jax
import numpy as np

from sivi.targets import LinearRegression


def test_exact_draws_do_not_cancel_in_float32():
    """Large outputs, little noise: yᵀy − mᵀΛm would lose every digit."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=1000)
    target = LinearRegression(
        np.stack([np.ones(1000), x], axis=1), 100.0 + 100.0 * x + 0.1 * rng.normal(size=1000), prior_scale=1e4
    )
    draws = np.asarray(jax.vmap(target.sample)(jax.random.split(jax.random.key(0), 2000)))
    expected = np.sqrt((1.0 + 0.5 * 1000 * 0.1**2) / (2.0 + 500.0))  # of the prior's a = 2, b = 1 and the noise
    np.testing.assert_allclose(np.exp(draws[:, 0]).mean(), expected, rtol=0.05)
    np.testing.assert_allclose(draws[:, 1:].mean(0), 100.0, atol=0.05)
