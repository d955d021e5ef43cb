"""What the command line shows of draws: tables and figures of whatever can be shown."""

import numpy as np
import pytest

from sivi._layout import Layout
from sivi.cli._draws import save_marginals_and_pairs, summary


@pytest.fixture
def draws():
    return np.random.default_rng(0).normal(size=(1, 200, 60))


def test_a_long_table_is_cut(draws):
    text = summary(Layout.vector(60), draws)
    assert "x[0]" in text
    assert text.endswith("more in the file of draws)")


@pytest.mark.parametrize(
    ("columns", "files"),
    [
        (lambda x: np.ones((200, 2)), []),
        (lambda x: np.stack([x[:, 0], np.full(200, 3.0)], axis=1), ["marginals.png"]),
        (lambda x: np.stack([x[:, 0], 2.0 * x[:, 0]], axis=1), ["marginals.png"]),
        (lambda x: np.stack([x[:, 0], np.where(x[:, 1] > 3.0, 0.0, np.nan)], axis=1), ["marginals.png"]),
        (lambda x: x, ["marginals.png", "pairs.png"]),
    ],
    ids=["constant", "one of two is constant", "a multiple", "not finite", "many"],
)
def test_figures_show_what_has_a_density(draws, tmp_path, columns, files):
    points = columns(draws[0])
    assert save_marginals_and_pairs(Layout.vector(points.shape[1]), points[None], tmp_path) == files
    assert sorted(file.name for file in tmp_path.iterdir()) == files
