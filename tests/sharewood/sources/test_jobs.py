"""Jobs between hosts whose tables are in databases and object stores: as those on files, and without a credential in
anything that they write.
"""

import json
import re

import duckdb
import numpy as np
import pandas as pd
import pytest

from mpc.errors import ConfigError, DataError
from mpc.host.ledger import Ledger
from sharewood.job.config import HostsConfig
from sharewood.job.files import training_tables, with_tables
from sharewood.job.owners import OwnerConfig, table_of
from tests.sharewood.commands.hosting import both, both_end, complaint, dealing, sharewood, write_job, write_owner
from tests.sharewood.sources.conftest import PASSWORD

ROWS = 400
TRAIN = {"partition": "vertical", "n_estimators": 2, "max_depth": 2, "max_bin": 8}


@pytest.fixture
def place(tmp_path, postgresql, monkeypatch):
    """A job by columns: party A's columns are in PostgreSQL, party B's, with the labels, in a DuckDB file."""
    postgresql.run(
        "DROP TABLE IF EXISTS customers",
        "CREATE TABLE customers AS SELECT g AS id, sin(g) AS w, cos(g)::numeric(8, 5) AS x "
        f"FROM generate_series(1, {ROWS}) AS g",
    )
    with duckdb.connect(str(tmp_path / "bank.db")) as base:
        base.execute(
            "CREATE TABLE loans AS SELECT range AS id, cos(2 * range) AS z, (sin(range) > 0)::INT AS bad "
            f"FROM range(1, {ROWS + 1})"
        )
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    a = {"data": postgresql.url, "query": "SELECT * FROM customers ORDER BY id"}
    b = {"data": "duckdb:bank.db", "query": "SELECT * FROM loans ORDER BY id"}
    sections = {}
    for party, source in (("a", a), ("b", b)):
        tables = {f"{field}.{key}": value for field in ("train_data", "predict_data") for key, value in source.items()}
        files = {"model": f"{party}.npz", "predictions": f"{party}_predictions.csv", "ledger": f"{party}.jsonl"}
        sections[f"party_{party}"] = files | tables
    write_job(
        tmp_path, {"party_a": sections["party_a"], "party_b": {"label": "bad", **sections["party_b"]}}, train=TRAIN
    )
    return tmp_path


def test_a_job_reads_its_tables_from_databases_and_tells_no_password(place, postgresql):
    with dealing(2, cwd=place):
        said = both("train", "--json", "{}.trained.json", cwd=place)
        said += both("predict", "--json", "{}.predicted.json", cwd=place)
    predictions = pd.read_csv(place / "b_predictions.csv")
    bad = np.sin(np.arange(1, ROWS + 1)) > 0
    assert predictions["id"].tolist() == list(range(1, ROWS + 1))
    assert ((predictions["prediction"] > 0.5) == bad).mean() > 0.95

    report = json.loads((place / "party_a.trained.json").read_text())
    assert report["run"]["files"]["train_data"] == "loans.parquet"
    again = json.loads((place / "party_a.predicted.json").read_text())
    assert again["run"]["digests"]["predict_data"] == report["run"]["digests"]["train_data"], (
        "the rows have not changed"
    )
    written = [path for path in place.rglob("*") if path.is_file() and "keys" not in path.parts]
    assert not any(PASSWORD.encode() in path.read_bytes() for path in written)
    assert not any(PASSWORD in text for text in said)
    assert list((place / "temporary").rglob("*.parquet")) == []

    # Years later, the rows of a query are still those of the record, until one changes.
    number = str(Ledger(place / "a.jsonl").entries[0]["number"])
    asked = "record", "table", "a.jsonl", number, postgresql.url, "--query", "SELECT * FROM customers ORDER BY id"
    status, out, _ = sharewood(*asked, cwd=place)
    assert status == 0 and "postgresql:///loans is train_data of party_a in number 0" in out
    postgresql.run("UPDATE customers SET w = 0 WHERE id = 7")
    status, _, log = sharewood(*asked, cwd=place)
    assert status == 2 and "no table of number 0 has this digest" in log


