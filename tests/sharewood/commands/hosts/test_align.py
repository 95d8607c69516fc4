"""`sharewood align` between two processes over TLS, and one sentence for tables that cannot be joined."""

import sys

import pandas as pd
import pytest

from mpc.host.extras import install
from sharewood.commands.hosts import align
from tests.sharewood.commands.hosting import both, both_end, complaint, write_job


@pytest.fixture
def tables(tmp_path):
    """A CSV file and a parquet file, ids as text and as numbers; four people are in both."""
    sections = {
        "party_a": {"align_data": "all_a.csv", "aligned": "a.csv"},
        "party_b": {"align_data": "all_b.parquet", "aligned": "b.parquet"},
    }
    write_job(tmp_path, sections)
    (tmp_path / "all_a.csv").write_text("id,x,note\n7,0.10,NA\n3,1e3,\n99,5,only here\n10,2,yes\n4,3,no\n")
    pd.DataFrame({"id": [4, 10, 5, 7, 3], "y": [0.4, 1.0, 0.5, 0.7, 0.3]}).to_parquet(tmp_path / "all_b.parquet")
    return tmp_path


def test_both_files_have_the_common_rows_in_one_order(tables):
    said = both("align", cwd=tables)
    assert all("4 of 5 rows" in text for text in said)
    # Cells remain as they were written.
    assert (tables / "a.csv").read_text() == "id,x,note\n10,2,yes\n3,1e3,\n4,3,no\n7,0.10,NA\n"
    joined = pd.read_parquet(tables / "b.parquet")
    assert joined["id"].tolist() == [10, 3, 4, 7] and joined["y"].tolist() == [1.0, 0.3, 0.4, 0.7]


def test_nothing_in_common_is_one_sentence_at_both(tables):
    (tables / "all_a.csv").write_text("id,x\n007,1\n3.0,2\n")
    for status, _, said in both_end("align", cwd=tables):
        assert status == 2 and "none in common; ids are compared as text" in said and said.count("\n") == 1
    assert not (tables / "a.csv").exists() and not (tables / "b.parquet").exists()


@pytest.mark.parametrize(
    ("party", "table", "sentence"),
    [
        ("party_a", "id,x\n1,1\n2,2\n1,3\n", "all_a.csv: column 'id', line 4: id '1' appears twice"),
        ("party_a", "id,x\n1,1\n,2\n", "all_a.csv: column 'id', line 3: the id is missing"),
        ("party_a", "x\n1\n", "all_a.csv has no id column; its columns are x"),
        ("party_a", "id,x\n", "all_a.csv: the table has no rows"),
        ("party_b", {"id": [1.0, 2.0]}, "column 'id': ids must be text or whole numbers, got fractions or gaps"),
        ("party_b", {"id": ["a", "b", "a"]}, "all_b.parquet: column 'id', row 2: id 'a' appears twice"),
        ("party_b", "id,x\n1,2\n", "all_b.parquet: not a parquet table"),
    ],
)
def test_ids_that_cannot_be_joined(tables, monkeypatch, capsys, party, table, sentence):
    path = tables / ("all_a.csv" if party == "party_a" else "all_b.parquet")
    if isinstance(table, dict):
        pd.DataFrame(table).to_parquet(path)
    else:
        path.write_text(table)
    said = complaint(monkeypatch, capsys, "align", "--config", tables / f"{party}.toml", "--party", party)
    assert sentence in said


def test_without_the_library(tables, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "nacl", None)
    monkeypatch.setattr(align, "run_pair", lambda *_: pytest.fail("it connects"))
    said = complaint(monkeypatch, capsys, "align", "--config", tables / "party_b.toml", "--party", "party_b")
    assert f"needs PyNaCl, which is not installed: {install('align')}" in said


def test_several_columns_are_joined_on_and_counts_are_padded(tables):
    for party, on in (("party_a", '["bank", "customer"]'), ("party_b", '["iban", "no"]')):
        path = tables / f"{party}.toml"
        path.write_text(path.read_text().replace("align_data", f"align_on = {on}\nalign_data"))
    rows = ['x,"a, b",7', "y,a,7", 'z,"a"", ""b",7', "w,a,07", 'v,"ä",8']
    (tables / "all_a.csv").write_text("\n".join(["v,bank,customer", *rows]) + "\n")
    # The cells of one key are not those of another that has the same letters.
    iban = ["a, b", "a", 'a", "b', "a", "ä"]
    pd.DataFrame({"no": [7, 70, 7, 77, 8], "iban": iban}).to_parquet(tables / "all_b.parquet")
    said = both("align", "--pad", "8", cwd=tables)
    assert all("3 of 5 rows" in text for text in said)
    assert sorted(pd.read_csv(tables / "a.csv")["v"]) == ["v", "x", "z"]
    joined = pd.read_parquet(tables / "b.parquet")
    assert list(zip(joined["iban"], joined["no"], strict=True)) == [
        (bank, int(no)) for bank, no in pd.read_csv(tables / "a.csv", dtype=str)[["bank", "customer"]].to_numpy()
    ]


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ("bank,x\na,1\n", "all_a.csv has no column 'customer', which align_on names; its columns are bank, x"),
        ("bank,customer\na,1\nb,1\na,1\n", "column 'bank, customer', line 4: id '[\"a\", \"1\"]' appears twice"),
        ("bank,customer\na,1\nb,\n", "column 'customer', line 3: the id is missing"),
    ],
)
def test_keys_that_cannot_be_joined(tables, monkeypatch, capsys, table, sentence):
    path = tables / "party_a.toml"
    path.write_text(path.read_text().replace("align_data", 'align_on = ["bank", "customer"]\nalign_data'))
    (tables / "all_a.csv").write_text(table)
    assert sentence in complaint(monkeypatch, capsys, "align", "--config", path, "--party", "party_a")
