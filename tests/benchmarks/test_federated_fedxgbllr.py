"""FedXGBllr's experiment beside the public rerun of the paper."""

import pytest

from benchmarks.federated_data import DATA, load
from benchmarks.federated_fedxgbllr import run
from protocols.federated.fedxgbllr.config import FedXGBllrConfig


@pytest.mark.skipif(not DATA.exists(), reason="the public data sets are not beside this checkout")
def test_space_ga_with_two_clients_beats_the_public_rerun():
    config = FedXGBllrConfig.of(objective="reg:squarederror", rounds=1, local_epochs=5)
    line = run(*load("space_ga"), 2, config)
    assert line["score"] < 0.024
