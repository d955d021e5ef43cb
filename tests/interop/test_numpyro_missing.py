"""Without NumPyro; what needs it is tested in tests/bridges."""

import sys

import pytest

import sivi


def test_without_numpyro_a_sentence_says_what_to_install(monkeypatch, as_a_user):
    for name in ("numpyro", "numpyro.distributions"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"models of NumPyro need numpyro: pip install 'sivi\[numpyro\]'"):
        sivi.from_numpyro(lambda: None)
