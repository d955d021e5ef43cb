"""The structured critic: its algebra against closed forms, its loss against the one over draws of x, its refusals."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import sivi
from oracles import bonferroni, flat, log_q
from sivi.critics import MLPCritic, StructuredCritic
from sivi.critics.structured import _features
from sivi.objectives import Annealed, PathKL, PlugInFisher, ScoreMatching

DIM, LATENT, HIDDEN = 12, 2, 4


def scattered(family, seed=0, scale=0.7):
    """The same family with every parameter moved, so that no two coordinates are alike."""
    leaves, treedef = jax.tree.flatten(eqx.filter(family, eqx.is_array))
    keys = jax.random.split(jax.random.key(seed), len(leaves))
    moved = [leaf + scale * jax.random.normal(key, leaf.shape) for leaf, key in zip(leaves, keys, strict=True)]
    return eqx.combine(jax.tree.unflatten(treedef, moved), eqx.filter(family, eqx.is_array, inverse=True))


def make(mixing="normal", skip=True, hidden=(5, HIDDEN), dim=DIM, **arguments):
    key = jax.random.key(3)
    layer = sivi.NormalMixing(LATENT) if mixing == "normal" else sivi.ImplicitMixing(3, LATENT, hidden=(6,), key=key)
    conditional = sivi.DiagonalGaussian(LATENT, dim, hidden=hidden, skip=skip, key=key, **arguments)
    return scattered(sivi.SemiImplicit(layer, conditional))


def linear_family(dim=DIM):
    """No part of x comes from the hidden layers: q = N(b, AAᵀ + Σ)."""
    family = make(dim=dim)
    zero = lambda f: f.conditional.networks.mean.layers[-1].weight  # noqa: E731
    return eqx.tree_at(zero, family, jnp.zeros_like(zero(family)))


def exact_gaussian(family):
    """Mean and covariance of a `linear_family`."""
    mean, sigma = family.conditional.networks(jnp.zeros(LATENT))
    loading = family.conditional.networks.mean.skip
    return mean, loading @ loading.T + jnp.diag(sigma**2)


FAMILIES = {
    "skip": make,
    "no skip": lambda: make(skip=False),
    "no hidden layer": lambda: make(hidden=()),
    "no hidden layer, no skip": lambda: make(hidden=(), skip=False),
    "implicit mixing": lambda: make("implicit"),
    "relu, clamp": lambda: make(activation="relu", floor="clamp"),
}


@pytest.fixture(params=FAMILIES)
def family(request):
    return FAMILIES[request.param]()


def trained_a_little(family, seed=1):
    """A critic whose network does something."""
    critic = StructuredCritic((8,), final_scale=1.0).init(jax.random.key(seed), family)
    return eqx.tree_at(lambda c: c.network, critic, scattered(critic.network, seed, 0.3))


def test_starts_at_the_exact_score_of_a_gaussian_q(x64):
    family = linear_family()
    mean, covariance = exact_gaussian(family)
    field = StructuredCritic(final_scale=0.0).init(jax.random.key(0), family).at(family)
    x = jax.vmap(family.sample)(jax.random.split(jax.random.key(1), 20))
    exact = jnp.linalg.solve(covariance, (x - mean).T).T
    np.testing.assert_allclose(jax.vmap(field)(x), exact, rtol=1e-9, atol=1e-10)


def test_stays_at_it_while_the_family_moves(x64):
    """The critic is set up for one family; the linear part is that of another."""
    critic = StructuredCritic(final_scale=0.0).init(jax.random.key(0), linear_family())
    moved = eqx.tree_at(lambda f: f.conditional.networks.raw_scale, linear_family(), replace_fn=lambda raw: raw - 2.0)
    mean, covariance = exact_gaussian(moved)
    x = jnp.linspace(-1.0, 2.0, DIM)
    np.testing.assert_allclose(critic.at(moved)(x), jnp.linalg.solve(covariance, x - mean), rtol=1e-9)


def test_the_linear_start_is_the_best_linear_estimate(x64):
    """For any family with z ~ N(0, I): against the regression of h on y with the covariance of h by quadrature."""
    family = make(hidden=(3,))
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    grid = jnp.stack(jnp.meshgrid(*[jnp.asarray(nodes)] * LATENT, indexing="ij"), -1).reshape(-1, LATENT)
    weights = jnp.asarray(np.outer(weights, weights).ravel() / weights.sum() ** 2)
    h = jax.vmap(lambda z: _features(family, z))(grid)
    mean = weights @ h
    covariance = (weights[:, None] * (h - mean)).T @ (h - mean)
    field = StructuredCritic(final_scale=0.0).init(jax.random.key(0), family).at(family)
    # The draws that the critic takes its moments from are exact in z, and close in the rest.
    estimated = field.root @ field.root.T
    np.testing.assert_allclose(estimated[:LATENT, :LATENT], jnp.eye(LATENT), atol=1e-9)
    np.testing.assert_allclose(field.mean[:LATENT], 0.0, atol=1e-9)
    np.testing.assert_allclose(field.mean, mean, atol=0.1)
    np.testing.assert_allclose(estimated, covariance, atol=0.2)
    centred = jax.random.normal(jax.random.key(1), (len(mean),))
    expected = field.mean + jnp.linalg.solve(jnp.linalg.inv(estimated) + field.gram, centred)
    np.testing.assert_allclose(field.expected(centred), expected, rtol=1e-7)


def test_loss_in_feature_space_is_the_weighted_denoising_loss(x64, family):
    """Value and gradient, draw for draw: ε is chosen such that M Σ^(−1/2) ε is the ξ of the short loss."""
    critic = trained_a_little(family)
    mixing_noise, normals = critic.noise_source(family).sample_noise(jax.random.key(5), (7,))
    field = critic.at(family)
    sigma = field.precision**-0.5
    xi = normals @ jnp.linalg.cholesky(field.gram).T
    eps = xi @ jnp.linalg.pinv(field.loading / sigma).T
    np.testing.assert_allclose(eps @ (field.loading / sigma).T, xi, atol=1e-10)

    def long_loss(critic):
        joint = jax.vmap(family.joint)(mixing_noise, eps)
        error = jax.vmap(critic.at(family))(joint.x) + joint.score
        return jnp.mean(jnp.sum(sigma**2 * error**2, axis=-1))

    value, gradient = eqx.filter_value_and_grad(long_loss)(critic)
    objective = PathKL(critic=StructuredCritic())
    short, short_gradient = eqx.filter_value_and_grad(objective.critic_loss)(
        critic, jnp.int32(0), family, sivi.targets.IsotropicGaussian(DIM), None, (mixing_noise, normals)
    )
    np.testing.assert_allclose(short, value, rtol=1e-8)
    np.testing.assert_allclose(flat(short_gradient), flat(gradient), rtol=1e-6, atol=1e-8 * float(value))


def test_mean_of_the_loss_is_that_over_draws_of_the_family(x64):
    """Over independent noise of each kind, so that the law of ξ counts too. False-failure rate 1e-4."""
    family = make()
    critic = trained_a_little(family)
    field, count = critic.at(family), 40_000
    joint = jax.vmap(family.joint)(*family.sample_noise(jax.random.key(1), (count,)))
    long = jnp.sum((jax.vmap(field)(joint.x) + joint.score) ** 2 / field.precision, axis=-1)
    noise = critic.noise_source(family).sample_noise(jax.random.key(2), (count,))
    short = jax.vmap(lambda *one: critic.denoising_loss(family, tuple(a[None] for a in one)))(*noise)
    error = np.hypot(float(long.std()), float(short.std())) / np.sqrt(count)
    assert error < 0.02 * float(long.mean())
    assert abs(float(long.mean() - short.mean())) < bonferroni(1) * error


@pytest.mark.slow
@pytest.mark.parametrize("mixing", ["normal", "implicit"])
def test_a_trained_critic_is_the_score_of_q_by_quadrature(mixing):
    """With the family held still: two arms of a curve in the plane, where the linear start is far off."""
    key = jax.random.key(2)
    layer = sivi.NormalMixing(1) if mixing == "normal" else sivi.ImplicitMixing(1, 1, hidden=(8,), key=key)
    conditional = sivi.DiagonalGaussian(1, 3, hidden=(6,), sigma_init=0.5, key=key)
    family = scattered(sivi.SemiImplicit(layer, conditional), seed=4)
    target = sivi.targets.IsotropicGaussian(3)
    objective = PathKL(
        optimizer=optax.sgd(0.0), num_particles=8, critic_particles=512, critic_warmup=0, critic=StructuredCritic()
    )
    points = jax.vmap(family.sample)(jax.random.split(jax.random.key(1), 2000))
    exact = jax.jit(lambda x: jax.lax.map(jax.grad(lambda x: log_q(family, x)), x))(points)

    def error(state):
        learnt = jax.vmap(objective.critic_function(state, target, family))(points) - jax.vmap(target.score)(points)
        return float(jnp.mean((learnt + exact) ** 2) / jnp.mean(exact**2))

    start = eqx.filter_jit(objective.bind(1500).init)(jax.random.key(0), family, target)
    posterior = sivi.fit(target, family=family, objective=objective, num_steps=1500, whiten=None, progress=False)
    assert error(posterior.state) < min(0.01, 0.2 * error(start))


def test_number_of_parameters_does_not_depend_on_dim():
    def count(dim):
        critic = StructuredCritic().init(jax.random.key(0), make(dim=dim))
        return sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(critic, eqx.is_array)))

    size = LATENT + HIDDEN
    assert count(5) == count(50) == 128 * (size + 1 + 128 + 1) + size * (128 + 1) + size**2 + 1


def test_updates_of_the_critic_make_no_array_of_length_dim_per_draw():
    dim, others = 977, 11
    family = make(dim=dim)
    objective = PathKL(critic=StructuredCritic((8,)))
    critic = objective.critic.init(jax.random.key(0), family)
    target = sivi.targets.IsotropicGaussian(dim)

    def shapes(jaxpr):
        for equation in jaxpr.eqns:
            yield from (getattr(v.aval, "shape", ()) for v in equation.outvars)
            for inner in jax.tree.leaves(equation.params, is_leaf=lambda p: hasattr(p, "jaxpr") or hasattr(p, "eqns")):
                if hasattr(inner, "jaxpr") or hasattr(inner, "eqns"):
                    yield from shapes(getattr(inner, "jaxpr", inner))

    def critic_update(key):
        noise = objective.critic_noise_source(critic, family).sample_noise(key, (others,))
        return flat(eqx.filter_grad(objective.critic_loss)(critic, jnp.int32(0), family, target, None, noise))

    found = set(shapes(jax.make_jaxpr(critic_update)(jax.random.key(0)).jaxpr))
    assert not [shape for shape in found if dim in shape and others in shape]
    assert (others, LATENT + HIDDEN) in found


@pytest.mark.parametrize("objective", [ScoreMatching, PlugInFisher])
def test_in_other_objectives_it_learns_over_draws_of_x(x64, objective):
    """The gradient of the critic's loss is that of the denoising loss in plain weights, twice differentiable or not."""
    family, target = make(), sivi.targets.IsotropicGaussian(DIM, 0.8)
    critic, method = trained_a_little(family), objective(psi=1.0, critic=StructuredCritic())
    noise = family.sample_noise(jax.random.key(1), (6,))

    def denoising(critic):
        joint = jax.vmap(family.joint)(*noise)
        return jnp.mean(jnp.sum((jax.vmap(critic.at(family))(joint.x) + joint.score) ** 2, axis=-1))

    gradient = eqx.filter_grad(method.critic_loss)(critic, jnp.int32(0), family, target, None, noise)
    np.testing.assert_allclose(flat(gradient), flat(eqx.filter_grad(denoising)(critic)), rtol=1e-8, atol=1e-8)


