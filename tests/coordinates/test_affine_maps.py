import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sivi._storage import codec
from sivi.coordinates import AffineMap, DenseMap, DiagonalMap, IdentityMap, LowRankMap, RotatedMap
from sivi.coordinates.given import as_map
from sivi.coordinates.rotation import ArrayAsMatrix, AxisRotation

DIM, RANK = 7, 3


def orthonormal(seed=0, dim=DIM, rank=RANK):
    return jnp.asarray(np.linalg.qr(np.random.default_rng(seed).normal(size=(dim, rank)))[0])


def maps():
    rng = np.random.default_rng(1)
    mean, scale = jnp.asarray(rng.normal(size=DIM)), jnp.asarray(rng.uniform(0.5, 2.0, DIM))
    stretch = jnp.array([30.0, 0.02, 1.5])
    return {
        "identity": IdentityMap(DIM),
        "diagonal": DiagonalMap(mean, scale.at[2].multiply(-1.0)),
        "dense": DenseMap(mean, jnp.asarray(rng.normal(size=(DIM, DIM)))),
        "low rank": LowRankMap(mean, scale, orthonormal(), stretch),
        "low rank, first axes": LowRankMap(mean, scale, jnp.eye(DIM)[:, :RANK], stretch),
        "low rank, last axes": LowRankMap(mean, scale, jnp.eye(DIM)[:, -RANK:], stretch),
        "rotated": RotatedMap(mean, scale, rotation(), LowRankMap(0.0 * mean, 2.0 * scale, orthonormal(), stretch)),
        "rotated, diagonal": RotatedMap(mean, scale, rotation(), DiagonalMap(0.0 * mean, 2.0 * scale)),
        "rotated, axes by row": RotatedMap(
            mean, scale, axes_by_row(), LowRankMap(0.0 * mean, scale, orthonormal(), stretch)
        ),
    }


def rotation():
    views = ArrayAsMatrix(0, (3, 2), 1), ArrayAsMatrix(6, (1,), 0)
    return AxisRotation(views, ((orthonormal(6, 3, 3), orthonormal(7, 2, 2)), (None, None)))


def axes_by_row():
    """Every row has separate axes."""
    views = ArrayAsMatrix(0, (3, 2), 1), ArrayAsMatrix(6, (1,), 0)
    each = jnp.stack([orthonormal(seed, 2, 2) for seed in (8, 9, 10)])
    return AxisRotation(views, ((orthonormal(6, 3, 3), each), (None, None)))


NAMES = ("identity", "diagonal", "dense", "low rank", "low rank, first axes", "low rank, last axes")
ROTATED = ("rotated", "rotated, diagonal", "rotated, axes by row")
ALL = (*NAMES, *ROTATED)


@pytest.mark.parametrize("name", ALL)
def test_every_member_agrees_with_the_dense_matrix(x64, name):
    affine = maps()[name]
    u, x, score = (jnp.asarray(np.random.default_rng(seed).normal(size=DIM)) for seed in (2, 3, 4))
    L = np.stack([affine.forward(e) - affine.mean for e in jnp.eye(DIM)], axis=1)
    np.testing.assert_allclose(affine.forward(u), affine.mean + L @ u, atol=1e-12)
    np.testing.assert_allclose(affine.inverse(x), np.linalg.solve(L, x - affine.mean), atol=1e-10)
    np.testing.assert_allclose(affine.inverse(affine.forward(u)), u, atol=1e-12)
    np.testing.assert_allclose(affine.pull_back(score), L.T @ score, atol=1e-12)
    np.testing.assert_allclose(affine.log_det, np.linalg.slogdet(L)[1], atol=1e-12)
    np.testing.assert_allclose(affine.covariance_diagonal, np.diag(L @ L.T), rtol=1e-10)
    assert affine.dim == DIM


