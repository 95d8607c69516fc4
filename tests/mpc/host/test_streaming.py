"""Rows received into a file, and read from it."""

import errno
import tempfile

import numpy as np
import pytest

from mpc.errors import DataError
from mpc.host.streaming import PIECE, RowsInFile


@pytest.mark.parametrize("shape", [(7, 3), (2 * PIECE // 64, 9), (1, PIECE)])
def test_rows_are_read_as_they_were_received(shape):
    words = np.random.default_rng(1).integers(0, 1 << 63, shape)
    data, at, rows = words.reshape(-1).view(np.uint8), 0, RowsInFile(shape, words.dtype)
    for buffer in rows:
        assert len(buffer) <= max(PIECE, rows.width)
        buffer[:] = data[at : at + len(buffer)].data
        at += len(buffer)
    assert at == rows.size == words.nbytes
    for some in (slice(None), slice(1, 5), slice(5, 5), slice(3, 1 << 20)):
        assert np.array_equal(rows[some], words[some])


def test_a_folder_without_room_is_named_in_the_error(monkeypatch):
    class Full:
        def write(self, _):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("mpc.host.streaming.tempfile.TemporaryFile", Full)
    filled = iter(RowsInFile((1 << 20, 25), np.dtype(np.uint32)))
    next(filled)
    with pytest.raises(DataError, match=f"{tempfile.gettempdir()} has no room for 0.1 GB of masked rows"):
        next(filled)
