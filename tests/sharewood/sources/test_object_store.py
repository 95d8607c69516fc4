"""Parquet files in an object store: order, columns, keys, and what is wrong in one sentence."""

import numpy as np
import pandas as pd
import pytest

from mpc.errors import ConfigError, DataError
from sharewood.sources.copies import copied
from sharewood.sources.reference import DataSource
from sharewood.tables.files import read_cells

ALL = DataSource(data="s3://loans/parts/*.parquet")


def put(store, name, **columns):
    with store.open(f"loans/parts/{name}", "wb") as file:
        pd.DataFrame(columns).to_parquet(file, index=False, row_group_size=50_000)


def read(source=ALL):
    with copied({"train_data": source}) as files:
        return read_cells(files["train_data"], None)


def complaint(source=ALL, kind=DataError):
    with pytest.raises(kind) as error:
        read(source)
    said = str(error.value)
    assert "\n" not in said and "secret-of" not in said and "AKIA" not in said
    return said


def test_the_rows_of_all_files_are_read_in_the_order_of_their_names(store):
    put(store, "2.parquet", id=np.arange(150_000, 170_000), x=0.5, shop="b")
    put(store, "1.parquet", id=np.arange(150_000), x=[None] * 150_000, shop="a")
    put(store, "1.parquet", id=np.arange(150_000), x=0.25, shop="a")
    put(store, "notes.txt", id=[1])
    frame = read()
    assert (frame["id"] == np.arange(170_000)).all() and list(frame["shop"].unique()) == ["a", "b"]
    pd.testing.assert_frame_equal(
        read(DataSource(data="S3://loans/parts/2.parquet")), frame[150_000:].reset_index(drop=True)
    )


def test_types_are_those_of_a_local_file(store, tmp_path):
    table = {
        "t": pd.to_datetime(["2026-01-01"]),
        "x": [1.5],
        "k": pd.Categorical(["a"]),
        "n": pd.array([None], "Int64"),
    }
    put(store, "1.parquet", **table)
    pd.DataFrame(table).to_parquet(tmp_path / "a.parquet", index=False)
    pd.testing.assert_frame_equal(read(), read_cells(tmp_path / "a.parquet", None))


def test_what_is_no_table_is_refused(store):
    assert complaint() == "s3://loans/parts/*.parquet: there is no such file"
    assert "there is no such file" in complaint(DataSource(data="s3://savings/x.parquet"))
    put(store, "1.parquet", a=[1], b=[2.0])
    put(store, "2.parquet", b=[1.0], a=[2])
    assert (
        complaint()
        == "s3://loans/parts/2.parquet: must have the columns of s3://loans/parts/1.parquet in the same order"
    )
    put(store, "2.parquet", a=[1], b=[2])
    assert "2.parquet: column 'b' must have the type of s3://loans/parts/1.parquet, double, got int64" in complaint()
    store.pipe("loans/parts/2.parquet", b"not parquet, but long enough to be read")
    assert "s3://loans/parts/*.parquet: cannot be read (" in complaint()
    store.rm("loans/parts/2.parquet")
    put(store, "1.parquet", a=[])
    assert complaint() == "s3://loans/parts/*.parquet: the files have no rows"


def test_keys_come_from_the_environment_or_a_file(store, monkeypatch, tmp_path):
    put(store, "1.parquet", a=[1])
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "credentials" in complaint()
    keys = tmp_path / "keys"
    keys.write_text("[default]\naws_access_key_id = AKIAREADER\naws_secret_access_key = secret-of-the-reader\n")
    keys.chmod(0o600)
    assert read(ALL.model_copy(update={"credentials": keys}))["a"].tolist() == [1]
    keys.chmod(0o644)
    assert "must be readable only by its owner" in complaint(ALL.model_copy(update={"credentials": keys}), ConfigError)


def test_a_store_that_cannot_be_reached_is_told(store, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert "cannot be read (Could not connect" in complaint()


def test_a_store_that_refuses_is_told(store, monkeypatch):
    import s3fs

    def refused(*_, **__):
        raise PermissionError("Access Denied")

    monkeypatch.setattr(s3fs.S3FileSystem, "glob", refused)
    assert "the store refuses access: check the credentials" in complaint()
