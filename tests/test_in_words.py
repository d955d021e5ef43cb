"""What `print(posterior)` says, and what a posterior remembers beside its fit."""

from dataclasses import replace

import numpy as np

import sivi
from sivi.constraints import positive

LIKE = {"tau": positive(), "w": np.zeros((2, 3))}


def log_density(p):
    return -0.5 * (p["w"] ** 2).sum() - 0.5 * (p["tau"] - 2.0) ** 2


def test_the_last_verdict_is_remembered(monkeypatch):
    posterior = sivi.fit(log_density, like=LIKE, num_steps=5, whiten=None, progress=False)
    assert posterior.verdict is None
    verdict = sivi.Verdict((), (), sivi.verdict.result.Cost(0.0, 0), (), posterior.layout, *[np.zeros((1, 7))] * 2)
    monkeypatch.setattr("sivi.verdict.check.check", lambda *args, **kwargs: verdict)
    assert posterior.check() is posterior.verdict is verdict
    assert str(posterior).splitlines()[4] == f"  verdict: {verdict.level}"
    assert replace(posterior).verdict is verdict
