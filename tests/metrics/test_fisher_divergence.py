from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracles
import sivi
from oracles import bonferroni, gaussian_target, linear_gaussian_family, linear_gaussian_model
from sivi.coordinates import DiagonalMap
from sivi.critics import MLPCritic, StructuredCritic
from sivi.families import Conditional, Family
from sivi.families.diagonal_gaussian import GaussianAt
from sivi.metrics import fisher_divergence
from sivi.metrics._family_score import _moments, train_family_score
from sivi.optimizers import Adam
from sivi.targets import GaussianMixture, IsotropicGaussian
from unfitted import posterior_of

SMALL = {"num_steps": 800, "num_particles": 256, "critic": MLPCritic((32, 32), skip=True, final_scale=0.0)}


class Bent(Conditional):
    """x|z ~ N(shift + scale·(z, z²/2), diag (scale·σ)²): q is a bent ridge, whose score is an integral over z."""

    shift: jax.Array
    scale: jax.Array
    latent_dim: int = 1
    dim: int = 2

    def sample_noise(self, key, shape=()):
        return jax.random.normal(key, (*shape, 2), float)

    def at(self, z):
        mean = jnp.stack([z[0], 0.5 * z[0] ** 2])
        return GaussianAt(self.shift + self.scale * mean, self.scale * jnp.array([0.5, 0.4]))

    def score_of_q(self, x):
        grid = jnp.linspace(-6.0, 6.0, 241)
        log_q = lambda x: jax.nn.logsumexp(  # noqa: E731
            jax.vmap(lambda z: self.at(z[None]).log_prob(x) - 0.5 * z**2)(grid)
        )
        return jax.grad(log_q)(x)


def bent_family(shift=(0.0, 0.0), scale=(1.0, 1.0)):
    return sivi.SemiImplicit(sivi.NormalMixing(1), Bent(jnp.array(shift, float), jnp.array(scale, float)))


def target_like(shift, scale):
    """A Gaussian, moved and stretched with the family, so that the divergence is that of the plain pair."""
    stretch = np.diag(scale)
    return GaussianMixture([np.array(shift) + stretch @ [0.3, 0.4]], [stretch @ [[1.0, 0.2], [0.2, 0.8]] @ stretch])


def linear_score(family):
    precision = jnp.linalg.inv(family.conditional.covariance)
    return lambda x: -precision @ (x - family.conditional.b)


def z_score(estimate, exact):
    return abs(estimate.value - float(exact)) / estimate.standard_error


def test_exact_score_is_unbiased_for_the_closed_form(x64):
    """False-failure rate 1e-4."""
    family, target = linear_gaussian_family(), gaussian_target()
    exact = oracles.fisher_divergence(family.conditional, target)
    estimate = fisher_divergence(family, target, key=0, score_q=linear_score(family), num_samples=50_000)
    assert z_score(estimate, exact) < bonferroni(1)
    assert estimate.critic_norm == estimate.value
    assert estimate.standard_error < 0.005 * exact


def test_standard_error_is_the_scatter_over_keys_and_a_posterior_is_taken_by_its_family():
    family, target = linear_gaussian_family(), gaussian_target()
    settings = {"score_q": linear_score(family), "num_samples": 500}
    estimates = [fisher_divergence(family, target, key=k, **settings) for k in range(100)]
    scatter = np.std([e.value for e in estimates])
    np.testing.assert_allclose(np.mean([e.standard_error for e in estimates]), scatter, rtol=0.3)
    posterior = SimpleNamespace(family=family)
    assert fisher_divergence(posterior, target, key=jax.random.key(6), **settings) == estimates[6]


def test_trained_critic_on_the_linear_family():
    """Within 1 % and the Monte Carlo noise, at a false-failure rate of 1e-4 for that."""
    family, target = linear_gaussian_family(), gaussian_target()
    exact = float(oracles.fisher_divergence(family.conditional, target))
    estimate = fisher_divergence(family, target, key=1, num_samples=50_000, **SMALL)
    assert abs(estimate.value - exact) < 0.01 * exact + bonferroni(1) * estimate.standard_error
    assert abs(estimate.critic_norm - exact) < 0.02 * exact


