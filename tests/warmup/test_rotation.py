"""Rotating coordinates along the axes of arrays: against Gaussians whose precision is a Kronecker product."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from sivi._layout import Layout
from sivi.coordinates import DiagonalMap, RotatedMap
from sivi.targets import KnowsCurvature, LogisticRegression, MultinomialRegression, Target
from sivi.warmup import gaussian_warmup
from sivi.warmup.attempts import MAX_TRIES, Starts
from sivi.warmup.low_rank import fit_low_rank
from sivi.warmup.rotation import (
    MAX_AXIS,
    array_shapes,
    closed_form_axes,
    has_closed_form,
    identity_rotation,
    is_rotated,
    measure,
    per_row_identity,
    unit_scales,
)


def spd(rng, size, condition):
    basis = np.linalg.qr(rng.normal(size=(size, size)))[0]
    return basis @ np.diag(np.geomspace(1.0, condition, size)) @ basis.T


class MatrixGaussian(Target):
    """N(m, (F ⊗ G + τ I)⁻¹) for an array with the axes of F and G."""

    mean: jax.Array
    precision: jax.Array
    axes: tuple[int, int]

    @property
    def dim(self):
        return self.mean.shape[0]

    @property
    def layout(self):
        return Layout.like(jnp.zeros(self.axes))

    def log_prob(self, x, batch=None):
        return -0.5 * (x - self.mean) @ self.precision @ (x - self.mean)


def kronecker(a=6, b=4, prior=0.5, seed=0):
    rng = np.random.default_rng(seed)
    left, right = spd(rng, a, 100.0), spd(rng, b, 10.0)
    precision = np.kron(left, right) + prior * np.eye(a * b)
    target = MatrixGaussian(jnp.asarray(rng.normal(size=a * b)), jnp.asarray(precision), (a, b))
    return target, left, right


@pytest.mark.parametrize(
    ("shape", "rows", "cols"),
    [((10, 785), 10, 785), ((785, 10), 10, 785), ((5000, 20), 5000, 20), ((3, 4, 5), 12, 5), ((), 1, 1), ((7,), 1, 7)],
)
def test_the_longest_axis_that_is_rotated_has_the_columns(shape, rows, cols):
    rotation = identity_rotation(((2,), shape))
    view, (left, right) = rotation.views[1], rotation.factors[1]
    assert (view.start, view.rows, view.cols) == (2, rows, cols)
    assert (left is not None, right is not None) == (1 < rows <= MAX_AXIS, 1 < cols <= MAX_AXIS)


def test_nothing_to_rotate():
    assert identity_rotation(((), (1,), (MAX_AXIS + 1,))) is None
    assert not is_rotated(1)
    assert not is_rotated(MAX_AXIS + 1)


def as_matrix(rotation):
    return np.stack([rotation.apply(e) for e in jnp.eye(rotation.dim)], axis=1)


def measured_axes(target, mean, scale, num=4):
    """The axes after several measurements, each along those of the one before."""
    rotation, around = identity_rotation(array_shapes(target)), DiagonalMap(mean, scale)
    for k in range(num):
        sd, better = measure(jax.random.key(k), target, around, unit_scales(scale, rotation), rotation, None)
        rotation, last = better, rotation
    return sd, last


@pytest.mark.parametrize("axes", [(6, 9), (9, 6)])
def test_finds_the_eigenvectors_of_the_factors(axes, x64):
    """With the prior's τ I too: the precision is diagonal along the axes found, and no scale is too wide."""
    target, _, _ = kronecker(*axes)
    precision = np.asarray(target.precision)
    scale = jnp.asarray(np.diag(precision) ** -0.5)
    sd, rotation = measured_axes(target, target.mean, scale)
    axes = as_matrix(rotation)
    np.testing.assert_allclose(axes @ axes.T, np.eye(target.dim), atol=1e-12)

    def largest_cosine(matrix):
        cosine = matrix / np.sqrt(np.outer(np.diag(matrix), np.diag(matrix)))
        return np.abs(cosine - np.eye(target.dim)).max()

    rotated = axes.T @ precision @ axes
    exact = np.diag(rotated)
    # The noise of a cosine is about 0.03: random signs, 2048 products.
    assert largest_cosine(rotated) < 0.2 < 0.5 < largest_cosine(precision)
    unit = float(unit_scales(scale, rotation)[0])
    assert np.max(sd * unit * np.sqrt(exact)) < 1.05


def test_one_unit_for_an_array_with_two_axes(x64):
    rotation = identity_rotation(((2, 3), (4,)))
    scale = jnp.asarray(np.arange(1.0, 11.0))
    found = np.asarray(unit_scales(scale, rotation))
    np.testing.assert_allclose(found[:6], np.exp(np.mean(np.log(np.arange(1.0, 7.0)))))
    np.testing.assert_array_equal(found[6:], scale[6:])


