"""Records of commands between hosts, by TLS, and the commands that verify them offline."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from mpc.host.ledger import Ledger
from tests.sharewood.commands.hosting import both, both_end, dealing, sharewood, write_job
from tests.sharewood.page.pages import check_page

FILES = {
    "train_data": "{}.csv",
    "predict_data": "{}.csv",
    "model": "{}_model.npz",
    "predictions": "{}_predictions.csv",
    "screened": "{}_screened.json",
    "ledger": "{}_ledger.jsonl",
    "revealed": "{}_revealed.json",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded")
    rng = np.random.default_rng(5)
    X = rng.normal(size=(1200, 4)).round(3)
    table = pd.DataFrame(X, columns=list("wxyz")).assign(id=np.arange(len(X)))
    table[["id", "w", "x"]].to_csv(folder / "a.csv", index=False)
    bad = (X[:, 1] + X[:, 3] > 1).astype(int)
    table[["id", "y", "z"]].assign(bad=bad).to_csv(folder / "b.csv", index=False)
    sections = {f"party_{p}": {k: v.format(p) for k, v in FILES.items()} | {"reveal_to": ["party_b"]} for p in "ab"}
    sections["party_b"]["label"] = "bad"
    train = {"partition": "vertical", "n_estimators": 2, "max_depth": 2, "max_bin": 8, "test_size": 0.2}
    write_job(folder, sections, train=train, explore={"top": 2})
    with dealing(4, cwd=folder):
        both("explore", "--json", "{}.explored.json", cwd=folder)
        said = both("train", "--json", "{}.trained.json", cwd=folder)
        both("predict", "--json", "{}.predicted.json", cwd=folder)
        both("reveal", "--to", "party_b", cwd=folder)
    assert all("number 2 of the ledger is a record of this run, signed by both parties" in text for text in said)
    return folder


def records(folder):
    return [entry for entry in Ledger(folder / "a_ledger.jsonl").entries if entry["kind"] == "record"]


def test_every_command_ends_with_a_record(place):
    assert (place / "a_ledger.jsonl").read_bytes() == (place / "b_ledger.jsonl").read_bytes()
    explored, trained, predicted, revealed = records(place)
    assert [e["job"] for e in records(place)] == ["explore", "train", "predict", "reveal"]
    assert [e["number"] for e in records(place)] == [1, 2, 3, 4]
    # The release was written before anything was opened, and the record names it.
    [told] = explored["spent"].values()
    assert list(explored["entries"]) == ["0"] and told == {"bits": 3, "rho": 0}
    assert explored["results"]["named"] == {"party_a": ["x"], "party_b": ["z"]}
    model = trained["results"]["model"]
    assert model == predicted["results"]["model"] == revealed["results"]["model"]
    assert trained["results"]["validation_rows"] == [240, 240] and 0 < trained["results"]["metrics"]["logloss"] < 0.7
    learned = [[own["learned"] for own in e["parties"].values()] for e in records(place)]
    assert learned[2] == [["whether the rows have the same ids"], learned[2][1]]
    assert learned[2][1][-1] == "predictions of the rows" and learned[3][0] == [] != learned[3][1]
    for p in "ab":
        report = json.loads((place / f"party_{p}.trained.json").read_text())
        assert report["record"]["number"] == 2 and report["record"]["run"] == trained["run"]
        assert Ledger(place / f"{p}_ledger.jsonl").entries[3]["previous"] == report["record"]["hash"]
        assert (place / f"{p}_ledger.jsonl.key").stat().st_mode & 0o777 == 0o600


def test_the_commands_of_records(place):
    authority = "--authority", "keys/authority.crt"
    status, said, log = sharewood("record", "verify", ".", *authority, cwd=place)
    assert status == 0 and said.count("5 lines, 4 records") == 2 and said.count("signed by party_") == 2, log
    status, said, _ = sharewood("record", "verify", "a_ledger.jsonl", cwd=place)
    assert status == 0 and "missing at the end would not be noticed" in said and "use --authority" in said
    status, said, _ = sharewood("record", "show", "a_ledger.jsonl", cwd=place)
    assert status == 0 and all(job in said for job in ("explore", "train", "predict", "reveal"))
    status, said, log = sharewood("record", "card", ".", "--page", "card.html", "--json", "card.json", cwd=place)
    assert status == 0 and "trained in number 2, used in 2 later runs" in said, log
    page = check_page((place / "card.html").read_text())
    assert "Model card of" in page and "log loss" in page and "predictions of the rows" in page and "1,200" not in page
    card = json.loads((place / "card.json").read_text())
    assert card["training"]["number"] == 2 and [use["job"] for use in card["uses"]] == ["predict", "reveal"]


def test_a_table_is_proved_by_its_owner_and_by_whoever_gets_the_key(place, tmp_path):
    status, said, log = sharewood("record", "table", "a_ledger.jsonl", 2, "a.csv", cwd=place)
    assert status == 0 and "a.csv is train_data of party_a in number 2" in said, log
    key = said.split()[-1]
    for path in [*place.glob("*.crt"), place / "b_ledger.jsonl", place / "a.csv", place / "b.csv"]:
        shutil.copy(path, tmp_path)
    status, said, log = sharewood("record", "table", "b_ledger.jsonl", 2, "a.csv", "--key", key, cwd=tmp_path)
    assert status == 0 and "train_data of party_a" in said, log
    # The key is that of one record: it proves nothing about another run with the same table.
    for wrong in (("3", "a.csv", "--key", key), ("2", "b.csv", "--key", key), ("2", "a.csv")):
        status, _, log = sharewood("record", "table", "b_ledger.jsonl", *wrong, cwd=tmp_path)
        assert status == 2 and ("no table of number" in log or "must be given by --key" in log)


def test_what_is_wrong_is_said_in_one_sentence(place, tmp_path):
    for path in [*place.glob("*.crt"), *place.glob("*.jsonl")]:
        shutil.copy(path, tmp_path)
    lines = (tmp_path / "b_ledger.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "b_ledger.jsonl").write_text("".join(lines[:-1]))
    for arguments, sentence in (
        (("verify", "."), "b_ledger.jsonl lacks the last 1 of the 5 lines of a_ledger.jsonl"),
        (("verify", "none.jsonl"), "none.jsonl: there is no ledger"),
        (("verify", str(place / "keys")), "there is no ledger"),
        (("verify", "a_ledger.jsonl", "--head", "0" * 64), "the last line must have the hash"),
        (("card", "a_ledger.jsonl", "--model", "ab"), "there is no record of the training of ab"),
        (("card", "a_ledger.jsonl", "--page", "a_ledger.jsonl"), "must be different files"),
        (("table", "a_ledger.jsonl", "0", "a_ledger.jsonl"), "number 0 is not a record"),
    ):
        status, _, log = sharewood("record", *arguments, cwd=tmp_path)
        assert status == 2 and sentence in log and log.count("\n") == 1, log


# A command whose process ends at once, as if it were killed, where it would write a line of the ledger.
KILLED = """
import os
from mpc.host.ledger import Ledger
Ledger.append = lambda *_, **__: os._exit(9)
from sharewood.cli import main
main()
"""


@pytest.mark.long
def test_a_party_that_is_killed_between_signature_and_line(place):
    before = len(Ledger(place / "a_ledger.jsonl").lines)
    arguments = "reveal", "--to", "party_b", "--config"
    with dealing(1, cwd=place):
        killed = subprocess.Popen(
            [sys.executable, "-c", KILLED, *arguments, "party_a.toml", "--party", "party_a"], cwd=place
        )
        status, said, log = sharewood(*arguments, "party_b.toml", "--party", "party_b", cwd=place)
        assert killed.wait(100) == 9 and status == 0, log
    assert f"number {before} of the ledger is a record" in said
    assert [len(Ledger(place / f"{p}_ledger.jsonl").lines) - before for p in "ab"] == [0, 1]
    with dealing(1, cwd=place):
        both("reveal", "--to", "party_b", cwd=place)
    status, said, log = sharewood("record", "verify", ".", "--authority", "keys/authority.crt", cwd=place)
    assert status == 0 and said.count(f"{before + 2} lines, {before + 1} records") == 2, log


def test_a_ledger_at_one_party_only_is_refused_before_the_run(place):
    path = place / "party_b.toml"
    text = path.read_text()
    path.write_text(text.replace('ledger = "b_ledger.jsonl"\n', ""))
    try:
        ends = both_end("train", cwd=place)
    finally:
        path.write_text(text)
    assert [status for status, _, _ in ends] == [2, 2]
    assert "the hosts disagree on ledger: only this party keeps a ledger" in ends[0][2]
    assert "the hosts disagree on ledger: only party_a keeps a ledger" in ends[1][2]
