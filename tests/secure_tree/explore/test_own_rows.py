"""Rows of earlier releases: how many differ, by id and by content, and what is on disk."""

import numpy as np
import pytest

from mpc.errors import DataError
from mpc.host.encryption import FileKey
from secure_tree.explore.config import ExploreConfig
from secure_tree.explore.own_rows import OwnRows
from secure_tree.explore.own_table import OwnTable

KEY = FileKey(bytes(range(32)), "the test")


def own(X, y=None):
    return OwnTable.read(X, y, None, None, ExploreConfig.of())


X = np.random.default_rng(1).normal(size=(300, 3))
Y = np.arange(300) % 2


@pytest.mark.parametrize("key", [None, KEY])
def test_rows_are_recognised_in_any_order(tmp_path, key):
    rows = OwnRows(tmp_path / "ledger", key)
    first = rows.hashes(own(X, Y), None)
    assert rows.nearest(first) is None
    rows.add(first)
    again = OwnRows(tmp_path / "ledger", key)
    assert again.nearest(again.hashes(own(X[::-1], Y[::-1]), None)) is None
    assert again.nearest(again.hashes(own(X[1:], Y[1:]), None)) == 1
    changed = X.copy()
    changed[:4, 2] += 1
    assert again.nearest(again.hashes(own(changed, Y), None)) == 4
    assert again.nearest(again.hashes(own(X, 1 - Y), None)) == 300
    size = (tmp_path / "ledger.rows").stat().st_size
    again.add(first)
    assert (tmp_path / "ledger.rows").stat().st_size == size


def test_ids_recognise_rows_whatever_their_columns(tmp_path):
    ids = np.array([f"id {i}" for i in range(300)])
    rows = OwnRows(tmp_path / "ledger", None)
    rows.add(rows.hashes(own(X, Y), ids))
    assert rows.nearest(rows.hashes(own(X[:, :1]), ids)) is None
    assert rows.nearest(rows.hashes(own(X[2:, :1]), ids[2:])) == 2


def test_the_hashes_are_keyed_and_encrypted(tmp_path):
    one, other = OwnRows(tmp_path / "a", KEY), OwnRows(tmp_path / "b", KEY)
    assert not np.intersect1d(one.hashes(own(X), None), other.hashes(own(X), None)).size
    one.add(one.hashes(own(X), None))
    data = (tmp_path / "a.rows").read_bytes()
    assert data.startswith(b"sharewood encrypted") and (tmp_path / "a.rows").stat().st_mode & 0o777 == 0o600
    with pytest.raises(DataError, match="no key is set"):
        OwnRows(tmp_path / "a", None)


def test_a_damaged_file_is_refused(tmp_path):
    (tmp_path / "ledger.rows").write_bytes(b"PK")
    with pytest.raises(DataError, match="cannot be read"):
        OwnRows(tmp_path / "ledger", None)
