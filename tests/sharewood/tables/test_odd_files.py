"""Malformed files: every reader of a table, a configuration or a plain model ends with one sentence."""

import datetime
import decimal
import random
import re
from functools import partial

import numpy as np
import pandas as pd
import pytest
import xgboost

from mpc.errors import DataError, SharewoodError
from secure_tree.exchange.plain_model import PlainModel
from secure_tree.exchange.xgboost import from_xgboost, to_xgboost
from secure_tree.model.storage import read_json, write_arrays
from secure_tree.public.config import TrainConfig
from sharewood.job.config import HostsConfig
from sharewood.job.sizes import planned
from sharewood.tables.columns import Columns
from sharewood.tables.demo_data import Files, from_columns, from_files
from sharewood.tables.tables import known_labels, read_joinable, read_rows, read_table
from tests.sharewood.commands.hosting import EXAMPLES, complaint

SCHEMA = """
id = "id"
age = { type = "numeric", missing = true }
region = { type = "categorical", categories = ["north", "south"] }
x = "numeric"
y = "label"
w = "weight"
"""
FEATURES = ["age", "region=north", "region=south", "x"]
PIECES = [
    b"", b",", b"\n", b"\r\n", b'"', b"'", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"NaN", b"inf", b"-1", b"0", b"1e999",
    b"9" * 40, b"0x10", b"1_000", b"true", b"null", b"[]", b"{}", b"[[[[", b"[" * 3000, b"{" * 3000, b"=", b"]", b"}",
    b"1979-05-27", b"07:32:00", b"a.b", b"\\u0000", b"\\ud800", b"#", b";", b"\t", b" ", b"\xc3", "é".encode(), b"id",
    b"-9223372036854775809", b"18446744073709551616", b"1e308", b"5e-324", b"x" * 5000,
]  # fmt: skip
TOKEN = re.compile(rb"[A-Za-z_0-9.+-]+|\"[^\"]*\"|[^\w\s]|\s")


def mutated(data, rng):
    """Return a copy with one to three of its bytes, tokens or lines changed, dropped, doubled, swapped or truncated."""
    for _ in range(rng.randint(1, 3)):
        place, piece = rng.randrange(len(data) + 1), rng.choice([rng.choice(PIECES), rng.randbytes(1)])
        match rng.randrange(5):
            case 0:
                data = rng.choice([data[:place], data[:place] + piece + data[place + rng.randrange(2) :]])
            case 1:
                data = b"".join(changed(data.splitlines(keepends=True), rng))
            case _:
                data = b"".join(changed(TOKEN.findall(data), rng))
    return data


def changed(parts, rng):
    if parts:
        i, j = rng.randrange(len(parts)), rng.randrange(len(parts))
        match rng.randrange(4):
            case 0:
                parts[i] = rng.choice(PIECES)
            case 1:
                del parts[i]
            case 2:
                parts.insert(i, parts[j])
            case 3:
                parts[i], parts[j] = parts[j], parts[i]
    return parts


def table():
    n = np.arange(20)
    region = np.where(n % 3, "north", "south")
    return pd.DataFrame({"id": n, "age": n * 3 % 7, "region": region, "x": n / 7, "y": n % 2, "w": 1 + n % 3})


def readers_of_a_table(path):
    for columns in (Columns.read(path.with_name("good.schema")), Columns.inferred("y", "w")):
        yield partial(read_table, path, columns)
        yield partial(read_rows, path, columns, FEATURES)
        yield partial(read_joinable, path, columns)
        yield partial(known_labels, path, columns, FEATURES, 2)
    other = path.with_name("good.csv")
    for read in (from_files, from_columns):
        yield from (partial(read, Files(pair, "y"), 0.2, TrainConfig.of()) for pair in ((path, other), (other, path)))


def readers_of_a_configuration(path):
    def read():
        config = HostsConfig.read(path)
        for name in config.names:
            config.columns(name)
        planned(config)

    yield read


KINDS = {
    "table.csv": readers_of_a_table,
    "table.parquet": readers_of_a_table,
    "schema.toml": lambda path: [lambda: read_table(path.with_name("good.csv"), Columns.read(path))],
    "columns.toml": readers_of_a_configuration,
    "rows.toml": readers_of_a_configuration,
    "xgboost.json": lambda path: [lambda: from_xgboost(read_json(path, "model of XGBoost in JSON"), str(path))],
    "revealed.json": lambda path: [lambda: to_xgboost(PlainModel.load(path))],
}


