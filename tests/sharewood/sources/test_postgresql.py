"""Tables of a PostgreSQL server: types, missing values, order, credentials, and what is wrong in one sentence."""

import errno
import logging
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mpc.errors import ConfigError, DataError
from sharewood.report.digests import keyed_digest
from sharewood.sources.copies import copied
from sharewood.sources.databases import _postgresql
from sharewood.sources.reference import DataSource, parse_table
from sharewood.tables.columns import Column, Columns
from sharewood.tables.files import read_cells
from sharewood.tables.tables import read_table
from tests.memory import forget_peak, peak
from tests.sharewood.sources.conftest import PASSWORD

FREE = re.compile(r"Traceback|/tmp|\.parquet|SQLSTATE|Query was|libpq|COPY")


@pytest.fixture
def asked(postgresql):
    def source(query, **more):
        return DataSource(data=postgresql.url, query=query, **more)

    return source


def read(source):
    with copied({"train_data": source}) as files:
        return read_cells(files["train_data"], None)


def complaint(source, kind=DataError):
    with pytest.raises(kind) as error:
        read(source)
    said = str(error.value)
    assert PASSWORD not in said and "\n" not in said and not FREE.search(said), said
    return said


NUMBERS = """SELECT 1::int2 AS a, 2::int8 AS b, 1.5::float4 AS c, 2.5::float8 AS d, 12345.678::numeric(12, 3) AS e,
    true AS f, 'x'::text AS g, 'y'::varchar(3) AS h, 7::oid AS i, 3::numeric AS j"""


def test_numbers_truth_values_and_texts_are_read(asked):
    frame = read(asked(NUMBERS))
    assert frame.iloc[0].to_dict() == {
        **{"a": 1, "b": 2, "c": 1.5, "d": 2.5, "e": 12345.678, "f": True, "g": "x", "h": "y", "i": 7, "j": 3.0}
    }
    assert frame["e"].dtype == np.float64 and frame["b"].dtype == np.int64


def test_nulls_are_missing_values(asked):
    query = """SELECT id::text AS id, CASE WHEN id > 1 THEN 0.5 * id END AS x, CASE WHEN id > 2 THEN id END AS n,
        CASE WHEN id > 1 THEN id > 2 END AS t, CASE WHEN id > 2 THEN 'red' END AS colour,
        CASE WHEN id < 3 THEN 1.25::numeric END AS d FROM generate_series(1, 3) AS id ORDER BY id"""
    known = {name: Column(type="numeric", missing=True) for name in "xntd"}
    colour = Column(type="categorical", categories=("red",), missing=True)
    columns = Columns({"id": Column(type="id"), **known, "colour": colour}, "schema.toml")
    with copied({"train_data": asked(query)}) as files:
        rows = read_table(files["train_data"], columns)
    assert rows.ids.tolist() == ["1", "2", "3"]
    nan = np.nan
    expected = pd.DataFrame({"x": [nan, 1, 1.5], "n": [nan, nan, 3], "t": [nan, 0, 1], "d": [1.25, 1.25, nan]})
    pd.testing.assert_frame_equal(rows.features[["x", "n", "t", "d"]], expected)
    assert rows.features["colour"].isna().tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("'{}'::jsonb", "jsonb"),
        ("'{}'::json", "json"),
        ("'\\x01'::bytea", "bytea"),
        ("now()", "timestamptz"),
        ("now()::timestamp", "timestamp"),
        ("current_date", "date"),
        ("'1 day'::interval", "interval"),
        ("array[1, 2]", "_int4"),
        ("gen_random_uuid()", "uuid"),
        ("'10'::money", "money"),
        ("'127.0.0.1'::inet", "inet"),
    ],
)
def test_other_types_are_refused_with_the_column_and_what_to_do(asked, value, kind):
    said = complaint(asked(f"SELECT 1 AS id, {value} AS seen"))
    assert f"column 'seen' must have numbers or text, got the type {kind}: convert it" in said


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT * FROM nowhere", 'relation "nowhere" does not exist'),
        ("SELEC 1", 'syntax error at or near "SELEC"'),
        ("SELECT nothing FROM pg_class", 'column "nothing" does not exist'),
        ("CREATE TABLE made (x int)", "cannot execute CREATE TABLE in a read-only transaction"),
        ("SELECT 1; SELECT 2", "cannot insert multiple commands into a prepared statement"),
        ("SELECT 1 AS a, 2 AS a", "column 'a' appears twice"),
        ("SELECT 1 AS a WHERE false", "the query gives no rows"),
        ("SELECT", "the query gives no columns"),
        ("SELECT 10 / (200000 - g) AS a FROM generate_series(1, 300000) AS g", "division by zero"),
        ('SELECT 1 AS "\x07"', "has unprintable characters"),
    ],
)
def test_a_query_that_gives_no_table_is_refused_in_a_sentence(asked, query, said):
    assert said in complaint(asked(query))


