"""Folders of tables in shards: every row in one shard, with the values and errors of one file."""

import json

import numpy as np
import pandas as pd
import pytest

from mpc.errors import ConfigError, DataError
from sharewood.tables import shards as folders
from sharewood.tables.columns import Columns
from sharewood.tables.shards import MANIFEST, FilePart, shards_of, table_files, write_manifest
from sharewood.tables.tables import check_classes, read_table

SCHEMA = """
id = "id"
age = { type = "numeric", missing = true }
colour = { type = "categorical", categories = ["red", "green"] }
y = "label"
w = "weight"
"""


def frame_of(rows, seed=1):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "w": rng.integers(1, 5, rows) / 2,
            "y": rng.integers(0, 2, rows),
            "age": np.where(rng.random(rows) < 0.3, np.nan, rng.integers(18, 90, rows)),
            "id": np.char.add("p", np.arange(rows).astype(str)),
            "colour": rng.choice(["red", "green"], rows),
        }
    )


def write(frame, path):
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False, row_group_size=7)
    else:
        frame.to_csv(path, index=False)


@pytest.fixture
def columns(tmp_path):
    (tmp_path / "schema.toml").write_text(SCHEMA)
    return Columns.read(tmp_path / "schema.toml")


def folder_of(tmp_path, frame, suffix, sizes):
    folder = tmp_path / "table"
    folder.mkdir()
    for k, part in enumerate(np.split(np.arange(len(frame)), np.cumsum(sizes)[:-1])):
        write(frame.iloc[part], folder / f"part-{k:02}{suffix}")
    return folder


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("pieces", [5, 1000])
def test_shards_have_each_row_once_as_one_file_has_it(ray, tmp_path, monkeypatch, columns, suffix, pieces):
    monkeypatch.setattr(folders, "PIECE", pieces)
    frame = frame_of(61)
    folder = folder_of(tmp_path, frame, suffix, [10, 1, 23, 27])
    (folder / "_SUCCESS").write_text("")
    (folder / ".hidden").write_text("")
    write(frame, tmp_path / f"whole{suffix}")
    whole = read_table(tmp_path / f"whole{suffix}", columns)
    for source in (folder, tmp_path / f"whole{suffix}"):
        for count in (1, 4, 61):
            shards = shards_of(source, columns, count)
            assert max(s.rows for s in shards) - min(s.rows for s in shards) <= 1
            assert shards == shards_of(source, columns, count)
            read = [shard.read(columns) for shard in shards]
            assert [len(rows.features) for rows in read] == [shard.rows for shard in shards]
            together = pd.concat([rows.features for rows in read], ignore_index=True)
            pd.testing.assert_frame_equal(together, whole.features)
            for name in ("labels", "weights", "ids"):
                found = np.concatenate([getattr(rows, name) for rows in read])
                assert np.array_equal(found, np.asarray(getattr(whole, name)))
            assert all(rows.missing == ("age",) for rows in read)


def test_a_shard_of_several_files_has_their_ranges(ray, tmp_path, columns):
    folder = folder_of(tmp_path, frame_of(20), ".parquet", [3, 9, 8])
    first, second = shards_of(folder, columns, 2)
    assert first.parts == (FilePart(folder / "part-00.parquet", 0, 3), FilePart(folder / "part-01.parquet", 0, 7))
    assert second.parts == (FilePart(folder / "part-01.parquet", 7, 9), FilePart(folder / "part-02.parquet", 0, 8))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    ("column", "value", "sentence"),
    [
        ("age", "old", "value must be a number, got 'old'"),
        ("age", "inf", "value must be a finite number of float32, got 'inf'"),
        ("colour", "blue", "value must be one of the categories, got 'blue'"),
        ("w", "-1", "weight must be at least 0, got -1"),
        ("y", "3", "label must be 0 or 1, got 3"),
        ("id", None, "the id is missing"),
    ],
)
def test_a_bad_value_is_named_by_file_column_and_line(
    ray, tmp_path, monkeypatch, columns, suffix, column, value, sentence
):
    monkeypatch.setattr(folders, "PIECE", 5)
    frame = frame_of(40).astype({column: object})
    frame.loc[33, column] = value
    if suffix == ".parquet" and column != "id":
        frame[column] = frame[column].astype(str)
    folder = folder_of(tmp_path, frame, suffix, [20, 20])
    shards = shards_of(folder, columns, 3)
    shards[0].read(columns)
    at = "row 13" if suffix == ".parquet" else "line 15"
    with pytest.raises(DataError) as caught:
        shards[2].read(columns, check_labels=lambda place, labels: check_classes(place, columns, labels))
    said = str(caught.value).replace("got 'inf'", "got 'inf'").replace("'-1.0'", "-1")
    assert said.startswith(f"{folder}/part-01{suffix}: column {column!r}, {at}: ") and sentence in said