def test_products_along_the_axes_give_the_diagonal(x64):
    """For a vector that is not rotated, random signs; for one that is, column by column: exact in a Gaussian."""
    rng = np.random.default_rng(5)
    precision = spd(rng, 5, 20.0)
    target = MatrixGaussian(jnp.zeros(5), jnp.asarray(precision), (1, 5))
    rotation = identity_rotation(((5,),))
    around = DiagonalMap(jnp.zeros(5), jnp.ones(5))
    sd, better = measure(jax.random.key(1), target, around, jnp.ones(5), rotation, None)
    np.testing.assert_allclose(sd, np.diag(precision) ** -0.5, rtol=1e-10)
    axes = as_matrix(better)
    rotated = axes.T @ precision @ axes
    np.testing.assert_allclose(rotated, np.diag(np.diag(rotated)), atol=1e-10)


def models(rng):
    inputs = rng.normal(size=(30, 3)) * [1.0, 3.0, 0.5]
    yield MultinomialRegression(inputs, rng.integers(0, 4, 30), num_classes=4, prior_scale=2.0)
    yield LogisticRegression(inputs, rng.integers(0, 2, 30), prior_scale=2.0)


def mean_hessian(model, points):
    return -np.mean([jax.hessian(model.log_prob)(x) for x in points], axis=0)


def orthogonal(rng, size):
    return np.linalg.qr(rng.normal(size=(size, size)))[0]


def test_blocks_in_closed_form_are_those_of_the_hessian(x64):
    rng = np.random.default_rng(4)
    multinomial, logistic = models(rng)
    points = jnp.asarray(rng.normal(size=(5, 12)))
    hessian = mean_hessian(multinomial, points).reshape(4, 3, 4, 3)
    rotation = orthogonal(rng, 4)
    expected = np.einsum("ji,hi,jkhl->ikl", rotation, rotation, hessian)
    np.testing.assert_allclose(multinomial.curvature_blocks(points, 0, 1, jnp.asarray(rotation)), expected, rtol=1e-9)
    np.testing.assert_allclose(
        multinomial.curvature_blocks(points, 0, 1, None), np.einsum("ikil->ikl", hessian), rtol=1e-9
    )
    rotation = orthogonal(rng, 3)
    expected = np.einsum("ji,hi,kjlh->ikl", rotation, rotation, hessian)
    np.testing.assert_allclose(
        multinomial.curvature_blocks(points, 0, 0, jnp.asarray(rotation)), expected, rtol=1e-8, atol=1e-10
    )
    np.testing.assert_allclose(
        multinomial.curvature_blocks(points, 0, 0, None), np.einsum("kili->ikl", hessian), rtol=1e-9
    )
    points = points[:, :3]
    expected = mean_hessian(logistic, points)
    np.testing.assert_allclose(logistic.curvature_blocks(points, 0, 0, None)[0], expected, rtol=1e-9)


def test_axes_from_the_closed_form(x64):
    """In them every block of a mixed row is diagonal, and so is the trace over the columns."""
    rng = np.random.default_rng(6)
    for model in models(rng):
        points, scale = jnp.asarray(rng.normal(size=(5, model.dim))), jnp.asarray(rng.uniform(0.5, 2.0, model.dim))
        rotation = identity_rotation(model.shapes)
        unit = unit_scales(scale, rotation)
        assert has_closed_form(model, rotation)
        sd, found = closed_form_axes(model, points, unit, rotation)
        axes = as_matrix(found)
        np.testing.assert_allclose(axes @ axes.T, np.eye(model.dim), atol=1e-12)
        rotated = axes.T @ (mean_hessian(model, points) * np.outer(unit, unit)) @ axes
        np.testing.assert_allclose(sd, np.diag(rotated) ** -0.5, rtol=1e-9)
        cols = model.shapes[0][rotation.views[0].axis]
        # (4, 3) is seen with the classes as columns, the longer axis: a block for every mixture of features.
        blocks = np.stack([rotated.reshape(4, 3, 4, 3)[:, i, :, i] for i in range(3)]) if cols == 4 else rotated[None]
        for block in blocks:
            np.testing.assert_allclose(block, np.diag(np.diag(block)), atol=1e-9)
        assert jax.tree.structure(per_row_identity(rotation)) == jax.tree.structure(found)
        np.testing.assert_allclose(as_matrix(per_row_identity(rotation)), np.eye(model.dim))


def test_who_has_a_closed_form(x64):
    rng = np.random.default_rng(7)
    multinomial, logistic = models(rng)
    assert not has_closed_form(kronecker()[0], identity_rotation(((6, 4),)))
    for model in (multinomial, logistic):
        assert has_closed_form(model, identity_rotation(model.shapes))

    class Half(MatrixGaussian, KnowsCurvature):
        @property
        def shapes(self):
            return (self.axes,)

        def curvature_blocks(self, points, array, axis, rotation):
            return None if axis == 0 else jnp.ones((4, 6, 6))

        def curvature_trace(self, points, array, axis):
            return jnp.ones((4, 4))

    half = Half(jnp.zeros(24), jnp.eye(24), (6, 4))
    with pytest.raises(ValueError, match=r"must return \(rows, columns, columns\) .* shape \(4, 6, 6\) .* got None"):
        closed_form_axes(half, jnp.zeros((1, 24)), jnp.ones(24), identity_rotation(half.shapes))


