"""Files of facts and arrays: a file reads as it was written, or raises a one-sentence error."""

import io
import json
import pickle
import random

import numpy as np
import pytest

from mpc.errors import DataError
from secure_tree.model.storage import read_arrays, read_json, unpack_bits, write_arrays
from tests.secure_tree.model.mutations import mutated

FACTS, ARRAYS = {"a": 1, "b": [0.1, None]}, {"x": np.arange(6.0).reshape(2, 3), "y": np.zeros((0, 2), np.uint8)}
NAMES = pytest.mark.parametrize("name", ["model.npz", "model.json"])


@NAMES
def test_arrays_come_back(tmp_path, name):
    write_arrays(tmp_path / name, FACTS, ARRAYS)
    facts, arrays = read_arrays(tmp_path / name, "model")
    assert facts == FACTS and all(np.array_equal(arrays[key], ARRAYS[key]) for key in ARRAYS)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_numpy_reads_a_file_with_a_checksum(tmp_path):
    write_arrays(tmp_path / "model.npz", FACTS, ARRAYS)
    with np.load(tmp_path / "model.npz") as file:
        assert np.array_equal(file["x"], ARRAYS["x"])


@NAMES
def test_what_cannot_be_written_leaves_nothing(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(DataError, match=rf"{name}: cannot be written \(Is a directory\)"):
        write_arrays(tmp_path / name, {}, {"x": np.zeros(2)})
    assert [path.name for path in tmp_path.iterdir()] == [name]
    with pytest.raises(DataError, match="cannot be written"):
        write_arrays(tmp_path / "nowhere" / name, {}, {"x": np.zeros(2)})


@NAMES
@pytest.mark.parametrize("count", [100, pytest.param(2000, marks=pytest.mark.long)])
def test_a_damaged_file_is_never_another_one(tmp_path, name, count):
    write_arrays(tmp_path / name, FACTS, ARRAYS)
    whole, rng, refused = (tmp_path / name).read_bytes(), random.Random(18), 0
    for _ in range(count):
        (tmp_path / name).write_bytes(mutated(whole, rng))
        try:
            facts, arrays = read_arrays(tmp_path / name, "model")
        except DataError as error:
            assert "\n" not in str(error)
            refused += 1
        else:
            assert facts == FACTS and all(np.array_equal(arrays[key], ARRAYS[key]) for key in ARRAYS)
    assert refused > 0.8 * count


def test_an_altered_number_is_refused(tmp_path):
    write_arrays(tmp_path / "model.json", FACTS, ARRAYS)
    document = json.loads((tmp_path / "model.json").read_text())
    document["arrays"]["x"]["base64"] = "A" * len(document["arrays"]["x"]["base64"])
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(DataError, match="not a model: its checksum is wrong or missing"):
        read_arrays(tmp_path / "model.json", "model")


def of_numpy(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


@NAMES
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"id,prediction\n1,0.5\n",
        b"[1]",
        b'{"facts": {}, "arrays": {}}',
        b"[" * 100_000,
        b"1" * 100_000,
        b"\xff\xfe\x00",
        pickle.dumps({"facts": 1}),
        of_numpy(facts=np.array(json.dumps(FACTS)), **ARRAYS),
        of_numpy(x=np.array([{}], object)),
        b"PK\x05\x06" + bytes(18),
        bytes(64),
    ],
    ids=range(12),
)
def test_any_other_file_is_a_sentence(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=name) as refusal:
        read_arrays(tmp_path / name, "model")
    assert "\n" not in str(refusal.value) and "pickle" not in str(refusal.value)


@NAMES
def test_no_file_at_all(tmp_path, name):
    with pytest.raises(DataError, match="there is no such file"):
        read_arrays(tmp_path / name, "model")
    (tmp_path / name).mkdir()
    with pytest.raises(DataError, match=r"cannot be read \(Is a directory\)"):
        read_arrays(tmp_path / name, "model")


def test_json_without_a_checksum_is_read_where_none_is_asked_for(tmp_path):
    (tmp_path / "plain.json").write_text('{"learner": {}}')
    assert read_json(tmp_path / "plain.json", "model of XGBoost in JSON") == {"learner": {}}
    (tmp_path / "plain.json").write_text("[" * 100_000)
    with pytest.raises(DataError, match="not a model of XGBoost"):
        read_json(tmp_path / "plain.json", "model of XGBoost in JSON")


def test_bits_fit_their_shape():
    bits = np.array([[1, 0, 1], [0, 1, 1]], np.uint8)
    assert np.array_equal(unpack_bits(np.packbits(bits), np.array(bits.shape)), bits)
    with pytest.raises(ValueError, match="1 bytes are not 1000000000000 bits"):
        unpack_bits(np.packbits(bits), np.array([10**6, 10**6]))
