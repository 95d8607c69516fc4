"""Tables of DuckDB files, which are read by the same driver's interface as those of a server."""

import duckdb
import numpy as np
import pytest

from mpc.errors import DataError
from sharewood.sources.copies import copied
from sharewood.sources.reference import DataSource
from sharewood.tables.files import read_cells


@pytest.fixture
def asked(tmp_path):
    with duckdb.connect(str(tmp_path / "all.db")) as base:
        base.execute("CREATE TABLE loans AS SELECT range AS id, range * 0.5 AS x FROM range(200000)")
    return lambda query: DataSource(data=f"duckdb:{tmp_path / 'all.db'}", query=query)


def read(source):
    with copied({"train_data": source}) as files:
        return read_cells(files["train_data"], None)


def test_rows_are_read_in_order(asked):
    frame = read(asked("SELECT * FROM loans ORDER BY id DESC"))
    assert (frame["id"] == np.arange(200_000)[::-1]).all() and (frame["x"] == frame["id"] * 0.5).all()


def test_types_are_numbers_truth_values_and_texts(asked):
    frame = read(
        asked(
            "SELECT 1::HUGEINT AS a, 1.25::DECIMAL(10, 2) AS b, true AS c, 'x' AS d, uuid() AS e, 2::UTINYINT AS f, "
            "'red'::ENUM('red', 'blue') AS g, NULL AS h, sum(id) AS i FROM loans"
        )
    )
    assert frame[["a", "b", "c", "f", "i"]].iloc[0].tolist() == [1.0, 1.25, True, 2, 19999900000.0]
    assert frame["d"][0] == "x" and len(frame["e"][0]) == 36 and frame["g"][0] == "red" and frame["h"].isna().all()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT * FROM nowhere", "Table with name nowhere does not exist!"),
        ("SELEC 1", 'syntax error at or near "SELEC"'),
        ("INSERT INTO loans VALUES (1, 2)", "attached in read-only mode"),
        ("SELECT 'x'::INT AS a FROM loans", "Could not convert string 'x' to INT32"),
        ("SELECT 1 AS a, 2 AS a", "column 'a' appears twice"),
        ("SELECT 1 AS a WHERE false", "the query gives no rows"),
        ("SELECT now() AS a", r"column 'a' must have numbers or text, got the type timestamp\[us, tz="),
        ("SELECT 'a'::BLOB AS a", "got the type binary"),
        ("SELECT [1] AS a", "got the type list"),
    ],
)
def test_a_query_that_gives_no_table_is_refused_in_a_sentence(asked, query, said):
    with pytest.raises(DataError, match=said) as error:
        read(asked(query))
    assert str(error.value).startswith("duckdb:") and "\n" not in str(error.value)


def test_the_file_must_be_there_and_a_database(tmp_path):
    with pytest.raises(DataError, match=r"none\.db: cannot be read \(No such file or directory\)"):
        read(DataSource(data=f"duckdb:{tmp_path / 'none.db'}", query="SELECT 1 AS x"))
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "bad.db").write_text("x" * 5000)
    with pytest.raises(DataError, match="not a valid DuckDB database file"):
        read(DataSource(data=f"duckdb:{tmp_path / 'bad.db'}", query="SELECT 1 AS x"))