def test_traces_are_the_sums_of_blocks(x64):
    rng = np.random.default_rng(9)
    for model in models(rng):
        points = jnp.asarray(rng.normal(size=(4, model.dim)))
        for axis in range(len(model.shapes[0])):
            blocks = model.curvature_blocks(points, 0, axis, None)
            np.testing.assert_allclose(model.curvature_trace(points, 0, axis), blocks.sum(0), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("model", [MultinomialRegression, LogisticRegression])
def test_a_model_with_closed_forms_is_final(model):
    """Its score and curvature would be wrong for a subclass with another prior or likelihood."""
    with pytest.raises(TypeError, match=rf"^{model.__name__} is final, .*: derive Laplace from sivi.targets.BayesianM"):
        type("Laplace", (model,), {"log_prior": lambda self, x: -jnp.sum(jnp.abs(x))})


class HiddenSoftmax(Target):
    """A multinomial regression that does not say what its curvature is."""

    model: MultinomialRegression

    @property
    def dim(self):
        return self.model.dim

    @property
    def layout(self):
        return Layout.like(jnp.zeros(self.model.shapes[0]))

    def log_prob(self, x, batch=None):
        return self.model.log_prob(x)


def test_the_curvature_is_measured_close_by():
    """Of a softmax, whose curvature falls off with the distance; a step of many sds would see too little of it."""
    features = 300
    rng = np.random.default_rng(11)
    inputs = np.eye(features)[rng.integers(0, features, 3000)] * 3.0
    model = MultinomialRegression(inputs, rng.integers(0, 4, 3000), num_classes=4)
    target, rotation = HiddenSoftmax(model), identity_rotation(model.shapes)
    points = jnp.zeros((1, model.dim))
    exact = np.asarray(model.curvature_blocks(points, 0, 1, None))
    diagonal = np.stack([np.diag(block) for block in exact]).ravel()
    around = DiagonalMap(jnp.zeros(model.dim), jnp.asarray(0.1 * diagonal**-0.5))
    sd, _ = measure(jax.random.key(0), target, around, jnp.ones(model.dim), rotation, None)
    by_column = (np.asarray(sd) ** -2).reshape(4, features).mean(0) / diagonal.reshape(4, features).mean(0)
    np.testing.assert_allclose(np.median(by_column), 1.0, atol=0.15)


@pytest.mark.slow
def test_a_network_with_matrices_of_weights_has_coordinates():
    """Its density is not log-concave: curvature is negative in places, on average over whole columns too."""
    rng = np.random.default_rng(12)
    inputs, outputs = jnp.asarray(rng.normal(size=(60, 3))), jnp.asarray(rng.normal(size=60))

    def log_density(p):
        hidden = jnp.tanh(jnp.tanh(inputs @ p["w"]) @ p["w2"])
        prior = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(p))
        return -0.5 * jnp.sum((outputs - hidden @ p["v"]) ** 2) / 0.1**2 - 0.5 * prior

    like = {"v": jnp.zeros(10), "w": jnp.zeros((3, 10)), "w2": jnp.zeros((10, 10))}
    target = sivi.targets.LogDensity(log_density, like=like)
    warm = eqx.filter_jit(lambda key: gaussian_warmup(key, target, num_starts=2, num_steps=100, rank=8))
    for seed in range(2):
        affine = warm(jax.random.key(seed))
        assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(affine))


def test_warm_up_of_a_matrix_gaussian():
    """With no direction of its own, a diagonal in the rotated coordinates gives all standard deviations."""
    target, _, _ = kronecker(12, 5)
    sd = np.sqrt(np.diag(np.linalg.inv(np.asarray(target.precision, float))))
    errors = {}
    for name, shapes in {"rotated": array_shapes(target), "as it is": ((MAX_AXIS + 1,),)}.items():
        key = jax.random.key(0)
        starts = Starts(jnp.zeros((2, MAX_TRIES, 60)), target, None)
        affine, _ = fit_low_rank(key, key, target, starts, None, 300, 0, shapes)
        errors[name] = np.abs(np.sqrt(affine.covariance_diagonal) / sd - 1.0).max()
    assert errors["rotated"] < 0.1
    assert errors["as it is"] > 0.3


@pytest.mark.slow
def test_the_default_of_high_dimension_rotates_by_itself():
    target, _, _ = kronecker(20, 8)
    affine = gaussian_warmup(jax.random.key(0), target, num_starts=2, rank=8)
    assert isinstance(affine, RotatedMap)
    sd = np.sqrt(np.diag(np.linalg.inv(np.asarray(target.precision, float))))
    np.testing.assert_allclose(np.sqrt(affine.covariance_diagonal) / sd, 1.0, atol=0.06)
    np.testing.assert_allclose((affine.mean - target.mean) / sd, 0.0, atol=0.06)
