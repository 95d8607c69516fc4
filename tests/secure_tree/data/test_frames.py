"""Tables of polars, Arrow and DuckDB are read as the same pandas DataFrame."""

import builtins

import numpy as np
import pandas as pd
import pytest

import sharewood
from mpc.errors import DataError
from protocols.testing.two_parties import run_both
from secure_tree import SecureXGBClassifier
from secure_tree.cross_validation import cross_validate
from secure_tree.data.categories import dictionary
from secure_tree.data.inputs import in_memory
from secure_tree.data.table import read_features
from secure_tree.public.config import TrainConfig

polars = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")
pyarrow = pytest.importorskip("pyarrow")

ROWS = 1000
CONFIG = TrainConfig.of(missing="all")


def frame(seed=0, rows=ROWS):
    rng = np.random.default_rng(seed)
    colours = pd.Categorical(rng.choice(["red", "blue"], rows), ["red", "green", "blue"])
    table = pd.DataFrame({"age": rng.integers(18, 90, rows), "debt": rng.normal(size=rows), "colour": colours})
    table.loc[3, "debt"] = np.nan
    return table


def of_polars(table):
    made = polars.from_pandas(table, nan_to_null=True)
    if "colour" in table:
        made = made.with_columns(polars.col("colour").cast(polars.Enum(["red", "green", "blue"])))
    return made


def of_duckdb(table):
    connection = duckdb.connect()
    connection.register("given", table[["age", "debt"]])
    return connection.sql("SELECT age, debt FROM given")


KINDS = {
    "polars": of_polars,
    "lazy polars": lambda table: of_polars(table).lazy(),
    "Arrow": lambda table: pyarrow.Table.from_pandas(table),
    "DuckDB": of_duckdb,
}


@pytest.mark.parametrize("kind", KINDS)
def test_features_are_those_of_pandas(kind):
    table, other = frame(), KINDS[kind](frame())
    if kind == "DuckDB":
        table = table[["age", "debt"]]
    known = dictionary(table)
    assert dictionary(in_memory(other)) == known
    (expected, names), (features, found) = (read_features(each, CONFIG, known=known) for each in (table, other))
    assert names == found and np.array_equal(features, expected, equal_nan=True)


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_takes_a_table(kind):
    tables = [frame(rank) for rank in (0, 1)]
    labels = [(table["age"] > 50).to_numpy(float) for table in tables]
    if kind == "DuckDB":
        tables = [table[["age", "debt"]] for table in tables]

    def job(party, convert):
        X, y = convert(tables[party.rank]), labels[party.rank]
        settings = {"n_estimators": 2, "max_depth": 2, "missing": "all", "max_bin": 8}
        model = SecureXGBClassifier(**settings).fit(party, X, y, eval_set=(X, y))
        scores = cross_validate(party, SecureXGBClassifier(**settings), X, y, folds=2)
        explored = sharewood.explore(party, X, y, partition="horizontal", statistics=["iv"], top=1, bins=4)
        return model.predict_proba(party, X), scores["logloss"], explored.names

    (ours, _), (expected, _) = (run_both(lambda party, c=c: job(party, c))[0] for c in (KINDS[kind], lambda t: t))
    assert np.abs(ours[0] - expected[0]).max() < 1e-3 and np.abs(ours[1] - expected[1]).max() < 1e-3
    assert ours[2] == expected[2]


def test_a_query_runs_once():
    asked = []

    def see(batch):
        asked.append(len(batch))
        return batch

    lazy = of_polars(frame()).lazy().map_batches(see, schema=of_polars(frame()).schema)

    def job(party):
        X = lazy if party.rank == 0 else frame(1)
        y = (frame(party.rank)["age"] > 50).to_numpy(float)
        return SecureXGBClassifier(n_estimators=1, max_depth=1, missing="all", max_bin=8).fit(party, X, y)

    run_both(job)
    assert asked == [ROWS]


def test_text_and_what_is_no_table_are_refused_in_a_sentence(monkeypatch):
    with pytest.raises(DataError, match="'colour'"):
        read_features(of_polars(frame()).with_columns(polars.col("colour").cast(polars.String)), CONFIG)
    with pytest.raises(DataError, match="X: features"):
        read_features(polars.Series([1.0, 2.0]), CONFIG)
    real = builtins.__import__

    def without_arrow(name, *more, **given):
        if name.startswith("pyarrow"):
            raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")
        return real(name, *more, **given)

    monkeypatch.setattr(type(of_polars(frame())), "to_pandas", lambda self, **_: __import__("pyarrow"))
    monkeypatch.setattr(builtins, "__import__", without_arrow)
    with pytest.raises(DataError, match=r"a table of polars needs pyarrow: pip install .*\[parquet\]"):
        in_memory(of_polars(frame()))