@pytest.fixture
def good(tmp_path):
    """Return the bytes of a valid file of each kind, by name."""
    for name in ("schema.toml", "good.schema"):
        (tmp_path / name).write_text(SCHEMA)
    for name in ("table.csv", "good.csv"):
        table().to_csv(tmp_path / name, index=False)
    table().to_parquet(tmp_path / "table.parquet")
    for name, example in (("columns.toml", "vertical_a.toml"), ("rows.toml", "party_a.toml")):
        (tmp_path / name).write_bytes((EXAMPLES / example).read_bytes())
    (tmp_path / "schema_a.toml").write_bytes((EXAMPLES / "schema_a.toml").read_bytes())
    X = table()[["age", "x"]]
    booster = xgboost.train({"objective": "binary:logistic"}, xgboost.DMatrix(X, label=table()["y"]), 2)
    booster.save_model(tmp_path / "xgboost.json")
    plain = from_xgboost(read_json(tmp_path / "xgboost.json", "model"), "model")
    write_arrays(tmp_path / "revealed.json", *plain.pack())
    return {name: (tmp_path / name).read_bytes() for name in KINDS}


@pytest.mark.parametrize("name", KINDS)
def test_good_files_are_read(good, tmp_path, name):
    for read in list(KINDS[name](tmp_path / name))[:1]:
        read()


@pytest.mark.parametrize("count", [15, pytest.param(800, marks=[pytest.mark.long, pytest.mark.timeout(3600)])])
@pytest.mark.parametrize("name", KINDS)
def test_mutated_files_end_in_one_sentence(good, tmp_path, name, count):
    rng = random.Random(count)
    path = tmp_path / name
    for _ in range(count):
        path.write_bytes(mutated(good[name], rng))
        for read in KINDS[name](path):
            try:
                read()
            except SharewoodError as error:
                assert "\n" not in str(error)


@pytest.mark.parametrize(
    "values",
    [
        [[1], [2]],
        [{"a": 1}, {"a": 2}],
        [b"x", b"\xff"],
        [datetime.date(2020, 1, 1)] * 2,
        [datetime.time(1)] * 2,
        [datetime.timedelta(1)] * 2,
        [datetime.datetime(2020, 1, 1)] * 2,
    ],
    ids=lambda values: type(values[0]).__name__,
)
@pytest.mark.parametrize("name", ["id", "x", "y"])
def test_a_column_of_parquet_is_numbers_or_text(tmp_path, name, values):
    path = tmp_path / "t.parquet"
    pd.DataFrame({"x": [1.0, 2.0], "y": [0, 1]} | {name: values}).to_parquet(path)
    with pytest.raises(DataError, match=f"column '{name}': values must be numbers or text, got values of type"):
        read_table(path, Columns.inferred("y"), lambda name: True)
    with pytest.raises(DataError, match=f"column '{name}': values must be numbers or text, got values of type"):
        from_files(Files((path, path), "y"), 0, TrainConfig.of())


def test_other_numbers_of_parquet_are_numbers(tmp_path):
    columns = {"x": [decimal.Decimal("1.5"), None], "z": pd.array([True, None], "boolean"), "y": ["1", "0"]}
    pd.DataFrame(columns).to_parquet(tmp_path / "t.parquet")
    rows = read_table(tmp_path / "t.parquet", Columns.inferred("y"), lambda name: True)
    assert rows.features.iloc[0].tolist() == [1.5, 1] and rows.labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('"i\nd",x,y\n1,2,0\n', r"the name of column 1, 'i\\nd', has unprintable characters"),
        (
            f"id,x,y\n1,{'many ' * 100},0\n",
            r"line 2: value must be a number, got '(many ){10}\.\.\.'; declare it",
        ),
        (f"id,x,y\n1,{'9' * 200_000},0\n", r"not a CSV table \(field larger than field limit"),
        ('id,x,y\n1,"a\nb",0\n', r"value must be a number, got 'a\\nb'"),
    ],
)
def test_a_message_is_one_short_line(tmp_path, text, sentence):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DataError, match=sentence) as error:
        read_table(tmp_path / "t.csv", Columns.inferred("y"))
    assert "\n" not in str(error.value) and len(str(error.value)) < 300


def test_a_folder_is_no_table(tmp_path):
    with pytest.raises(DataError, match=r"cannot be read \(Is a directory\)"):
        read_table(tmp_path, Columns.inferred("y"))


@pytest.mark.parametrize("name", ["table.csv", "table.npz", "table.json"])
def test_export_of_a_table_is_one_plain_sentence(tmp_path, monkeypatch, capsys, name):
    table().to_csv(tmp_path / name, index=False)
    said = complaint(monkeypatch, capsys, "export", "--model", tmp_path / name, "--out", tmp_path / "out.json")
    assert f"{name}: not a revealed model file" in said and "pickle" not in said
