"""Ctrl-C at eight random moments of `sivi fit` and of a script: a small campaign of `benchmarks/interrupts.py`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "interrupts.py"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="runs are forks")
def test_no_interrupt_is_lost(tmp_path):
    out = tmp_path / "interrupts.json"
    line = [sys.executable, str(SCRIPT), "--runs", "8", "--kinds", "command", "terminal", "script", "--seed", "1"]
    run = subprocess.run([*line, "--out", str(out)], capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    found = json.loads(out.read_text())
    assert set(found["summary"]) <= {"ended", "too late"}, run.stdout
    assert found["summary"]["ended"] >= 4
    assert found["campaigns"][0]["bad_files"] == []
