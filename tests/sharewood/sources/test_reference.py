"""References to tables: what they accept, and that no message repeats a password."""

from pathlib import Path

import pytest

from mpc.errors import ConfigError
from sharewood.sources.reference import DataSource, files_of, named_table, parse_table

SECRET = "hunter2"
QUERY = "SELECT * FROM loans ORDER BY id"


@pytest.mark.parametrize("given", ["a.csv", "folder/b.parquet", "odd:name.csv", "/abs/x.csv"])
def test_other_texts_are_files(given):
    assert parse_table(given) == Path(given)


@pytest.mark.parametrize(
    ("given", "shown", "name"),
    [
        (
            {"data": "postgresql://ann@db.bank:5433/loans?sslmode=require", "query": QUERY},
            "postgresql://db.bank:5433/loans",
            "loans",
        ),
        ({"data": "POSTGRES://db.bank/loans", "query": QUERY}, "postgresql://db.bank/loans", "loans"),
        ({"data": "postgresql:///", "query": QUERY}, "postgresql:///", "postgresql"),
        ({"data": "duckdb:lake/all.db", "query": QUERY}, "duckdb:lake/all.db", "all"),
        ("s3://lake/loans/*.parquet", "s3://lake/loans/*.parquet", "loans"),
        ("s3://lake/loans/part.parquet", "s3://lake/loans/part.parquet", "part"),
        ({"data": "s3://lake/*.parquet"}, "s3://lake/*.parquet", "lake"),
    ],
)
def test_sources_are_shown_without_user_and_options(given, shown, name):
    source = parse_table(given)
    assert isinstance(source, DataSource) and str(source) == shown and source.name == f"{name}.parquet"


@pytest.mark.parametrize(
    "given",
    [
        f"postgresql://ann:{SECRET}@db.bank/loans",
        f"postgresql://ann:{SECRET}/x@db.bank/loans",
        f"postgresql://ann:12#{SECRET}@db.bank/loans",
        f"postgresql://ann:12?{SECRET}@db.bank/loans",
        f"postgresql://db.bank/loans?password={SECRET}",
        f"postgresql://db.bank/loans?pass%77ord={SECRET}",
        f"postgresql://db.bank/loans?sslpassword={SECRET}",
        f"s3://KEY:{SECRET}@lake/x.parquet",
        f"s3://{SECRET}@lake/x.parquet",
        f"s3://lake/x.parquet?secret={SECRET}.parquet",
        f"mysql://ann:{SECRET}@db.bank/loans",
        f"https://ann:{SECRET}@db.bank/loans.parquet",
        {"data": f"postgresql://ann:{SECRET}@db.bank/loans", "quer": QUERY},
        {"data": f"postgresql://ann:{SECRET}@db.bank/loans", "query": 7},
        {"data": f"postgresql://ann:{SECRET}@db.bank/loans", "query": QUERY, "password": SECRET},
        {"data": [f"postgresql://ann:{SECRET}@db.bank/loans"], "query": QUERY},
        {"data": QUERY, "query": QUERY, "credentials": 3},
    ],
)
def test_passwords_are_refused_and_not_repeated(given):
    whole = given if isinstance(given, dict) else {"data": given, "query": QUERY}
    for one in (given, whole):
        with pytest.raises(ValueError) as error:
            parse_table(one)
        assert SECRET not in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("postgresql://db.bank/loans", "query must be set for a database"),
        ({"data": "duckdb:all.db", "query": " "}, "query must be set for a database"),
        ({"data": "duckdb:", "query": QUERY}, "data must be duckdb:FILE"),
        ({"data": "duckdb:all.db", "query": QUERY, "credentials": "x"}, "without credentials"),
        ({"data": "s3://lake/x.parquet", "query": QUERY}, "query must be left out"),
        ("s3://lake/x.csv", "data must name parquet files"),
        ({"data": "a.csv", "query": QUERY}, "data must begin with postgresql://, duckdb: or s3://"),
        ({"query": QUERY}, "must be the name of a file, or"),
        (3, "must be the name of a file"),
        ({"data": "postgresql://db.bank:port/loans", "query": QUERY}, "data must be a URL"),
    ],
)
def test_what_is_wrong_is_told(given, said):
    with pytest.raises(ValueError, match=said):
        parse_table(given)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM t ORDER BY id",
        "select x, row_number() over (order by y) from t\norder\n by x;",
        "WITH a AS (SELECT 1) SELECT * FROM a ORDER  BY 1 LIMIT 3",
        "SELECT * FROM t -- no order\n ORDER BY id",
    ],
)
def test_an_order_is_found(query):
    DataSource(data="duckdb:all.db", query=query).check_ordered("train_data")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM t",
        "SELECT row_number() OVER (PARTITION BY a ORDER BY b) FROM t",
        "SELECT * FROM (SELECT * FROM (SELECT 1) ORDER BY x)",
        "SELECT * FROM t -- ORDER BY id",
        "SELECT * FROM t /* ORDER BY\n id */",
        "SELECT ' ORDER BY it''s ' AS x FROM t",
        'SELECT "a ORDER BY b" FROM t',
        "SELECT $$ ORDER BY $$ FROM t",
        "SELECT border FROM orders",
    ],
)
def test_an_order_of_a_part_only_is_none(query):
    with pytest.raises(ConfigError, match=r"^train_data: the query must end with ORDER BY"):
        DataSource(data="duckdb:all.db", query=query).check_ordered("train_data")


def test_files_of_this_machine_are_relative_to_the_configuration():
    local = DataSource(data="duckdb:lake/all.db", query=QUERY).below(Path("/jobs"))
    assert files_of(local) == (Path("/jobs/lake/all.db"),)
    there = DataSource(data="postgresql://db.bank/loans", query=QUERY, credentials="pw").below(Path("/jobs"))
    assert files_of(there) == (Path("/jobs/pw"),) and there.data == "postgresql://db.bank/loans"
    assert files_of(None) == () and files_of(Path("a.csv")) == (Path("a.csv"),)


def test_a_command_names_a_table_likewise():
    assert named_table("a.csv", None) == Path("a.csv")
    assert named_table("duckdb:all.db", QUERY) == DataSource(data="duckdb:all.db", query=QUERY)
    with pytest.raises(ConfigError, match="query must be set"):
        named_table("duckdb:all.db", None)
