"""Data for the tests: public data sets beside the checkout, if they are present."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mpc.functions.logarithm import LogarithmMasks
from mpc.rings import PackedBits

SHARED = Path(__file__).parents[3] / "shared" / "data"


def read_joined(name: str) -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    """Read a vertically divided set, joined on id: (features of the guest, features of the host, labels)."""
    files = [SHARED / "hetero" / f"{name}_hetero_{role}.csv" for role in ("guest", "host")]
    if not all(path.exists() for path in files):
        pytest.skip(f"needs the public data set {name} beside the checkout")
    guest, host = (pd.read_csv(path).set_index("id") for path in files)
    ids = guest.index.intersection(host.index).sort_values()
    return guest.loc[ids].drop(columns="y"), host.loc[ids], guest.loc[ids, "y"].to_numpy()


def read_shared(name: str, label: str = "y") -> tuple[pd.DataFrame, np.ndarray]:
    """Read a public set as (features, labels). Skip the test if the data is missing."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"needs the public data set {name} beside the checkout")
    table = pd.read_csv(path)
    return table.drop(columns=[c for c in (label, "id") if c in table]), table[label].to_numpy()


class _Unmasked:
    """A view in which masks of words are 0, for a test that compares results and no messages."""

    def __init__(self, view):
        self._view = view

    def mask(self, ring, shape):
        drawn = self._view.mask(ring, shape)
        return np.zeros_like(drawn) if isinstance(ring, PackedBits) else drawn

    def __getattr__(self, name):
        return getattr(self._view, name)


@pytest.fixture
def no_coins(monkeypatch):
    """Round every logarithm down, so that two trainings of the same rows choose the same splits."""
    deal = LogarithmMasks.deal
    monkeypatch.setattr(LogarithmMasks, "deal", lambda self, view: deal(self, _Unmasked(view)))
