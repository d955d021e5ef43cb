import numpy as np
import pytest

from local_data import tiny
from sivi.datasets import Dataset, Scale, Split, with_intercept


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    inputs = np.column_stack([np.ones(50), rng.normal(3.0, [2.0, 0.1], size=(50, 2))])
    return Dataset(tiny().about, inputs, 10.0 + inputs[:, 1], np.zeros((2, 50), bool), {})


class TestRandomSplit:
    def test_partition_in_the_order_of_the_rows(self, data):
        split = data.split(3, test_fraction=0.2)
        assert (len(split.train[0]), len(split.test[0])) == (40, 10)
        rows = [np.flatnonzero(np.isin(data.inputs[:, 1], part[0][:, 1])) for part in (split.train, split.test)]
        np.testing.assert_array_equal(np.sort(np.concatenate(rows)), np.arange(50))
        for part, where in zip((split.train, split.test), rows, strict=True):
            np.testing.assert_array_equal(part[0], data.inputs[where])
            np.testing.assert_array_equal(part[1], data.outputs[where])

    def test_the_seed_decides(self, data):
        def rows(seed):
            return data.split(seed).test[1].tolist()

        assert rows(1) == rows(1)
        assert rows(1) != rows(2)
        # These five rows, in every version of NumPy: its legacy generator is frozen.
        np.testing.assert_array_equal(
            np.flatnonzero(np.isin(data.outputs, rows(0))), np.sort(np.random.RandomState(0).permutation(50)[45:])
        )

    def test_every_row_is_as_likely(self, data):
        counts = sum(np.isin(data.outputs, data.split(seed, 0.3).test[1]) for seed in range(400))
        z = (counts - 120) / np.sqrt(400 * 0.3 * 0.7)
        assert np.abs(z).max() < 4.9  # 50 rows: false-failure rate below 1e-4

    def test_never_all_rows_and_never_none(self, data):
        assert len(data.split(0, 0.001).test[0]) == 1
        assert len(data.split(0, 0.999).train[0]) == 1

    def test_bad_input(self, data):
        for fraction in (0.0, 1.0, -0.1, 2.0):
            with pytest.raises(ValueError, match="test_fraction must be"):
                data.split(0, fraction)
        with pytest.raises(ValueError, match="seed must be at least 0; got -1"):
            data.split(-1)

    def test_train_and_test_are_of_one_published_split(self, data):
        for name in ("train", "test"):
            with pytest.raises(ValueError, match=r"^tiny has 2 published splits, .* choose rows with split\(seed\)"):
                getattr(data, name)


class TestStandardised:
    def test_by_training_rows_alone(self, data):
        split = data.split(0, 0.3)
        scaled = split.standardised()
        np.testing.assert_allclose(scaled.train[0][:, 1:].mean(0), 0.0, atol=1e-12)
        np.testing.assert_allclose(scaled.train[0][:, 1:].std(0), 1.0)
        np.testing.assert_allclose([scaled.train[1].mean(), scaled.train[1].std()], [0.0, 1.0], atol=1e-12)
        mean, sd = split.train[0][:, 1:].mean(0), split.train[0][:, 1:].std(0)
        np.testing.assert_allclose(scaled.test[0][:, 1:], (split.test[0][:, 1:] - mean) / sd)
        # Other rows for testing change nothing about the scale.
        moved = Split(split.train, (split.test[0] + 100.0, split.test[1])).standardised()
        np.testing.assert_array_equal(moved.train[0], scaled.train[0])

    def test_a_constant_column_stays(self, data):
        scaled = data.split(0).standardised()
        np.testing.assert_array_equal(scaled.train[0][:, 0], 1.0)
        np.testing.assert_array_equal(scaled.test[0][:, 0], 1.0)

    def test_and_back(self, data):
        split = data.split(0)
        scaled = split.standardised()
        np.testing.assert_allclose(scaled.input_scale.undo(scaled.test[0]), split.test[0], rtol=1e-12)
        np.testing.assert_allclose(scaled.output_scale.undo(scaled.test[1]), split.test[1], rtol=1e-12)
        assert scaled.output_scale.sd.shape == ()

    def test_log_density_in_the_units_of_the_outputs(self, data):
        """N(u; 0, 1) and N(y; mean, sd²) differ by log sd, as the docstring has it."""
        from scipy.stats import norm

        split = data.split(0)
        scaled = split.standardised()
        scale = scaled.output_scale
        there = norm.logpdf(scaled.test[1]) - np.log(scale.sd)
        np.testing.assert_allclose(there, norm.logpdf(split.test[1], scale.mean, scale.sd))

    def test_labels_stay(self, data):
        split = Split.of(data.inputs, np.arange(50) % 3, np.arange(50) < 5)
        with pytest.raises(ValueError, match="outputs must be False for a split with labels; got True"):
            split.standardised()
        scaled = split.standardised(outputs=False)
        np.testing.assert_array_equal(scaled.train[1], split.train[1])
        assert scaled.output_scale is None

    def test_only_once(self, data):
        with pytest.raises(ValueError, match=r"^split is standardised already\.$"):
            data.split(0).standardised().standardised()

    def test_single_precision_stays(self):
        values = np.float32([[1.0], [2.0], [4.0]])
        scale = Scale.of(values)
        assert scale.apply(values).dtype == np.float32
        np.testing.assert_allclose(scale.apply(values)[:, 0], [-1.0690, -0.2673, 1.3363], atol=1e-4)


def test_rows_that_lie_together_are_not_copied():
    inputs, outputs = np.zeros((5, 2)), np.zeros(5)
    split = Split.of(inputs, outputs, np.arange(5) >= 3)
    assert all(np.shares_memory(part[0], inputs) for part in (split.train, split.test))
    assert len(Split.of(inputs, outputs, np.array([True, False, True, False, False])).test[0]) == 2


def test_intercept_first():
    inputs = with_intercept(np.full((2, 2), 3.0, np.float32))
    np.testing.assert_array_equal(inputs, [[1.0, 3.0, 3.0]] * 2)
    assert inputs.dtype == np.float32


def test_a_constant_column_may_become_zeros():
    values = np.array([[5.0, 1.0], [5.0, 3.0]])
    np.testing.assert_array_equal(Scale.of(values).apply(values), [[5.0, -1.0], [5.0, 1.0]])
    centred = Scale.of(values, centre_constant=True)
    np.testing.assert_array_equal(centred.apply(values), [[0.0, -1.0], [0.0, 1.0]])
    np.testing.assert_array_equal(centred.undo(centred.apply(values)), values)
