import io

import numpy as np

from sivi import _progress
from sivi._progress import ProgressBar


def test_shows_the_mean_of_each_metric_and_follows_a_run_that_ends_early(monkeypatch):
    terminal = io.StringIO()
    make = _progress.tqdm
    monkeypatch.setattr(_progress, "tqdm", lambda **given: make(**given | {"file": terminal, "disable": False}))
    with ProgressBar(100, 0, True) as bar:
        bar.update(40, {"loss": np.array([1.0, 3.0]), "beta": np.array([])}, 60)
        bar.update(20, {"loss": np.array([0.5])})
    last = terminal.getvalue().split("\r")[-1]
    assert "60/60" in last
    assert "loss=0.5" in last
    assert "beta" not in last


def test_is_silent_without_a_terminal(capsys):
    with ProgressBar(10, 0, True) as bar:
        bar.update(10, {"loss": np.array([1.0])})
    assert capsys.readouterr() == ("", "")
