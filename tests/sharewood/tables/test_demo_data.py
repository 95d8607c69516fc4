"""Tables of the demo: text and empty cells, schema files, and rows that belong together."""

import logging
import re
import sys
import types

import numpy as np
import pandas as pd
import pytest

from mpc.errors import ConfigError, DataError
from mpc.host.extras import install
from secure_tree.public.config import TrainConfig
from sharewood.report.reference import check_xgboost
from sharewood.tables.demo_data import CURVE_ROWS, DemoData, Files, from_columns, from_files

LOGISTIC = TrainConfig.of()


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def test_text_is_categorical_and_empty_cells_are_missing(write, caplog):
    caplog.set_level(logging.INFO)
    a = write("a.csv", "id,y,age,region,x\n1,0,3,north,1\n2,1,,south,2\n3,0,5,,3\n")
    b = write("b.csv", "id,y,age,region,x\n4,0,3,east,1\n5,1,NA,NA,2\n6,0,5,north,3\n")
    data = from_files(Files((a, b), "y"), 0, LOGISTIC)
    assert data.missing == ("age", "region")
    for features, _ in data.train:
        assert features["region"].cat.categories.tolist() == ["NA", "east", "north", "south"]
    X, y = data.pooled(data.train)
    assert X.shape == (6, 6) and sorted(y) == [0, 0, 0, 0, 1, 1]
    assert np.isnan(X[:, 0]).sum() == 2 and np.isnan(X[:, 1]).sum() == 1
    assert "column 'region' holds text: it is categorical, with NA, east, north, south" in caplog.text
    assert "column 'age' has empty cells: they are missing values" in caplog.text and "'x'" not in caplog.text


def test_parties_with_categories_of_their_own(write):
    schema = 'y = "label"\ncolour = {{ type = "categorical", categories = {} }}\n'
    schemas = write("a.toml", schema.format('["red"]')), write("b.toml", schema.format('["blue", "red"]'))
    tables = write("a.csv", "y,colour\n0,red\n1,red\n"), write("b.csv", "colour,y\nblue,0\nred,1\n")
    X, _ = (data := from_files(Files(tables, "nothing", schemas), 0, LOGISTIC)).pooled(data.train)
    assert sorted(X.tolist()) == [[0, 1], [1, 0], [1, 0], [1, 0]]


def test_text_among_numbers_is_refused(write):
    good = write("a.csv", "y,x\n0,1\n1,2\n")
    for text in ("y,x\n0,1\n1,many\n", "y,x\n0,many\n1,more\n"):
        with pytest.raises(
            DataError, match=r"b\.csv: column 'x', line .: value must be a number, got '.*'; declare it"
        ):
            from_files(Files((good, write("b.csv", text)), "y"), 0, LOGISTIC)


def test_too_many_texts_are_no_categories(write):
    table = write("a.csv", "y,name\n" + "".join(f"{i % 2},n{i}\n" for i in range(40)))
    with pytest.raises(DataError, match=r"a\.csv and a\.csv: column 'name' holds 40 different texts"):
        from_files(Files((table, table), "y"), 0, LOGISTIC)


@pytest.mark.parametrize(
    ("second", "sentence"),
    [
        ("id,b\n2,1\n1,1\n3,1\n", "b.csv: its ids, or their order, differ from those of .*a.csv"),
        ("b\n2\n1\n3\n", "a.csv has an id column, and .*b.csv has none"),
        ("id,b\n1,1\n", "must have the 3 rows of .*a.csv, got 1"),
    ],
)
def test_by_columns_the_rows_are_the_same(write, second, sentence):
    first = write("a.csv", "id,y,a\n1,0,5\n2,1,6\n3,0,7\n")
    with pytest.raises(DataError, match=sentence):
        from_columns(Files((first, write("b.csv", second)), "y"), 0, LOGISTIC)


def test_idx_at_both_parties_is_no_feature(write):
    """As published by FATE, by columns: motor_hetero_guest and _host both begin with idx."""
    first = write("a.csv", "idx,y,a\n" + "".join(f"{i * 7 % 31},{i % 2},{i}.5\n" for i in range(31)))
    second = write("b.csv", "idx,b\n" + "".join(f"{i * 7 % 31},{i}.5\n" for i in range(31)))
    with pytest.raises(DataError, match="column 'idx' has a different whole number in each row, like an id"):
        from_columns(Files((first, second), "y"), 0, LOGISTIC)
    schemas = write("a.toml", 'idx = "id"\ny = "label"\na = "numeric"'), write("b.toml", 'idx = "id"\nb = "numeric"')
    data = from_columns(Files((first, second), "y", schemas), 0, LOGISTIC)
    assert [list(features) for features, _ in data.train] == [["a"], ["b"]]