def test_who_may_not_read_is_told(asked, postgresql, monkeypatch):
    postgresql.run("CREATE TABLE IF NOT EXISTS closed (x int)", "REVOKE ALL ON closed FROM reader")
    assert "permission denied for table closed" in complaint(asked("SELECT * FROM closed"))
    monkeypatch.setenv("PGPASSWORD", "wrong-password")
    said = complaint(asked("SELECT 1 AS x"))
    assert 'password authentication failed for user "reader": set PGPASSWORD' in said and "wrong-password" not in said
    monkeypatch.delenv("PGPASSWORD")
    assert "no password supplied: set PGPASSWORD or PGPASSFILE" in complaint(asked("SELECT 1 AS x"))


def test_passwords_may_be_in_a_file_that_only_its_owner_reads(asked, monkeypatch, tmp_path):
    monkeypatch.delenv("PGPASSWORD")
    file = tmp_path / "passwords"
    file.write_text(f"*:*:loans:reader:{PASSWORD}\n")
    file.chmod(0o600)
    assert read(asked("SELECT 1 AS x", credentials=file))["x"].tolist() == [1]
    monkeypatch.setenv("PGPASSFILE", str(file))
    assert read(asked("SELECT 1 AS x"))["x"].tolist() == [1]
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="must be readable only by its owner"):
        read(asked("SELECT 1 AS x", credentials=file))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://reader@127.0.0.1:1/loans", "postgresql://127.0.0.1:1/loans: Connection refused"),
        ("postgresql://no-such-host.invalid/loans", "could not translate host name"),
        ("postgresql://127.0.0.1:1/loans?no_such=1", 'invalid URI query parameter: "no_such"'),
    ],
)
def test_a_server_that_cannot_be_reached_is_named(url, said):
    assert said in complaint(DataSource(data=url, query="SELECT 1 AS x"))


def test_the_database_must_exist(postgresql):
    url = postgresql.url.replace("/loans", "/savings")
    assert 'database "savings" does not exist' in complaint(DataSource(data=url, query="SELECT 1 AS x"))


def test_other_hosts_must_prove_who_they_are(monkeypatch):
    def options(url):
        return _postgresql(DataSource(data=url, query="SELECT 1"))["db_kwargs"]["uri"]

    assert "sslmode=verify-full" in options("postgresql://db.bank/loans")
    assert "sslmode=verify-full" in options("postgresql:///loans?host=db.bank")
    assert "sslmode=verify-full" not in options("postgresql://db.bank/loans?sslmode=require")
    for here in ("postgresql:///loans", "postgresql://127.0.0.1/loans", "postgresql:///loans?host=/run/postgresql"):
        assert "sslmode" not in options(here)
    monkeypatch.setenv("PGSSLMODE", "verify-ca")
    assert "sslmode" not in options("postgresql://db.bank/loans")
    monkeypatch.delenv("PGSSLMODE")
    monkeypatch.setenv("PGHOST", "db.bank")
    assert "sslmode=verify-full" in options("postgresql:///loans")


