"""The bins of blocks follow from public facts."""

import pytest

from mpc.errors import ConfigError
from secure_tree.public.config import TrainConfig
from secure_tree.public.layout import lay_out


@pytest.mark.parametrize(
    ("parameters", "rows", "bins"),
    [
        ({}, (99_999, 99_999), 128),
        ({}, (100_000, 5), 64),
        ({}, (5, 1_000_000), 64),
        ({"max_bin": 8}, (100_000, 100_000), 32),
        ({"max_bin": 20}, (100_000, 100_000), 60),
        ({"max_bin": 100}, (100_000, 100_000), 200),
        ({"local_bins": 256}, (100_000, 100_000), 256),
        ({"edges": "joint"}, (100_000, 100_000), 32),
        ({"partition": "vertical"}, (100_000, 100_000), 32),
    ],
)
def test_parties_with_many_rows_have_fewer_local_bins(parameters, rows, bins):
    config = TrainConfig.of(**parameters)
    layout = lay_out(config, (("x",), ("x",)), rows)
    assert max(layout.bins(p) for p in (0, 1)) == bins and f"{bins} " in config.binning(rows)


def test_owners_rows_do_not_change_the_bins_of_the_parties():
    layout = lay_out(TrainConfig.of(edges="joint"), (("x",),) * 3, (50, 50, 1_000_000))
    assert layout.finer == 1
    with pytest.raises(ConfigError, match="local_bins must be a multiple"):
        TrainConfig.of(local_bins=70)