@pytest.mark.parametrize(
    ("schemas", "partition", "sentence"),
    [
        (1, "vertical", "--schema must be given once for each party, or, by rows, once for both"),
        (3, "horizontal", "--schema must be given once"),
        (1, "horizontal", "s.toml declares no column as the label"),
    ],
)
def test_schemas_that_do_not_fit(write, schemas, partition, sentence):
    table, schema = write("a.csv", "y,a\n0,5\n1,6\n"), write("s.toml", 'y = "numeric"\na = "numeric"')
    read = from_columns if partition == "vertical" else from_files
    with pytest.raises(ConfigError, match=sentence):
        read(Files((table, table), "y", (schema,) * schemas), 0, LOGISTIC)


def test_the_label_is_in_the_first_file(write):
    tables = write("a.csv", "y,a\n0,5\n1,6\n"), write("b.csv", "z,b\n0,5\n1,6\n")
    schemas = write("a.toml", 'y = "label"\na = "numeric"'), write("b.toml", 'z = "label"\nb = "numeric"')
    with pytest.raises(DataError, match="must have no label column: by columns only the first"):
        from_columns(Files(tables, "y", schemas), 0, LOGISTIC)


@pytest.mark.parametrize("read", [from_files, from_columns])
def test_rows_that_are_held_out(write, read):
    first = write("a.csv", "id,y,a\n" + "".join(f"{i},{i % 2},{i}.5\n" for i in range(10)))
    second = first if read is from_files else write("b.csv", "id,b\n" + "".join(f"{i},{i}.5\n" for i in range(10)))
    data = read(Files((first, second), "y"), 0.3, LOGISTIC)
    assert [len(x) for x, _ in data.train] == [7, 7] and [len(x) for x, _ in data.test] == [3, 3]
    assert sorted([*data.train[0][0]["a"], *data.test[0][0]["a"]]) == [i + 0.5 for i in range(10)]
    whole = read(Files((first, second), "y"), 0, LOGISTIC)
    assert whole.test is whole.train
    with pytest.raises(DataError, match="no rows are left for party_a to train on"):
        read(Files((first, second), "y"), 0.99, LOGISTIC)


def test_counts_are_not_negative(write):
    tables = write("a.csv", "y,a\n0,5\n1,6\n"), write("b.csv", "y,a\n-1,5\n1,6\n")
    with pytest.raises(DataError, match=r"b\.csv: column 'y', line 2: label must be a count of at least 0, got -1"):
        from_files(Files(tables, "y"), 0, TrainConfig.of(objective="count:poisson"))


@pytest.mark.parametrize("rest", [None, types.ModuleType("xgboost")])
def test_without_xgboost_the_demo_tells_what_to_install(monkeypatch, rest):
    """When xgboost is uninstalled, it leaves a module without names of xgboost-cpu in the same folder."""
    monkeypatch.setitem(sys.modules, "xgboost", rest)
    with pytest.raises(ConfigError, match="cannot be imported .*: " + re.escape(install("xgboost"))):
        check_xgboost()


def test_parquet_is_described_too(tmp_path):
    table = pd.DataFrame({"y": [0, 1], "c": pd.Categorical(["a", None]), "t": ["u", "v"], "b": [True, False]})
    table.to_parquet(tmp_path / "t.parquet")
    data = from_files(Files((tmp_path / "t.parquet",) * 2, "y"), 0, LOGISTIC)
    X, _ = data.pooled(data.train)
    assert X.shape == (4, 4) and data.missing == ("c",)


def test_rows_of_the_learning_curve_are_drawn_from_the_whole_table():
    n = CURVE_ROWS + 1000
    sorted_rows = pd.DataFrame({"x": np.arange(n)}), (np.arange(n) >= n // 2).astype(float)
    nobody = sorted_rows[0].iloc[:0], sorted_rows[1][:0]
    data = DemoData((sorted_rows, sorted_rows), (sorted_rows, nobody), "bins", "sorted")
    drawn, labels = data.few()["held_out"][0]
    assert len(drawn) == len(labels) == CURVE_ROWS and drawn["x"].is_monotonic_increasing
    assert abs(labels.mean() - sorted_rows[1].mean()) < 0.02
    assert (labels == sorted_rows[1][drawn["x"]]).all()