@pytest.mark.parametrize("name", NAMES[3:])
def test_low_rank_covariance_and_first_coordinates(x64, name):
    """L Lᵀ = diag(s)(I + W(a² − 1)Wᵀ)diag(s), and u₁…u_r run along the directions."""
    affine = maps()[name]
    W = {"low rank": orthonormal(), NAMES[4]: jnp.eye(DIM)[:, :RANK], NAMES[5]: jnp.eye(DIM)[:, -RANK:]}[name]
    np.testing.assert_allclose(affine.directions, W, atol=1e-13)
    L = np.stack([affine.forward(e) - affine.mean for e in jnp.eye(DIM)], axis=1)
    np.testing.assert_allclose(L[:, :RANK], affine.scale[:, None] * W * affine.stretch, atol=1e-13)
    inner = np.eye(DIM) + W @ np.diag(affine.stretch**2 - 1.0) @ W.T
    expected = affine.scale[:, None] * inner * affine.scale
    np.testing.assert_allclose(L @ L.T, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", [*NAMES[1:4], *ROTATED])
def test_maps_stack(name):
    one = maps()[name]
    other = type(one)(*_other_parts(one))
    stack = jax.tree.map(lambda *leaves: jnp.stack(leaves), one, other)
    u = jnp.arange(1.0, DIM + 1.0)
    images = jax.vmap(lambda affine: affine.forward(u))(stack)
    np.testing.assert_allclose(images, jnp.stack([one.forward(u), other.forward(u)]), rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(lambda a: a.log_det)(stack), [one.log_det, other.log_det], rtol=1e-6)


def _other_parts(affine):
    if isinstance(affine, DiagonalMap):
        return 2.0 * affine.mean, -affine.scale
    if isinstance(affine, DenseMap):
        return -affine.mean, affine.matrix.T
    if isinstance(affine, RotatedMap):
        return -affine.mean, 2.0 * affine.scale, affine.rotation, affine.inner
    return -affine.mean, affine.scale, orthonormal(5).astype(affine.mean.dtype), affine.stretch


@pytest.mark.parametrize("name", [*NAMES[:4], *ROTATED])
def test_maps_are_stored_by_their_fields(name):
    affine, arrays = maps()[name], []
    node = codec.encode(affine, arrays)
    again = codec.decode(node, arrays)
    assert type(again) is type(affine)
    u = jnp.arange(1.0, DIM + 1.0)
    np.testing.assert_array_equal(again.forward(u), affine.forward(u))
    np.testing.assert_array_equal(again.inverse(u), affine.inverse(u))
    np.testing.assert_array_equal(again.log_det, affine.log_det)


def test_from_a_users_pair():
    vector = as_map(([1, 2], [3.0, 0.5]), 2)
    assert isinstance(vector, DiagonalMap)
    np.testing.assert_array_equal(vector.forward(jnp.ones(2)), [4.0, 2.5])
    matrix = as_map((np.zeros(2), np.array([[1.0, 1.0], [0.0, 1e-12]])), 2)  # units do not matter
    assert isinstance(matrix, DenseMap)
    np.testing.assert_allclose(matrix.inverse(matrix.forward(jnp.array([3.0, 4.0]))), [3.0, 4.0], rtol=1e-5)
    assert as_map(matrix, 2) is matrix
    assert isinstance(vector, AffineMap)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("auto?", r"whiten must be a pair \(m, L\).*got 'auto\?'"),
        ((1, 2, 3), "whiten must be a pair"),
        (([0.0], [1.0, 1.0]), r"m must have shape \(2,\); got \(1,\)"),
        (([0.0, 0.0], [1.0, 1.0, 1.0]), r"L must have shape \(2,\) or \(2, 2\); got \(3,\)"),
        (([0.0, np.nan], [1.0, 1.0]), "m must be finite; got 1 that"),
        (([0.0, 0.0], [1.0, np.inf]), "L must be finite"),
        (([0.0, 0.0], [1.0, 0.0]), "must have no zeros; got one at 1"),
        (([0.0, 0.0], [[1.0, 2.0], [2.0, 4.0]]), "L must be invertible in float32; got a matrix with condition"),
        (([0.0, 0.0], [[1.0, 2.0], [0.0, 0.0]]), "L must be invertible"),
        ((["a", "b"], [1.0, 1.0]), "m must be an array of numbers"),
        (IdentityMap(3), "map of the target's dim, 2; got one of 3"),
    ],
)
def test_bad_pairs(as_a_user, value, message):
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        as_map(value, 2)
    assert "whiten" in str(caught.value)
