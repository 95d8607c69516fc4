"""`sharewood schema`: what it proposes is TOML that every reader of tables accepts as it is."""

import datetime
import random
import string
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mpc.errors import ConfigError, DataError
from secure_tree.public.config import TrainConfig
from sharewood.tables.columns import Columns
from sharewood.tables.demo_data import Files, from_columns, from_files
from sharewood.tables.describing import describe
from sharewood.tables.proposing import document, propose
from sharewood.tables.tables import read_rows, read_table
from tests.sharewood.commands.hosting import COMMAND, complaint

SHARED = Path(__file__).parents[5] / "shared" / "data"


def written(folder, *paths, **options):
    """Write the proposal for tables as a schema file, and return its path and its text."""
    text = document(paths, propose(paths, **options))
    schema = folder / "proposed.toml"
    schema.write_text(text)
    return schema, text


def accepted(folder, path, **options):
    """Read a table with the proposed schema, and return its columns by type, and the remarks."""
    schema, text = written(folder, path, **options)
    columns = Columns.read(schema)
    read_table(path, columns)
    types = {}
    for name, column in columns.known.items():
        types.setdefault(column.type, []).append(name)
    return types, text, columns


BANK = pd.DataFrame(
    {
        "application_id": [f"A{i}" for i in range(60)],
        "purpose": ["debts", "car", 'a "house"'] * 20,
        "income": [1000.5, None, 900.0] * 20,
        "opened": ["2020-01-31", "2020-02-29", ""] * 20,
        "active": [True, False, True] * 20,
        "one": 1,
        "amount": [5.0] * 59 + [1e12],
        "note": [f"text {i % 40}" for i in range(60)],
        "empty": "",
        "mixed": ["1", "?", "2"] * 20,
        "price_index": np.arange(60) + 0.5,
        "code": [1, 2, 3] * 20,
        "customer key": range(60),
        "defaulted": [0, 1] * 30,
    }
)


def test_types_and_remarks(tmp_path):
    BANK.to_csv(tmp_path / "bank.csv", index=False)
    types, text, columns = accepted(tmp_path, tmp_path / "bank.csv", label="defaulted")
    assert types == {
        "id": ["application_id"],
        "categorical": ["purpose", "mixed"],
        "numeric": ["income", "active", "one", "amount", "price_index", "code", "customer key"],
        "ignore": ["opened", "note", "empty"],
        "label": ["defaulted"],
    }
    assert columns.missing == ("income",) and columns.known["purpose"].categories == ('a "house"', "car", "debts")
    for remark in (
        '"opened": dates, such as ',
        '"one": constant, 1 wherever',
        '"amount": has values as far as 1e+12',
        '"note": 40 different texts, like free text',
        '"empty": has no values',
        "\"mixed\": numbers, and texts such as '?'",
        '"code": has 3 different whole numbers: make it categorical if they are codes',
        '"customer key": has a different whole number in each row, like an id',
    ):
        assert f"# {remark}" in text


