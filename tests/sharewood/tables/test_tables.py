"""Tables from CSV and parquet, with and without a schema file, and the places that errors name."""

import io

import numpy as np
import pandas as pd
import pytest

from mpc.errors import ConfigError, DataError
from sharewood.tables.columns import Column, Columns
from sharewood.tables.files import writable
from sharewood.tables.tables import check_classes, check_range, read_joinable, read_rows, read_table, write_predictions

SCHEMA = """
colour = { type = "categorical", categories = ["red", "NA", "01"], missing = true }
who = "id"
age = { type = "numeric", missing = true }
good = "label"
times = "weight"
note = "ignore"
"""
TABLE = "who,age,note,good,times,colour\n007,1.5,x,1,2,red\n8,NA,,0,1,NA\n9,2,y,1,1,\n10,3,z,0,1,01\n"


@pytest.fixture
def columns(tmp_path):
    (tmp_path / "schema.toml").write_text(SCHEMA)
    return Columns.read(tmp_path / "schema.toml")


def written(path, text):
    path.write_text(text)
    return path


def test_a_table_with_a_schema(tmp_path, columns):
    rows = read_table(written(tmp_path / "t.csv", TABLE), columns)
    assert list(rows.features) == ["colour", "age"], "in the order of the schema file"
    assert rows.features["colour"].cat.categories.tolist() == ["red", "NA", "01"]
    assert rows.features["colour"].cat.codes.tolist() == [0, 1, -1, 2]
    assert np.array_equal(rows.features["age"], [1.5, np.nan, 2, 3], equal_nan=True)
    assert rows.labels.tolist() == [1, 0, 1, 0] and rows.weights.tolist() == [2, 1, 1, 1]
    assert rows.ids.name == "who" and rows.ids.tolist() == ["007", "8", "9", "10"]
    assert rows.missing == ("colour", "age")


def test_parquet_says_the_same(tmp_path, columns):
    frame = pd.DataFrame(
        {
            "who": ["007", "8", "9", "10"],
            "age": pd.array([1, None, 2, 3], "Int64"),
            "note": list("xyzz"),
            "good": [True, False, True, False],
            "times": [2, 1, 1, 1],
            "colour": pd.Categorical(["red", "NA", None, "01"]),
        }
    )
    frame.to_parquet(tmp_path / "t.parquet")
    rows = read_table(tmp_path / "t.parquet", columns)
    assert rows.features["colour"].cat.codes.tolist() == [0, 1, -1, 2]
    assert np.array_equal(rows.features["age"], [1, np.nan, 2, 3], equal_nan=True)
    assert rows.labels.tolist() == [1, 0, 1, 0] and rows.ids.tolist() == ["007", "8", "9", "10"]


def test_columns_are_inferred(tmp_path):
    path = written(tmp_path / "t.csv", "b,id,y,w,a\n1,x,0,2,\n2,y,1,1,5\n")
    rows = read_table(path, Columns.inferred("y", "w"), lambda name: name == "a")
    assert list(rows.features) == ["b", "a"] and rows.ids.tolist() == ["x", "y"]
    assert rows.labels.tolist() == [0, 1] and rows.weights.tolist() == [2, 1] and rows.missing == ()


def test_rows_to_predict_are_read_as_the_model_needs_them(tmp_path):
    names = ["x", "colour=red", "colour=1", "odd=name"]
    path = written(tmp_path / "t.csv", "colour,y,odd=name,id,x\n1,0,7,a,4\nred,1,8,b,5\n,1,9,c,6\n")
    rows = read_rows(path, Columns.inferred("y"), names, lambda name: name.startswith("colour"))
    assert list(rows.features) == ["x", "colour", "odd=name"] and rows.labels is None
    assert rows.features["colour"].cat.categories.tolist() == ["red", "1"]
    assert rows.features["colour"].cat.codes.tolist() == [1, 0, -1]