def digest(source):
    with copied({"train_data": source}) as files:
        return keyed_digest(b"key", files["train_data"])


def test_equal_rows_have_equal_digests_and_changed_rows_others(asked, postgresql):
    postgresql.run(
        "DROP TABLE IF EXISTS changing",
        "CREATE TABLE changing AS SELECT g AS id, g / 2::float8 AS x FROM generate_series(1, 140000) AS g",
    )
    ordered = asked("SELECT * FROM changing ORDER BY id")
    first = digest(ordered)
    assert digest(ordered) == first
    postgresql.run("UPDATE changing SET x = 7 WHERE id = 4242")
    changed = digest(ordered)
    assert changed != first
    # A value that is changed back gives the rows of before, wherever they now are on the server's disk.
    postgresql.run("UPDATE changing SET x = 2121 WHERE id = 4242")
    assert digest(ordered) == first


def test_the_copy_is_private_and_goes_with_the_block(asked, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with copied({"train_data": asked("SELECT 1 AS x"), "model": Path("a.csv"), "test_data": None}) as files:
        copy = files["train_data"]
        assert copy.stat().st_mode & 0o777 == 0o600 and copy.parents[1].stat().st_mode & 0o777 == 0o700
        assert copy.is_relative_to(tmp_path) and copy.name == "loans.parquet"
        assert files["model"] == Path("a.csv") and "test_data" not in files
    assert not copy.exists() and not copy.parents[1].exists()
    with (
        pytest.raises(DataError, match=r"^postgresql:///loans: column 'x'"),
        copied({"t": asked("SELECT 1 AS x")}) as files,
    ):
        raise DataError(f"{files['t']}: column 'x'")
    assert list(tmp_path.rglob("*.parquet")) == []


def test_copies_of_a_killed_process_are_removed(asked, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / f"sharewood-{os.getuid()}"
    with copied({"t": asked("SELECT 1 AS x")}) as other:
        for name in ("tables-old", "tables-young"):
            (folder / name).mkdir()
            (folder / name / "loans.parquet").write_text("rows")
        for path in (folder / "tables-old", other["t"].parents[1]):
            os.utime(path, (1, 1))
        read(asked("SELECT 1 AS x"))
        assert other["t"].exists(), "its process holds it"
    assert [path.name for path in folder.iterdir()] == ["tables-young"]


def test_a_full_disk_is_told(asked, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_table", full)
    with pytest.raises(DataError, match=r"No space left on device\): set TMPDIR to a folder with more space"):
        read(asked("SELECT 1 AS x"))


@pytest.mark.parametrize(("rows", "columns"), [(131_072, 2), (131_073, 2), (1, 1), (5_000, 1_000)])
def test_all_rows_arrive_in_order_whatever_their_number(asked, rows, columns):
    more = "".join(f", g * {i} AS c{i}" for i in range(1, columns))
    frame = read(asked(f"SELECT g AS id{more} FROM generate_series(1, {rows}) AS g ORDER BY g"))
    assert frame.shape == (rows, columns) and (frame["id"] == np.arange(1, rows + 1)).all()


def test_memory_does_not_grow_with_the_rows(asked):
    columns = ", ".join(f"g::int8 AS c{i}" for i in range(20))
    query = f"SELECT {columns} FROM generate_series(1, %d) AS g"
    forget_peak()
    with copied({"t": asked(query % 400_000)}):
        before = peak()
    with copied({"t": asked(query % 1_200_000)}):
        # The rows that came in addition have 128 MB.
        assert peak() - before < 64e6


def test_no_log_has_the_password(asked, caplog):
    with caplog.at_level(logging.DEBUG):
        read(asked("SELECT 1 AS x"))
        complaint(asked("SELECT * FROM nowhere"))
    assert PASSWORD not in caplog.text and PASSWORD not in repr(
        parse_table({"data": asked("x").data, "query": "SELECT 1"})
    )
