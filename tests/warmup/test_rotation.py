"""Turning coordinates along the axes of arrays: against Gaussians whose precision is a Kronecker product."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sivi
from sivi._affine import DiagonalMap, RotatedMap
from sivi._rotation import AxisRotation, AxisView
from sivi.targets import LogisticRegression, MultinomialRegression, Target
from sivi.warmup import gaussian_warmup
from sivi.warmup.draws import Rows
from sivi.warmup.low_rank import fit_low_rank
from sivi.warmup.rotation import MAX_AXIS, is_turned, known_axes, knows_axes, measure, no_rotation, own_axes, units


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
    def shapes(self):
        return (self.axes,)

    def log_prob(self, x, batch=None):
        return -0.5 * (x - self.mean) @ self.precision @ (x - self.mean)


def kronecker(a=6, b=4, prior=0.5, seed=0):
    rng = np.random.default_rng(seed)
    left, right = spd(rng, a, 100.0), spd(rng, b, 10.0)
    precision = np.kron(left, right) + prior * np.eye(a * b)
    target = MatrixGaussian(jnp.asarray(rng.normal(size=a * b)), jnp.asarray(precision), (a, b))
    return target, left, right


def test_a_rotation_is_a_kronecker_product(x64):
    rng = np.random.default_rng(1)
    a, b, c = (np.linalg.qr(rng.normal(size=(n, n)))[0] for n in (3, 2, 4))
    views = AxisView(0, (3, 2), 1), AxisView(6, (4,), 0), AxisView(10, (2,), 0)
    rotation = AxisRotation(views, ((jnp.asarray(a), jnp.asarray(b)), (None, jnp.asarray(c)), (None, None)))
    dense = np.zeros((12, 12))
    dense[:6, :6], dense[6:10, 6:10], dense[10:, 10:] = np.kron(a, b), c, np.eye(2)
    v = jnp.asarray(rng.normal(size=12))
    np.testing.assert_allclose(rotation.apply(v), dense @ v, atol=1e-12)
    np.testing.assert_allclose(rotation.undo(v), dense.T @ v, atol=1e-12)
    np.testing.assert_allclose(rotation.variances(v**2), np.diag(dense @ np.diag(v**2) @ dense.T), atol=1e-12)
    assert rotation.dim == 12


def test_another_axis_becomes_that_of_the_columns(x64):
    """An array of three axes is a matrix whose columns are the middle one."""
    rng = np.random.default_rng(2)
    array = rng.normal(size=(2, 3, 4))
    view = AxisView(1, (2, 3, 4), 1)
    v = jnp.asarray(np.concatenate([[7.0], array.ravel()]))
    matrix = view.matrix(v)
    np.testing.assert_array_equal(matrix, np.moveaxis(array, 1, 2).reshape(8, 3))
    np.testing.assert_array_equal(view.vector(matrix), array.ravel())
    np.testing.assert_array_equal(view.vector(view.matrix(jnp.stack([v, 2 * v]))), [array.ravel(), 2 * array.ravel()])


@pytest.mark.parametrize(
    ("shape", "rows", "cols"),
    [((10, 785), 10, 785), ((785, 10), 10, 785), ((5000, 20), 5000, 20), ((3, 4, 5), 12, 5), ((), 1, 1), ((7,), 1, 7)],
)
def test_the_longest_axis_that_is_turned_has_the_columns(shape, rows, cols):
    rotation = no_rotation(((2,), shape))
    view, (left, right) = rotation.views[1], rotation.factors[1]
    assert (view.start, view.rows, view.cols) == (2, rows, cols)
    assert (left is not None, right is not None) == (1 < rows <= MAX_AXIS, 1 < cols <= MAX_AXIS)


def test_nothing_to_turn():
    assert no_rotation(((), (1,), (MAX_AXIS + 1,))) is None
    assert not is_turned(1)
    assert not is_turned(MAX_AXIS + 1)


def as_matrix(rotation):
    return np.stack([rotation.apply(e) for e in jnp.eye(rotation.dim)], axis=1)


def turns(target, mean, scale, num=4):
    """The axes after several measurements, each along those of the one before."""
    rotation, around = no_rotation(target.shapes), DiagonalMap(mean, scale)
    rows = Rows.of(jax.random.key(0), target, None, 10)
    for k in range(num):
        sd, better = measure(jax.random.key(k), target, around, units(scale, rotation), rotation, rows)
        rotation, last = better, rotation
    return sd, last


@pytest.mark.parametrize("axes", [(6, 9), (9, 6)])
def test_finds_the_eigenvectors_of_the_factors(axes, x64):
    """With the prior's τ I too: the precision is diagonal along the axes found, and no scale is too wide."""
    target, _, _ = kronecker(*axes)
    precision = np.asarray(target.precision)
    scale = jnp.asarray(np.diag(precision) ** -0.5)
    sd, rotation = turns(target, target.mean, scale)
    turned = as_matrix(rotation)
    np.testing.assert_allclose(turned @ turned.T, np.eye(target.dim), atol=1e-12)

    def largest_cosine(matrix):
        cosine = matrix / np.sqrt(np.outer(np.diag(matrix), np.diag(matrix)))
        return np.abs(cosine - np.eye(target.dim)).max()

    rotated = turned.T @ precision @ turned
    exact = np.diag(rotated)
    # The noise of a cosine is about 0.03: random signs, 2048 products.
    assert largest_cosine(rotated) < 0.2 < 0.5 < largest_cosine(precision)
    unit = float(units(scale, rotation)[0])
    assert np.max(sd * unit * np.sqrt(exact)) < 1.05


