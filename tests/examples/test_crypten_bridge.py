"""Conversion of shares to and from CrypTen, between two processes."""

import importlib
import runpy
from pathlib import Path

import numpy as np
import pytest
from crypten_bridge import load_crypten, to_crypten

from mpc.errors import ConfigError, ShapeMismatch
from mpc.shares import AShare

pytest.importorskip("torch")


def test_trees_feed_a_crypten_layer():
    # Loaded by path: CrypTen's own distribution has a package named `examples`.
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "crypten_layer.py"))
    first, second = example["run"]()
    rows = np.concatenate([first["rows"], second["rows"]])
    expected = np.maximum(rows @ np.array(example["WEIGHTS"]) + example["BIAS"], 0)
    for party in (first, second):
        assert np.abs(party["layer"] - expected).max() < 1e-3
        assert np.abs(party["by CrypTen"] - expected).max() < 1e-3


def test_narrow_shares_are_refused():
    with pytest.raises(ShapeMismatch, match="64 bits"):
        to_crypten(AShare(np.zeros(3, np.uint32), 0))


def test_without_crypten_the_command_that_installs_it_is_named(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(
        ConfigError, match=r"CrypTen is not installed \(No module named 'crypten'\): pip install"
    ) as error:
        load_crypten()
    assert "[crypten]' && pip install --no-deps crypten==0.4.1" in str(error.value)
    assert "--no-deps crypten==0.4.1" in (Path(__file__).parents[2] / "Makefile").read_text()
