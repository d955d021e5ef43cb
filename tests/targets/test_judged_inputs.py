import numpy as np

from sivi.targets.judged_inputs import judged_inputs


def test_rows_gaps_and_beyond():
    """Half of the points are rows; others lie in the widest gap and beyond all rows."""
    rows = np.concatenate([np.linspace(-2.0, -1.0, 50), np.linspace(1.0, 2.0, 50)])[:, None]
    points = judged_inputs(rows, 64)
    is_row = np.isin(points, rows)
    assert is_row.sum() >= 32
    assert len(points) <= 64
    assert np.abs(points[~is_row]).min() < 0.05
    assert points.max() == 3.0
    assert points.min() == -3.0


def test_the_order_of_rows_does_not_matter_nor_do_copies():
    rows = np.random.default_rng(0).normal(size=(30, 4)) * [3.0, 1.0, 1.0, 0.5]
    points = judged_inputs(rows)
    shuffled = judged_inputs(rows[np.random.default_rng(1).permutation(30)])
    np.testing.assert_allclose(np.sort(shuffled, axis=0), np.sort(points, axis=0))
    twice = judged_inputs(np.repeat(rows[:3], 20, axis=0))
    assert len(np.unique(twice, axis=0)) == len(twice) <= 3 + 2 + 3


def test_few_rows_columns_without_variance_and_many_rows():
    np.testing.assert_array_equal(judged_inputs(np.zeros((5, 2))), [[0.0, 0.0]])
    two = judged_inputs(np.array([[-1.0, 0.0], [1.0, 0.0]]))
    assert two.tolist() == [[-1.0, 0.0], [1.0, 0.0], [0.0, 0.0], [-1.5, 0.0], [1.5, 0.0]]
    many = judged_inputs(np.random.default_rng(2).normal(size=(100_000, 3)), 64)
    assert len(many) == 64
    assert np.isfinite(many).all()