def test_one_unit_for_an_array_with_two_axes(x64):
    rotation = no_rotation(((2, 3), (4,)))
    scale = jnp.asarray(np.arange(1.0, 11.0))
    found = np.asarray(units(scale, rotation))
    np.testing.assert_allclose(found[:6], np.exp(np.mean(np.log(np.arange(1.0, 7.0)))))
    np.testing.assert_array_equal(found[6:], scale[6:])


def test_products_along_the_axes_give_the_diagonal(x64):
    """For a vector that is not turned, random signs; for one that is, column by column: exact in a Gaussian."""
    rng = np.random.default_rng(5)
    precision = spd(rng, 5, 20.0)
    target = MatrixGaussian(jnp.zeros(5), jnp.asarray(precision), (1, 5))
    rotation = no_rotation(((5,),))
    around = DiagonalMap(jnp.zeros(5), jnp.ones(5))
    rows = Rows.of(jax.random.key(0), target, None, 10)
    sd, better = measure(jax.random.key(1), target, around, jnp.ones(5), rotation, rows)
    np.testing.assert_allclose(sd, np.diag(precision) ** -0.5, rtol=1e-10)
    turned = as_matrix(better)
    rotated = turned.T @ precision @ turned
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
    turn = orthogonal(rng, 4)
    expected = np.einsum("ji,hi,jkhl->ikl", turn, turn, hessian)
    np.testing.assert_allclose(multinomial.curvature_blocks(points, 0, 1, jnp.asarray(turn)), expected, rtol=1e-9)
    np.testing.assert_allclose(
        multinomial.curvature_blocks(points, 0, 1, None), np.einsum("ikil->ikl", hessian), rtol=1e-9
    )
    turn = orthogonal(rng, 3)
    expected = np.einsum("ji,hi,kjlh->ikl", turn, turn, hessian)
    np.testing.assert_allclose(
        multinomial.curvature_blocks(points, 0, 0, jnp.asarray(turn)), expected, rtol=1e-8, atol=1e-10
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
        rotation = no_rotation(model.shapes)
        unit = units(scale, rotation)
        assert knows_axes(model, rotation)
        sd, found = known_axes(model, points, unit, rotation)
        turned = as_matrix(found)
        np.testing.assert_allclose(turned @ turned.T, np.eye(model.dim), atol=1e-12)
        rotated = turned.T @ (mean_hessian(model, points) * np.outer(unit, unit)) @ turned
        np.testing.assert_allclose(sd, np.diag(rotated) ** -0.5, rtol=1e-9)
        cols = model.shapes[0][rotation.views[0].axis]
        # (4, 3) is seen with the classes as columns, the longer axis: a block for every mixture of features.
        blocks = np.stack([rotated.reshape(4, 3, 4, 3)[:, i, :, i] for i in range(3)]) if cols == 4 else rotated[None]
        for block in blocks:
            np.testing.assert_allclose(block, np.diag(np.diag(block)), atol=1e-9)
        assert jax.tree.structure(own_axes(rotation)) == jax.tree.structure(found)
        np.testing.assert_allclose(as_matrix(own_axes(rotation)), np.eye(model.dim))


def test_who_has_a_closed_form(x64):
    rng = np.random.default_rng(7)
    multinomial, logistic = models(rng)
    assert not knows_axes(kronecker()[0], no_rotation(((6, 4),)))
    for model in (multinomial, logistic):
        assert knows_axes(model, no_rotation(model.shapes))

    class Half(MatrixGaussian):
        def curvature_blocks(self, points, array, axis, turn):
            return None if axis == 1 else jnp.ones((4, 6, 6))

    half = Half(jnp.zeros(24), jnp.eye(24), (6, 4))
    with pytest.raises(ValueError, match=r"must return \(rows, columns, columns\) .*, it gave None"):
        known_axes(half, jnp.zeros((1, 24)), jnp.ones(24), no_rotation(half.shapes))


def test_traces_are_the_sums_of_blocks(x64):
    rng = np.random.default_rng(9)
    for model in models(rng):
        points = jnp.asarray(rng.normal(size=(4, model.dim)))
        for axis in range(len(model.shapes[0])):
            blocks = model.curvature_blocks(points, 0, axis, None)
            np.testing.assert_allclose(model.curvature_trace(points, 0, axis), blocks.sum(0), rtol=1e-10, atol=1e-10)
    assert kronecker()[0].curvature_trace(jnp.zeros((1, 24)), 0, 0) is None


def test_a_subclass_with_another_prior_or_likelihood_has_no_closed_form(x64):
    rng = np.random.default_rng(10)

    class Laplace(MultinomialRegression):
        def log_prior(self, x):
            return -jnp.sum(jnp.abs(x))

    class Tempered(MultinomialRegression):
        def log_likelihoods(self, x, data):
            return 0.5 * super().log_likelihoods(x, data)

    class LaplaceLogistic(LogisticRegression):
        def log_prior(self, x):
            return -jnp.sum(jnp.abs(x))

    inputs = rng.normal(size=(30, 3))
    for kind in (Laplace, Tempered, LaplaceLogistic):
        model = kind(inputs, np.arange(30) % 2)
        x = jnp.asarray(rng.normal(size=model.dim))
        for batch in (None, jnp.arange(5)):
            np.testing.assert_allclose(model.score(x, batch), jax.grad(model.log_prob)(x, batch), rtol=1e-9)
        assert model.curvature_blocks(x[None], 0, 0, None) is None
        assert model.curvature_trace(x[None], 0, 0) is None
        assert not knows_axes(model, no_rotation(model.shapes))


class HiddenSoftmax(Target):
    """A multinomial regression that does not say what its curvature is."""

    model: MultinomialRegression

    @property
    def dim(self):
        return self.model.dim

    @property
    def shapes(self):
        return self.model.shapes

    def log_prob(self, x, batch=None):
        return self.model.log_prob(x)


def test_the_curvature_is_measured_close_by():
    """Of a softmax, whose curvature falls off with the distance; a step of many sds would see too little of it."""
    features = 300
    rng = np.random.default_rng(11)
    inputs = np.eye(features)[rng.integers(0, features, 3000)] * 3.0
    model = MultinomialRegression(inputs, rng.integers(0, 4, 3000), num_classes=4)
    target, rotation = HiddenSoftmax(model), no_rotation(model.shapes)
    points = jnp.zeros((1, model.dim))
    exact = np.asarray(model.curvature_blocks(points, 0, 1, None))
    diagonal = np.stack([np.diag(block) for block in exact]).ravel()
    around = DiagonalMap(jnp.zeros(model.dim), jnp.asarray(0.1 * diagonal**-0.5))
    rows = Rows.of(jax.random.key(0), target, None, 10)
    sd, _ = measure(jax.random.key(0), target, around, jnp.ones(model.dim), rotation, rows)
    by_column = (np.asarray(sd) ** -2).reshape(4, features).mean(0) / diagonal.reshape(4, features).mean(0)
    np.testing.assert_allclose(np.median(by_column), 1.0, atol=0.15)


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


def test_a_rotation_with_axes_of_its_own_for_every_row(x64):
    rng = np.random.default_rng(8)
    left, rights = orthogonal(rng, 3), np.stack([orthogonal(rng, 2) for _ in range(3)])
    for axis, order in ((1, np.arange(6)), (0, np.arange(6).reshape(2, 3).T.ravel())):
        shape = (3, 2) if axis == 1 else (2, 3)
        rotation = AxisRotation((AxisView(0, shape, axis),), ((jnp.asarray(left), jnp.asarray(rights)),))
        as_seen = np.einsum("ij,jkl->ikjl", left, rights).reshape(6, 6)
        dense = np.zeros((6, 6))
        dense[np.ix_(order, order)] = as_seen
        v = jnp.asarray(rng.normal(size=6))
        np.testing.assert_allclose(rotation.apply(v), dense @ v, atol=1e-12)
        np.testing.assert_allclose(rotation.undo(v), dense.T @ v, atol=1e-12)
        np.testing.assert_allclose(rotation.variances(v**2), np.diag(dense @ np.diag(v**2) @ dense.T), atol=1e-12)


def test_warm_up_of_a_matrix_gaussian():
    """With no direction of its own, a diagonal in the turned coordinates gives all standard deviations."""
    target, _, _ = kronecker(12, 5)
    sd = np.sqrt(np.diag(np.linalg.inv(np.asarray(target.precision, float))))
    errors = {}
    for name, shapes in {"turned": target.shapes, "as it is": ((MAX_AXIS + 1,),)}.items():
        key = jax.random.key(0)
        rows = Rows.of(key, target, None, 300)
        affine = fit_low_rank(key, key, target, jnp.zeros((2, 60)), rows, 300, 0, shapes)
        errors[name] = np.abs(np.sqrt(affine.covariance_diagonal) / sd - 1.0).max()
    assert errors["turned"] < 0.1
    assert errors["as it is"] > 0.3


def test_the_default_of_high_dimension_turns_by_itself():
    target, _, _ = kronecker(20, 8)
    affine = gaussian_warmup(jax.random.key(0), target, num_starts=2, rank=8)
    assert isinstance(affine, RotatedMap)
    sd = np.sqrt(np.diag(np.linalg.inv(np.asarray(target.precision, float))))
    np.testing.assert_allclose(np.sqrt(affine.covariance_diagonal) / sd, 1.0, atol=0.06)
    np.testing.assert_allclose((affine.mean - target.mean) / sd, 0.0, atol=0.06)
