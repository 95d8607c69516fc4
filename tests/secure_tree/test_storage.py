"""Files are written whole or not at all, and one that cannot be is a sentence."""

import numpy as np
import pytest

from mpc.errors import DataError
from secure_tree.storage import read_arrays, write_arrays


@pytest.mark.parametrize("name", ["model.npz", "model.json"])
def test_arrays_come_back(tmp_path, name):
    write_arrays(tmp_path / name, {"a": 1}, {"x": np.arange(6.0).reshape(2, 3)})
    facts, arrays = read_arrays(tmp_path / name, "model")
    assert facts == {"a": 1} and np.array_equal(arrays["x"], np.arange(6.0).reshape(2, 3))
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["model.npz", "model.json"])
def test_what_cannot_be_written_leaves_nothing(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(DataError, match=rf"{name}: cannot be written \(Is a directory\)"):
        write_arrays(tmp_path / name, {}, {"x": np.zeros(2)})
    assert [path.name for path in tmp_path.iterdir()] == [name]
    with pytest.raises(DataError, match="cannot be written"):
        write_arrays(tmp_path / "nowhere" / name, {}, {"x": np.zeros(2)})
