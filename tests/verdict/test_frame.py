import jax
import numpy as np

from sivi.coordinates import LowRankMap
from sivi.verdict import limits
from sivi.verdict.frame import frame_of
from sivi.verdict.maps import to_u


def test_axes_of_many_unknowns_are_not_chosen_by_noise():
    # Along eigenvectors of least spread, draws of independent unknowns have a variance of (1 − √(dim / n))², or 0.31.
    dim, num = 200, 1000
    draws = np.random.default_rng(0).normal(size=(num, dim))
    affine = frame_of(draws).affine
    assert isinstance(affine, LowRankMap)
    np.testing.assert_allclose(affine.stretch, 1.0)
    u = to_u(affine, draws)
    np.testing.assert_allclose(u.var(0), 1.0, atol=0.02)


def test_a_direction_of_most_spread_is_stretched():
    dim, num = 200, 2000
    rng = np.random.default_rng(1)
    direction = np.full(dim, dim**-0.5)
    draws = rng.normal(size=(num, dim)) + 5.0 * rng.normal(size=(num, 1)) * direction
    affine = frame_of(draws).affine
    assert isinstance(affine, LowRankMap)
    assert affine.rank == limits.MAX_RANK
    columns = np.asarray(jax.vmap(lambda v: affine.forward(v) - affine.mean)(np.eye(dim, dtype=np.float32)))
    covariance = columns.T @ columns
    np.testing.assert_allclose(direction @ covariance @ direction, 26.0, rtol=0.1)
