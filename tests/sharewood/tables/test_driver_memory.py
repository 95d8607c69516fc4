"""The process that divides a folder into shards holds none of its rows."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

ROWS = 25_000

DIVIDE = """
import sys
from pathlib import Path
from sharewood.tables.columns import Columns
from sharewood.tables.shards import shards_of
from protocols.runtime.workers.ray_cluster import ray_cluster
from sharewood.tables.alignment import divide
from tests.memory import peak

folder = Path(sys.argv[1])
with ray_cluster():
    shards = shards_of(folder, Columns.inferred(), 4)
    rows = divide(folder, Columns.inferred(), b"k" * 32, 4, folder.with_name(folder.name + "_pieces"))
assert rows == sum(shard.rows for shard in shards)
print(rows, peak())
"""


def divided(folder, files):
    rng = np.random.default_rng(files)
    folder.mkdir()
    for k in range(files):
        features = {f"x{f}": rng.normal(size=ROWS) for f in range(12)}
        ids = np.char.add("customer-", np.arange(k * ROWS, (k + 1) * ROWS).astype(str))
        pd.DataFrame({"id": ids, **features}).to_parquet(folder / f"{k:03}.parquet")
    done = subprocess.run([sys.executable, "-c", DIVIDE, folder], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return map(int, done.stdout.split()[-2:])


@pytest.mark.long
def test_the_peak_of_the_driver_does_not_grow_with_the_rows(tmp_path):
    few, first = divided(tmp_path / "few", 2)
    many, second = divided(tmp_path / "many", 40)
    table = ROWS * 40 * 13 * 8
    assert (few, many) == (2 * ROWS, 40 * ROWS)
    # A fifth of the memory of the cells without ids: Ray itself varies by a few MB.
    assert second - first < table / 5, (first, second, table)
