"""Rotations along the axes of arrays, against dense matrices."""

import jax.numpy as jnp
import numpy as np

from sivi.coordinates.rotation import ArrayAsMatrix, AxisRotation


def orthogonal(rng, size):
    return np.linalg.qr(rng.normal(size=(size, size)))[0]


def test_a_rotation_is_a_kronecker_product(x64):
    rng = np.random.default_rng(1)
    a, b, c = (np.linalg.qr(rng.normal(size=(n, n)))[0] for n in (3, 2, 4))
    views = ArrayAsMatrix(0, (3, 2), 1), ArrayAsMatrix(6, (4,), 0), ArrayAsMatrix(10, (2,), 0)
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
    view = ArrayAsMatrix(1, (2, 3, 4), 1)
    v = jnp.asarray(np.concatenate([[7.0], array.ravel()]))
    matrix = view.matrix(v)
    np.testing.assert_array_equal(matrix, np.moveaxis(array, 1, 2).reshape(8, 3))
    np.testing.assert_array_equal(view.vector(matrix), array.ravel())
    np.testing.assert_array_equal(view.vector(view.matrix(jnp.stack([v, 2 * v]))), [array.ravel(), 2 * array.ravel()])


def test_a_rotation_with_separate_axes_for_every_row(x64):
    rng = np.random.default_rng(8)
    left, rights = orthogonal(rng, 3), np.stack([orthogonal(rng, 2) for _ in range(3)])
    for axis, order in ((1, np.arange(6)), (0, np.arange(6).reshape(2, 3).T.ravel())):
        shape = (3, 2) if axis == 1 else (2, 3)
        rotation = AxisRotation((ArrayAsMatrix(0, shape, axis),), ((jnp.asarray(left), jnp.asarray(rights)),))
        as_seen = np.einsum("ij,jkl->ikjl", left, rights).reshape(6, 6)
        dense = np.zeros((6, 6))
        dense[np.ix_(order, order)] = as_seen
        v = jnp.asarray(rng.normal(size=6))
        np.testing.assert_allclose(rotation.apply(v), dense @ v, atol=1e-12)
        np.testing.assert_allclose(rotation.undo(v), dense.T @ v, atol=1e-12)
        np.testing.assert_allclose(rotation.variances(v**2), np.diag(dense @ np.diag(v**2) @ dense.T), atol=1e-12)