@pytest.mark.parametrize(
    ("shift", "scale"), [((0.0, 0.0), (1.0, 1.0)), ((30.0, -2.0), (100.0, 0.01))], ids=["plain", "stretched"]
)
def test_trained_critic_on_a_bent_family(shift, scale):
    """Within 3 % of the value by quadrature over z, plus the noise of both, at a false-failure rate of 1e-4."""
    family, target = bent_family(shift, scale), target_like(shift, scale)
    exact = fisher_divergence(family, target, key=2, score_q=family.conditional.score_of_q, num_samples=20_000)
    estimate = fisher_divergence(family, target, key=3, num_samples=20_000, **SMALL)
    noise = np.hypot(exact.standard_error, estimate.standard_error)
    assert noise < 0.03 * exact.value
    assert abs(estimate.value - exact.value) < 0.03 * exact.value + bonferroni(1) * noise
    assert abs(estimate.critic_norm - estimate.value) < 0.06 * exact.value


def test_value_is_the_divergence_less_the_critics_error():
    """For a critic that is stopped early, with its error by quadrature. False-failure rate 1e-4."""
    family, target = bent_family(), target_like((0.0, 0.0), (1.0, 1.0))
    spec, optimizer = MLPCritic((8,)), Adam(1e-3)
    settings = {"critic": spec, "optimizer": optimizer, "num_steps": 3, "num_particles": 32}
    estimate = fisher_divergence(family, target, key=4, num_samples=50_000, **settings)
    critic = train_family_score(jax.random.split(jax.random.key(4))[0], family, spec, optimizer, 3, 32)
    x = jax.vmap(family.sample)(jax.random.split(jax.random.key(5), 20_000))
    score_q = jax.jit(lambda x: jax.lax.map(family.conditional.score_of_q, x, batch_size=1000))(x)
    score, error = jax.vmap(target.score)(x), score_q - jax.vmap(critic)(x)
    each = np.asarray(jnp.sum((score - score_q) ** 2, 1) - jnp.sum(error**2, 1), float)
    noise = np.hypot(estimate.standard_error, each.std() / np.sqrt(len(each)))
    assert np.mean(np.sum(error**2, 1)) > 0.3  # a bad critic, which the value has to be corrected for
    assert abs(estimate.value - each.mean()) < bonferroni(1) * noise
    # The gap is 2 E[g·r].
    gap = 2 * np.mean(np.sum(np.asarray((score - score_q + error) * error, float), 1))
    np.testing.assert_allclose(estimate.critic_norm - estimate.value, gap, atol=0.15)


def test_no_gap_does_not_prove_a_good_critic():
    """A critic that can only be linear: the best such, and so without a gap to a linear S, yet the value is far low."""
    family, target = bent_family(), target_like((0.0, 0.0), (1.0, 1.0))
    linear = {"critic": MLPCritic((), final_scale=0.0), "num_steps": 1}
    exact = fisher_divergence(family, target, key=2, score_q=family.conditional.score_of_q, num_samples=20_000)
    estimate = fisher_divergence(family, target, key=4, num_samples=20_000, **linear)
    assert estimate.value < 0.9 * exact.value - bonferroni(1) * (estimate.standard_error + exact.standard_error)
    assert abs(estimate.critic_norm - estimate.value) < bonferroni(1) * estimate.standard_error


def test_all_data_of_a_model_count():
    family, model = linear_gaussian_family(), linear_gaussian_model()
    mean, covariance = model.posterior()
    exact = oracles.fisher_divergence(family.conditional, GaussianMixture([mean], [covariance]))
    estimate = fisher_divergence(family, model, key=8, score_q=linear_score(family), num_samples=20_000)
    assert z_score(estimate, exact) < bonferroni(1)


def test_standardisation_whitens_and_falls_back_to_the_diagonal():
    center, root, whitener = _moments(jax.random.key(0), linear_gaussian_family())
    np.testing.assert_allclose(root @ root.T, linear_gaussian_family().conditional.covariance, atol=0.15)
    np.testing.assert_allclose(whitener @ root, np.eye(3), atol=1e-5)
    np.testing.assert_allclose(center, linear_gaussian_family().conditional.b, atol=0.1)
    wide = oracles.LinearGaussian(jnp.ones((500, 1)), jnp.zeros(500), jnp.zeros(500))
    _, root, whitener = _moments(jax.random.key(0), sivi.SemiImplicit(sivi.NormalMixing(1), wide))
    assert root.shape == whitener.shape == (500,)
    np.testing.assert_allclose(root, np.sqrt(2), rtol=0.1)


