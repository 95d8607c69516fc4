"""Data for the trees: small tables made on the spot, and the public sets beside the checkout where they are there."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

SHARED = Path(__file__).parents[3] / "shared" / "data"


def read_shared(name: str, label: str = "y") -> tuple[pd.DataFrame, np.ndarray]:
    """A public set as (features, labels); skips the test where the data is not there."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"needs the public data set {name} beside the checkout")
    table = pd.read_csv(path)
    return table.drop(columns=[c for c in (label, "id") if c in table]), table[label].to_numpy()