def test_a_table_is_that_of_a_file_with_the_same_rows(place, postgresql):
    config = HostsConfig.read(place / "party_a.toml")
    with with_tables(config, "party_a", "train_data", "test_data") as here:
        _, rows, _ = training_tables(here, "party_a")
    numbers = np.arange(1, ROWS + 1)
    expected = pd.DataFrame({"w": np.sin(numbers), "x": np.cos(numbers).round(5)})
    pd.testing.assert_frame_equal(rows.features, expected)
    assert rows.ids.tolist() == list(map(str, numbers))


def changed(place, old, new):
    text = (place / "party_a.toml").read_text()
    assert old in text
    (place / "party_a.toml").write_text(text.replace(old, new))


def test_a_value_that_is_wrong_is_named_by_its_source(place, monkeypatch, capsys):
    changed(place, "SELECT *", "SELECT id, CASE WHEN id = 7 THEN NULL ELSE w END AS w")
    said = complaint(monkeypatch, capsys, "train", "--config", place / "party_a.toml", "--party", "party_a")
    assert "postgresql:///loans: column 'w', row 6: value is missing" in said and "parquet" not in said
    changed(place, "CASE WHEN id = 7 THEN NULL ELSE w END AS w", "'red' AS w")
    said = complaint(monkeypatch, capsys, "train", "--config", place / "party_a.toml", "--party", "party_a")
    assert "(sharewood schema postgresql:///loans > schema.toml)" in said


def test_rows_without_an_order_are_refused(place):
    changed(place, " ORDER BY id", "")
    config = HostsConfig.read(place / "party_a.toml")
    said = r"^parties\.party_a\.train_data: the query must end with ORDER BY"
    with pytest.raises(ConfigError, match=said), with_tables(config, "party_a", "train_data"):
        pass
    [(status, _, log), _] = both_end("train", cwd=place)
    assert status == 2 and log.count("ORDER BY") == 1


def test_a_password_in_a_configuration_is_refused_and_not_repeated(place, monkeypatch, capsys):
    changed(place, "reader@", f"reader:{PASSWORD}@")
    for command in ("train", "check", "plan"):
        words = [command, "--config", place / "party_a.toml", *(["--party", "party_a"] if command != "plan" else [])]
        said = complaint(monkeypatch, capsys, *words)
        assert "parties.party_a.train_data: data must have no password: set PGPASSWORD" in said and PASSWORD not in said


def test_a_database_is_not_written_over(place):
    for name, key in (("party_b", "model"), ("party_b", "predictions")):
        text = (place / f"{name}.toml").read_text()
        odd = place / "odd.toml"
        odd.write_text(re.sub(rf'(?m)^{key} = ".*"', f'{key} = "bank.db"', text))
        status, _, log = sharewood("train", "--config", odd, "--party", name, cwd=place)
        assert status == 2 and f"parties.{name}.{key} and parties.{name}." in log and "must be different files" in log


def test_check_reads_the_table_and_a_schema_is_proposed(place, postgresql):
    status, out, log = sharewood("check", "--config", "party_a.toml", "--party", "party_a", cwd=place)
    assert f"postgresql:///loans has {ROWS} rows, 2 feature columns" in out + log
    asked = "SELECT *, 'x' || id % 2 AS shop FROM customers"
    status, out, log = sharewood("schema", postgresql.url, "--query", asked, cwd=place)
    assert status == 0, log
    assert "for postgresql:///loans. Check each line" in out and 'categories = ["x0", "x1"]' in out
    status, _, log = sharewood("schema", postgresql.url, cwd=place)
    assert status == 2 and "query must be set for a database" in log


def test_owners_bring_tables_likewise(place, postgresql):
    source = {
        "data.data": postgresql.url,
        "data.query": "SELECT w, x, (w > 0)::int AS label FROM customers ORDER BY id",
    }
    write_owner(place, "bank", [1, 2], {"data": "unused.csv"})
    text = (place / "bank.toml").read_text()
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in source.items())
    (place / "bank.toml").write_text(text.replace('data = "unused.csv"', lines))
    config = OwnerConfig.read(place / "bank.toml")
    rows = table_of(config)
    assert len(rows.features) == ROWS and rows.labels.mean() == pytest.approx(0.5, abs=0.02)
    (place / "bank.toml").write_text((place / "bank.toml").read_text().replace("(w > 0)::int AS label", "w AS label2"))
    with pytest.raises(DataError, match="postgresql:///loans: there is no label column 'label'"):
        table_of(OwnerConfig.read(place / "bank.toml"))