def test_shards_are_read_only_while_a_ray_with_a_token_runs(tmp_path, monkeypatch, columns):
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    with pytest.raises(ConfigError, match=r"Ray must be running to read shards: do so within `with ray_cluster\(\):`"):
        folders.each(str, [1])


def test_folders_that_are_no_table_are_one_sentence(ray, tmp_path, columns):
    folder = tmp_path / "table"
    with pytest.raises(DataError, match="there is no such file or folder"):
        shards_of(folder, columns, 2)
    folder.mkdir()
    with pytest.raises(DataError, match="the folder has no tables"):
        shards_of(folder, columns, 2)
    write(frame_of(5), folder / "a.csv")
    with pytest.raises(DataError, match="must have at least one row per shard, got 5 rows for 6 shards"):
        shards_of(folder, columns, 6)
    for name, sentence in (("b.parquet", "must have the format of a.csv"), ("b.csv.gz", "must be a parquet or a CSV")):
        (folder / name).write_text("")
        with pytest.raises(DataError, match=rf"{name}: {sentence}"):
            table_files(folder)
        (folder / name).unlink()
    (folder / "month=1").mkdir()
    with pytest.raises(DataError, match="month=1: is a folder: all files of a table must lie in"):
        table_files(folder)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda f: f.assign(more=1),
            "part-01.csv: must have the columns of part-00.csv in the same order, but has 'more'",
        ),
        (lambda f: f.drop(columns="age"), "part-01.csv: must have the columns of part-00.csv .* but lacks 'age'"),
        (lambda f: f[sorted(f)], "part-01.csv: must have the columns .* but has another order"),
        (lambda f: f.iloc[:0], "part-01.csv: the table has no rows"),
    ],
)
def test_files_with_other_columns_are_refused(ray, tmp_path, columns, change, sentence):
    folder = folder_of(tmp_path, frame_of(20), ".csv", [10, 10])
    write(change(frame_of(5)), folder / "part-01.csv")
    with pytest.raises(DataError, match=sentence):
        shards_of(folder, columns, 2)


def test_columns_are_checked_before_any_row(ray, tmp_path, columns):
    folder = folder_of(tmp_path, frame_of(20).assign(more=1), ".parquet", [10, 10])
    with pytest.raises(DataError, match=r"part-00.parquet: column 'more' is not in schema.toml"):
        shards_of(folder, columns, 2)


def test_files_must_not_change_under_a_training(ray, tmp_path, columns):
    folder = folder_of(tmp_path, frame_of(20), ".csv", [10, 10])
    _, last = shards_of(folder, columns, 2)
    write(frame_of(9), folder / "part-01.csv")
    with pytest.raises(
        DataError, match=r"part-01.csv: must not change while it is read: it had 10 rows, and has 9 now"
    ):
        last.read(columns)


def test_a_divided_folder_keeps_its_shards(ray, tmp_path, columns):
    folder = folder_of(tmp_path, frame_of(20), ".csv", [12, 8])
    write_manifest(folder, [12, 8])
    assert [shard.rows for shard in shards_of(folder, columns, 2)] == [12, 8]
    with pytest.raises(ConfigError, match=r"table was divided into 2 shards: shards must be 2, got 4"):
        shards_of(folder, columns, 4)
    write(frame_of(3), folder / "part-01.csv")
    with pytest.raises(DataError, match=r"its files must have the rows that shards.json counts"):
        shards_of(folder, columns, 2)
    for text in ("", "[]", json.dumps({"rows": ["a", 2]}), json.dumps({"rows": []})):
        (folder / MANIFEST).write_text(text)
        with pytest.raises(DataError, match="must be what sharewood align --shards has written"):
            shards_of(folder, columns, 2)


def test_without_a_schema_file_ids_that_pass_as_features_are_refused(ray, tmp_path):
    frame = frame_of(30)[["age", "y"]].fillna(1).assign(customer_id=np.arange(30) * 3)
    folder = folder_of(tmp_path, frame, ".csv", [10, 20])
    shards = shards_of(folder, Columns.inferred("y"), 2)
    with pytest.raises(DataError, match="column 'customer_id' has a different whole number in each row"):
        shards[1].read(Columns.inferred("y"))