def test_predictions_come_back(tmp_path):
    ids = pd.Series(["007", "8"], name="who")
    write_predictions(tmp_path / "p.csv", ids, np.array([0.25, 0.5]))
    assert (tmp_path / "p.csv").read_text() == "who,prediction\n007,0.25\n8,0.5\n"
    write_predictions(tmp_path / "p.parquet", ids, np.array([[1.0, 2.0], [4.0, 3.0]]), "margin")
    table = pd.read_parquet(tmp_path / "p.parquet")
    assert list(table) == ["who", "prediction", "margin_0", "margin_1"] and table["prediction"].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("red", "rot", "column 'colour', line 2: value must be one of the categories, got 'rot'"),
        (
            "1.5",
            "old",
            r"column 'age', line 2: value must be a number, got 'old'; declare it categorical in schema\.toml",
        ),
        ("1,2,red", "1,much,red", "column 'times', line 2: value must be a number, got 'much'$"),
        ("1.5", "inf", "column 'age', line 2: value must be a finite number of float32, got 'inf'"),
        ("1.5", "1e39", r"column 'age', line 2: value must be a finite number of float32, got '1e\+39'"),
        ("9,2,y,1,1", "9,2,y,1,-1", "column 'times', line 4: weight must be at least 0, got -1"),
        (",good", ",bad", "column 'bad' is not in schema.toml"),
        ("age", "who", "column 'who' appears twice"),
        ("2,y,1,1,", "2,y,1,1,,9", "line 4 has 7 cells, and the header 6$"),
        ("y,1,1,\n", "y,1,1\n", "line 4 has 5 cells, and the header 6$"),
        ("8,NA", "\n8,NA", "line 3 is blank$"),
        ("who,", ",", "column 1 has no name: name it, or remove it$"),
        (
            "who,age,note,good,times,colour",
            "1,2,3,4,5,6.5",
            "line 1 has numbers only: a CSV file must begin with the names",
        ),
        ("who,age", "1,1", "column '1' appears twice"),
        ("007", '"007', "not a CSV table .unexpected end of data.$"),
        ("x,1,2", "x,,2", "column 'good', line 2: value is missing$"),
        ("007", "", "column 'who', line 2: the id is missing"),
    ],
)
def test_tables_that_are_not_as_the_schema_says(tmp_path, columns, old, new, sentence):
    assert old in TABLE
    path = written(tmp_path / "t.csv", TABLE.replace(old, new, 1))
    with pytest.raises(DataError, match=rf"t\.csv: {sentence}"):
        read_table(path, columns)


@pytest.mark.parametrize(
    ("name", "role", "readers"),
    [
        ("who", "the id", "table rows joinable"),
        ("age", "numeric", "table rows joinable"),
        ("colour", "categorical", "table joinable"),
        ("good", "the label", "table"),
        ("times", "the weight", "table"),
        ("note", "ignore", ""),
    ],
)
def test_columns_that_the_schema_declares_are_there(tmp_path, columns, name, role, readers):
    table = pd.read_csv(io.StringIO(TABLE), dtype=str, keep_default_na=False).drop(columns=name)
    table.to_csv(tmp_path / "t.csv", index=False)
    names = ["colour=red", "colour=NA", "colour=01", "age"]
    functions = {
        "table": lambda path: read_table(path, columns),
        "rows": lambda path: read_rows(path, columns, names),
        "joinable": lambda path: read_joinable(path, columns),
    }
    sentence = rf"t\.csv has no column '{name}', which schema\.toml declares as {role}$"
    for reader, read in functions.items():
        if reader in readers.split():
            with pytest.raises(DataError, match=sentence):
                read(tmp_path / "t.csv")
        elif (reader, name) != ("rows", "colour"):
            read(tmp_path / "t.csv")


def test_rows_have_as_many_cells_as_the_header(tmp_path):
    path = written(tmp_path / "t.csv", "x,y\n1,0,9\n2,1,9\n")
    with pytest.raises(DataError, match="line 2 has 3 cells, and the header 2"):
        read_table(path, Columns.inferred("y"))
    # If the last column may be missing, pandas fills it.
    path = written(tmp_path / "t.csv", "y,a,x\n1,2,0\n2,1\n")
    with pytest.raises(DataError, match="line 3 has 2 cells, and the header 3"):
        read_table(path, Columns.inferred("y"), lambda name: True)


def test_what_may_be_missing_is_named_where_it_can_be(tmp_path):
    path = written(tmp_path / "t.csv", "y,a\n1,\n")
    with pytest.raises(DataError, match=r"line 2: value is missing, and `missing` does not name the column$"):
        read_table(path, Columns.inferred("y"), lambda name: False)
    with pytest.raises(DataError, match=r"line 2: value is missing$"):
        read_table(path, Columns.inferred("y"))
    schema = Columns.read(written(tmp_path / "s.toml", 'y = "label"\na = "numeric"'))
    with pytest.raises(DataError, match=r"value is missing, and s\.toml does not declare missing values$"):
        read_table(path, schema, lambda name: False)


def test_lines_of_one_cell_are_counted(tmp_path):
    columns = Columns.inferred()
    rows = read_table(written(tmp_path / "t.csv", 'x\n1\n""\n3\n\n'), columns, lambda name: True)
    assert np.array_equal(rows.features["x"], [1, np.nan, 3], equal_nan=True)
    for text, sentence in (("x\n1\n\n3\n", "line 3 is blank"), ("x\n1\n  \n3\n", "must show where cells end")):
        with pytest.raises(DataError, match=sentence):
            read_table(written(tmp_path / "t.csv", text), columns, lambda name: True)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "the file is empty: a CSV file must begin with the names of its columns"),
        (b"\nx,y\n", "line 1 is blank: a CSV file must begin with the names of its columns"),
        (b"x;y\n1;0\n", "cells must be separated by commas, and line 1 has ';' and no comma"),
        (b"x\ty\n1\t0\n", r"cells must be separated by commas, and line 1 has '\\t' and no comma"),
        (
            "x,gr\u00f6\u00dfe\n1,0\n".encode("latin-1"),
            "must be text in UTF-8, got the byte 0xf6: convert it",
        ),
        ("x,y\n1,0\n".encode("utf-16"), "must be text in UTF-8, got the byte 0xff: convert it"),
        (b"PK\x03\x04\x00\x00\x08", r"not a CSV table \(line 1 has zero bytes\)"),
    ],
)
def test_files_of_other_programs_are_refused_by_name(tmp_path, content, sentence):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(DataError, match=rf"t\.csv: {sentence}$"):
        read_table(tmp_path / "t.csv", Columns.inferred("y"))