def test_the_command_prints_what_demo_and_train_accept(tmp_path):
    for name in ("a", "b"):
        BANK.to_csv(tmp_path / f"{name}.csv", index=False)
    done = subprocess.run(
        [*COMMAND, "schema", "a.csv", "b.csv", "--label", "defaulted"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0 and not done.stderr
    (tmp_path / "schema.toml").write_text(done.stdout)
    files = Files((tmp_path / "a.csv", tmp_path / "b.csv"), "y", (tmp_path / "schema.toml",))
    data = from_files(files, 0.2, TrainConfig.of())
    assert data.missing == ("income",) and data.train[0][0].shape == (48, 9)


def odd_table(rng, rows):
    """Return columns with odd names and values of every kind."""
    alphabet = string.ascii_letters + string.digits + " .-_=#[]'\"\\/é本🙂\u00a0{},:"
    names = {"".join(rng.choices(alphabet, k=rng.randint(1, 12))).strip() or "x" for _ in range(8)}
    makers = [
        lambda: rng.random(),
        lambda: rng.randint(-3, 3),
        lambda: rng.choice(["", "NA", "1.5", "null"]),
        lambda: rng.choice([True, False, ""]),
        lambda: rng.choice(["x", 'q"uote', "back\\slash", "a,b", "é", "", "#", "line\nend"]),
        lambda: rng.choice(["2020-01-01", "31.12.1999"]),
        lambda: rng.choice(["1", "2", "three", "", "1e39"]),
        lambda: "".join(rng.choices(alphabet, k=6)),
        lambda: "",
        lambda: rng.choice([1e12, 1.0]),
    ]
    made = {name: rng.choice(makers) for name in sorted(names)}
    return pd.DataFrame({name: [make() for _ in range(rows)] for name, make in made.items()})


@pytest.mark.parametrize("seed", range(30))
def test_odd_tables_are_read_with_their_proposal(tmp_path, seed):
    rng = random.Random(seed)
    table = odd_table(rng, rng.choice([1, 2, 40])).assign(label=0)
    if rng.random() < 0.5:
        table["id"] = [f"r{i}" for i in range(len(table))]
    path = tmp_path / "odd.csv"
    table.to_csv(path, index=False)
    types, _, columns = accepted(tmp_path, path)
    assert [name for some in types.values() for name in some] and set(columns.known) == set(table)
    assert columns.named("label") == "label"


def test_parquet_with_its_own_types(tmp_path):
    pytest.importorskip("pyarrow")
    n = 8
    table = pd.DataFrame(
        {
            "id": range(n),
            "day": [datetime.date(2020, 1, 1)] * n,
            "time": pd.to_datetime(["2020-01-01"] * n),
            "list": [[1]] * n,
            "flag": pd.array([True, None] * 4, "boolean"),
            "kind": pd.Categorical(["a", "b"] * 4),
            "count": pd.array([1, None] * 4, "Int64"),
            "y": [0, 1] * 4,
        }
    )
    table.to_parquet(tmp_path / "t.parquet")
    types, text, columns = accepted(tmp_path, tmp_path / "t.parquet")
    assert types["id"] == ["id"] and types["ignore"] == ["day", "time", "list"] and types["label"] == ["y"]
    assert columns.missing == ("flag", "count") and "values of type date are not supported" in text


def test_tables_with_other_columns_share_a_schema(tmp_path):
    pd.DataFrame({"a": [1, 2], "only": [1, 2], "k": ["x", "y"], "y": [0, 1]}).to_csv(tmp_path / "a.csv", index=False)
    pd.DataFrame({"k": ["z", ""], "a": [1.5, None]}).to_csv(tmp_path / "new.csv", index=False)
    schema, text = written(tmp_path, tmp_path / "a.csv", tmp_path / "new.csv")
    columns = Columns.read(schema)
    assert columns.known["k"].categories == ("x", "y", "z") and columns.missing == ("a", "k")
    assert '# "only": not a column of ' in text
    read_table(tmp_path / "a.csv", columns)
    names = ["a", "k=x", "k=y", "k=z"]
    assert read_rows(tmp_path / "new.csv", columns, names, lambda name: True).features.shape == (2, 2)


def test_a_column_that_no_table_has_is_no_label(tmp_path, monkeypatch, capsys):
    BANK.to_csv(tmp_path / "bank.csv", index=False)
    said = complaint(monkeypatch, capsys, "schema", tmp_path / "bank.csv", "--label", "missing")
    assert "--label: no table has a column 'missing'; the columns are application_id, purpose" in said
    _, text = written(tmp_path, tmp_path / "bank.csv")
    assert "# No column is the label" in text


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data sets are not here")
@pytest.mark.parametrize("path", sorted(SHARED.glob("*/*.csv")), ids=lambda path: path.stem)
def test_public_tables(tmp_path, path):
    head = tmp_path / "head.csv"
    head.write_text("\n".join(path.read_text().splitlines()[:2000]) + "\n")
    types, _, _ = accepted(tmp_path, head)
    assert "id" not in types or types["id"] == ["id"]


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data sets are not here")
def test_public_tables_by_columns(tmp_path):
    pair = [SHARED / "hetero" / f"student_hetero_{role}.csv" for role in ("guest", "host")]
    schemas = []
    for number, path in enumerate(pair):
        schemas.append(tmp_path / f"{number}.toml")
        schemas[-1].write_text(document([path], propose([path])))
    data = from_columns(Files(tuple(pair), "y", tuple(schemas)), 0.2, TrainConfig.of(objective="reg:squarederror"))
    assert data.partition == "vertical"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('purpose = "categorical"', "column 'purpose': a categorical column must list its categories, as in"),
        (
            'd = "date"',
            "got 'date': ignore dates, or turn them into numbers of days",
        ),
        ("d = 5", "type must be numeric, categorical, id, label, weight or ignore, got 5"),
        ("d = { missing = true }", "type must be numeric, categorical, id, label, weight or ignore, got None"),
        ('d = { type = "numeric", categories = ["a"] }', 'categories are those of a column of type "categorical"'),
    ],
)
def test_odd_entries_of_a_schema(tmp_path, line, sentence):
    (tmp_path / "s.toml").write_text(line)
    with pytest.raises(ConfigError) as error:
        Columns.read(tmp_path / "s.toml")
    assert sentence in str(error.value)


def test_all_columns_that_do_not_fit_are_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b,c,y\n1,2,3,0\n")
    (tmp_path / "s.toml").write_text(
        'a = "numeric"\nx = "numeric"\nz = "numeric"\nb = "ignore"\nc = "numeric"\ny = "label"'
    )
    with pytest.raises(DataError, match=r"has no columns 'x' and 'z', which s\.toml declares"):
        read_table(path, Columns.read(tmp_path / "s.toml"))
    (tmp_path / "s.toml").write_text('a = "numeric"\n')
    with pytest.raises(DataError, match=r"columns 'b', 'c' and 'y' are not in s\.toml"):
        read_table(path, Columns.read(tmp_path / "s.toml"))
    with pytest.raises(DataError, match="has no columns 'p' and 'q', which the model needs"):
        read_rows(path, Columns.inferred("y"), ["p", "q"])
    with pytest.raises(DataError, match="columns 'b' and 'c' are no features of the model: remove them"):
        read_rows(path, Columns.inferred("y"), ["a"])


def test_messages_that_send_to_a_schema_file_say_how(tmp_path):
    path = tmp_path / "t.csv"
    pd.DataFrame({"note": [f"n{i}" for i in range(40)], "y": 0}).to_csv(path, index=False)
    for read in (lambda: describe([path], Columns.inferred("y")), lambda: read_table(path, Columns.inferred("y"))):
        with pytest.raises(DataError, match=r"sharewood schema t\.csv > schema\.toml"):
            read()