def test_the_family_descends_with_the_critic_held_fixed(x64):
    """The surrogate's gradient is that of a field that does not know the family."""
    family, target = make(), sivi.targets.IsotropicGaussian(DIM, 0.8)
    objective = PathKL(critic=StructuredCritic(final_scale=0.0), clip=None)
    critic = objective.critic.init(jax.random.key(0), family)
    noise = family.sample_noise(jax.random.key(1), (6,))
    values = jax.vmap(critic.at(family))(jax.vmap(family.joint)(*noise).x)
    fixed = values + jax.vmap(target.score)(jax.vmap(family.joint)(*noise).x)

    def surrogate(family):
        return -jnp.mean(jnp.sum(fixed * jax.vmap(family.joint)(*noise).x, axis=-1))

    def loss(family):
        field = objective.full_critic(critic.at(family), jnp.int32(0))
        return objective.family_loss(family, field, target, None, noise)[0]

    np.testing.assert_allclose(
        flat(eqx.filter_grad(loss)(family)), flat(eqx.filter_grad(surrogate)(family)), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("sigma", [1.0, 2e-3])
def test_float32_survives_a_singular_gram_matrix(sigma):
    """More features than dimensions, dead units, twins of opposite weight, and a σ next to its floor."""
    conditional = sivi.DiagonalGaussian(3, 2, hidden=(64,), activation="relu", sigma_init=sigma, key=jax.random.key(0))
    family = sivi.SemiImplicit(sivi.NormalMixing(3), conditional)
    mean = lambda f: f.conditional.networks.mean  # noqa: E731
    first, last = mean(family).layers
    first = eqx.tree_at(lambda layer: layer.bias, first, first.bias.at[:8].set(-100.0))
    first = eqx.tree_at(lambda layer: layer.weight, first, first.weight.at[:, 9].set(first.weight[:, 8]))
    last = eqx.tree_at(lambda layer: layer.weight, last, last.weight.at[:, 9].set(-last.weight[:, 8]))
    family = eqx.tree_at(lambda f: mean(f).layers, family, (first, last))
    critic = StructuredCritic((16,)).init(jax.random.key(1), family)
    field = critic.at(family)
    loss = critic.denoising_loss(family, critic.noise_source(family).sample_noise(jax.random.key(2), (4096,)))
    joint = jax.vmap(family.joint)(*family.sample_noise(jax.random.key(3), (4096,)))
    over_x = jnp.mean(jnp.sum((jax.vmap(field)(joint.x) + joint.score) ** 2 / field.precision, axis=-1))
    # One unit of noise per dimension is the most that is left to explain, beside the rounding errors of numbers that
    # are five hundred times as large; both losses see the same.
    assert 0.0 < float(loss) < (2.2 if sigma == 1.0 else 3.0)
    np.testing.assert_allclose(loss, over_x, rtol=0.1)


def test_critic_function_of_a_state_asks_for_the_family():
    family, target = make(), sivi.targets.IsotropicGaussian(DIM)
    objective = PathKL(critic=StructuredCritic((8,)), critic_warmup=0).bind(10)
    state = objective.init(jax.random.key(0), family, target)
    x = jnp.linspace(-1.0, 1.0, DIM)
    expected = state.critic.at(family)(x) + target.score(x)
    np.testing.assert_allclose(objective.critic_function(state, target, family)(x), expected, rtol=1e-6)
    with pytest.raises(TypeError, match=r"^family must be given: StructuredCritic is a function of x only at a family"):
        objective.critic_function(state, target)


REFUSED = {
    "sigma of z": (lambda: make(scale="network"), r"got one with scale='network'\.$"),
    "Student-t": (
        lambda: sivi.SemiImplicit(sivi.NormalMixing(2), sivi.StudentT(2, DIM, key=jax.random.key(0))),
        r"got the conditional StudentT\.$",
    ),
}


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("around", [lambda objective: objective, Annealed], ids=["plain", "annealed"])
@pytest.mark.parametrize("method", [PathKL, ScoreMatching, PlugInFisher])
@pytest.mark.parametrize("name", REFUSED)
def test_a_family_it_does_not_fit_is_refused(name, method, around):
    make_family, sentence = REFUSED[name]
    start = r"^StructuredCritic needs a SemiImplicit family whose conditional is a DiagonalGaussian with a global σ; "
    with pytest.raises(TypeError, match=start + sentence):
        sivi.fit(
            sivi.targets.IsotropicGaussian(DIM),
            family=make_family(),
            objective=around(method(critic=StructuredCritic())),
            num_steps=2,
            progress=False,
        )


def test_a_plain_critic_can_start_at_the_score_of_a_standard_normal():
    family = make(dim=3)
    x = jnp.array([0.3, -2.0, 1.0])
    exact = MLPCritic((8,), skip=True, skip_scale=1.0, final_scale=0.0).init(jax.random.key(0), family)
    np.testing.assert_array_equal(exact(x), x)
    close = MLPCritic((8,), skip=True, skip_scale=1.0, final_scale=0.01).init(jax.random.key(0), family)
    np.testing.assert_allclose(close(x), x, atol=0.03)
    plain = MLPCritic((8,), skip=True, final_scale=0.0).init(jax.random.key(0), family)
    np.testing.assert_array_equal(plain(x), 0.0)
    with pytest.raises(ValueError, match=r"^skip_scale must be 0 without skip; got 1\.0\.$"):
        MLPCritic((8,), skip_scale=1.0)