def test_a_table_with_a_byte_order_mark_is_read(tmp_path):
    (tmp_path / "t.csv").write_bytes("x,y\n1,0\n".encode("utf-8-sig"))
    assert list(read_table(tmp_path / "t.csv", Columns.inferred("y")).features) == ["x"]


def test_a_column_that_the_model_does_not_have_is_named(tmp_path):
    path = written(tmp_path / "t.csv", "x,z\n1,2\n")
    with pytest.raises(
        DataError, match=r"t\.csv: column 'z' is not a feature of the model: remove it, or let a schema"
    ):
        read_rows(path, Columns.inferred("y"), ["x"])


@pytest.mark.parametrize("name", ["idx", "ID", "customer_id", "customerId", "uuid", "row key"])
def test_an_id_by_another_name_is_no_feature(tmp_path, name):
    text = f"{name},x,y\n" + "".join(f"{i * 37 % 1009},{i}.5,{i % 2}\n" for i in range(20))
    with pytest.raises(
        DataError, match=f"column '{name}' has a different whole number in each row, like an id: name it 'id'"
    ):
        read_table(written(tmp_path / "t.csv", text), Columns.inferred("y"))
    schema = written(tmp_path / "s.toml", f'"{name}" = "numeric"\nx = "numeric"\ny = "label"')
    assert list(read_table(tmp_path / "t.csv", Columns.read(schema)).features) == [name, "x"]
    known = {name: Column(type="id"), "y": Column(type="label")}
    assert read_table(tmp_path / "t.csv", Columns(known)).ids.name == name


@pytest.mark.parametrize(
    ("name", "value"), [("paid", 7), ("VALID", 7), ("grid_size", 7), ("price_index", 0.5), ("idx", 0)]
)
def test_features_that_are_no_ids(tmp_path, name, value):
    text = f"{name},y\n" + "".join(f"{i * value},{i % 2}\n" for i in range(20))
    assert list(read_table(written(tmp_path / "t.csv", text), Columns.inferred("y")).features) == [name]


def test_a_number_of_each_row_is_told(tmp_path, caplog):
    text = "n,y\n" + "".join(f"{i},{i % 2}\n" for i in range(20))
    assert list(read_table(written(tmp_path / "t.csv", text), Columns.inferred("y")).features) == ["n"]
    assert "column 'n' numbers the rows and is used as a feature" in caplog.text


def test_times_are_not_numbers(tmp_path):
    pd.DataFrame({"when": pd.to_datetime(["2020-01-01"]), "y": [1]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match="column 'when': values must be numbers or text, got values of type datetime64"):
        read_table(tmp_path / "t.parquet", Columns.inferred("y"))
    pd.DataFrame({"x": ["a"], "y": [1]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match="column 'x', row 0: value must be a number, got 'a'; declare it"):
        read_table(tmp_path / "t.parquet", Columns.inferred("y"))
    pd.DataFrame({"x": [[1, 2]], "y": [1]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match="column 'x'"):
        read_table(tmp_path / "t.parquet", Columns.inferred("y"))


def test_classes_are_numbers_below_their_count(tmp_path):
    with pytest.raises(DataError, match=r"column 'y', line 3: label must be one of 0 \.\. 2, got 3"):
        check_classes(tmp_path / "t.csv", Columns.inferred("y"), np.array([2.0, 3.0]), 3)


def test_counts_are_not_negative(tmp_path):
    with pytest.raises(DataError, match=r"t\.csv: column 'y', line 4: label must be a count of at least 0, got -2"):
        check_range(tmp_path / "t.csv", Columns.inferred("y"), np.array([2.0, 0, -2]), "count:poisson")


def test_a_folder_is_no_file_to_write(tmp_path):
    writable(tmp_path / "model.json")
    with pytest.raises(DataError, match="cannot be written: it is a folder"):
        writable(tmp_path)
    with pytest.raises(DataError, match="there is no such folder"):
        writable(tmp_path / "nowhere" / "model.json")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('colour = "categorical"', "column 'colour': a categorical column must list its categories"),
        (
            'interest = { type = "numeric", categories = ["a"] }',
            "column 'interest': categories are those",
        ),
        ('c = { type = "categorical", categories = ["a", "a"] }', "column 'c': categories must differ from each other"),
        ('y = { type = "label", missing = true }', "column 'y': missing must be false for a column of type label"),
        ('x = "number"', "column 'x': type must be numeric, categorical, id"),
        ("x = 3", "column 'x': type"),
        ('a = "id"\nb = "id"', "columns 'a' and 'b' are both of type id"),
        ("x = ", "not TOML"),
    ],
)
def test_schema_files_that_say_nothing_sensible(tmp_path, line, sentence):
    path = written(tmp_path / "s.toml", line)
    with pytest.raises(ConfigError, match=rf"s\.toml: {sentence}"):
        Columns.read(path)