class OnlySamples(Family):
    """A family without the two layers."""

    dim: int = 3

    def sample(self, key):
        return jax.random.normal(key, (3,), float)

    def log_prob(self, key, x, num_aux):
        raise NotImplementedError


def test_any_family_will_do_with_its_score():
    """N(0, I) to N(0, s² I): (1/s² − 1)² dim."""
    target = IsotropicGaussian(3, 0.6)
    estimate = fisher_divergence(OnlySamples(), target, key=9, score_q=lambda x: -x, num_samples=20_000)
    assert z_score(estimate, 3 * (1 / 0.36 - 1) ** 2) < bonferroni(1)
    with pytest.raises(TypeError, match=r"^fit must be semi-implicit, or score_q given; got OnlySamples"):
        fisher_divergence(OnlySamples(), target, key=0)


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"fit": "a fit"}, TypeError, r"^fit must be a sivi family, or a posterior with one; got 'a fit'\.$"),
        ({"target": IsotropicGaussian(2)}, ValueError, r"^fit and target must have the same dim; got 3 and 2\.$"),
        ({"target": 1.0}, TypeError, r"^target must be a sivi Target or a function"),
        (
            {"target": lambda x: jnp.sqrt(x[0] - 1e3), "score_q": lambda x: -x},
            ValueError,
            r"^target must have a finite score at every draw; at 50 of 50 it has not\.$",
        ),
        ({"num_samples": 1}, ValueError, r"^num_samples must be at least 2; got 1\.$"),
        ({"num_steps": 0}, ValueError, r"^num_steps must be at least 1; got 0\.$"),
        ({"key": "seed"}, TypeError, r"^key must be an int or one JAX random key; got 'seed'\.$"),
        ({"score_q": jnp.sum}, ValueError, r"^score_q must return a vector of shape \(3,\); got an array of .*\(\)\.$"),
        ({"critic": "mlp"}, TypeError, r"^critic must be settings such as sivi.critics.MLPCritic\(\); got 'mlp'\.$"),
        (
            {
                "fit": sivi.SemiImplicit(
                    sivi.NormalMixing(2), sivi.DiagonalGaussian(2, 3, hidden=(4,), key=jax.random.key(0))
                ),
                "critic": StructuredCritic((4,)),
            },
            TypeError,
            r"^critic must be settings of a function of x alone, .* standardised draws; got a StructuredCritic\.$",
        ),
        ({"optimizer": 1e-3}, TypeError, r"^optimizer must be a sivi.optimizers.Optimizer or an Optax transform"),
        (
            {"fit": eqx.tree_at(lambda f: f.conditional.b, linear_gaussian_family(), jnp.full(3, jnp.nan))},
            ValueError,
            r"^draws of fit must be finite; 4096 rows are not\.$",
        ),
    ],
)
def test_wrong_arguments(changes, kind, message, as_a_user):
    arguments = {
        "fit": linear_gaussian_family(),
        "target": gaussian_target(),
        "key": 0,
        "num_samples": 50,
        "num_steps": 2,
    }
    arguments |= {"critic": MLPCritic((4,))} | changes
    with pytest.raises(kind, match=message):
        fisher_divergence(**arguments)


def test_of_a_whitened_posterior_is_that_in_the_coordinates_of_the_fit():
    """q = N(m, L Lᵀ) against N(m + δ, L Lᵀ): ‖Lᵀ · Σ⁻¹δ‖² = ‖L⁻¹δ‖², whatever the units of x."""
    family = linear_gaussian_family()
    b, covariance = family.conditional.b, family.conditional.covariance
    mean, scale = jnp.array([100.0, -3.0, 0.0])[: family.dim], jnp.array([50.0, 0.01, 1.0])[: family.dim]
    posterior = posterior_of(family, [DiagonalMap(mean, scale)])
    precision = jnp.linalg.inv(covariance)
    shift = jnp.full(family.dim, 0.3)

    def log_density(x):
        u = (x - mean) / scale - b - shift
        return -0.5 * u @ precision @ u

    def score_q(x):
        return -(precision @ ((x - mean) / scale - b)) / scale

    found = fisher_divergence(posterior, log_density, key=0, score_q=score_q, num_samples=100)
    np.testing.assert_allclose(found.value, jnp.sum((precision @ shift) ** 2), rtol=1e-3)
