"""`sharewood purge` lists what a run left, deletes it on request, and nothing else."""

import sys

import pytest

from sharewood import cli
from sharewood.tables.shards import write_manifest
from tests.sharewood.commands.hosting import complaint

JOB = """
tls = "keys"
offline = "pairwise"
[parties.party_a]
address = "127.0.0.1:50011"
align_data = "raw.csv"
aligned = "joined"
train_data = "joined"
predict_data = "new.csv"
predictions = "out.csv"
model = "half.npz"
checkpoints = "ck"
served = "served"
prepared = "material"
revealed = "model.json"
[parties.party_b]
"""
BROUGHT = "raw.csv", "new.csv", "keys/party_a.key", "job.toml", "joined_too/notes.txt", "ck/notes.txt", "served/notes"
WRITTEN = (
    *("out.csv", "half.npz", "half.npz.partial", "material", "model.json", "report.json"),
    *("joined/shard-00000-of-00001.csv", "joined/shards.json", "joined.partial/pieces/piece.csv"),
    *("ck/key", "ck/round_00001.npz", "ck/margin_00001.npz.partial", "ck/bins_00000.npz"),
    *("served/2026-03-01.served", "served/2026-03-02.served"),
)


def run(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["sharewood", "purge", "--config", "job.toml", "--party", "party_a", *arguments])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code in (None, 0)
    return capsys.readouterr().out


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in (*BROUGHT, *WRITTEN):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("content")
    write_manifest(tmp_path / "joined", [1])
    (tmp_path / "job.toml").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_it_lists_first_and_deletes_with_yes(folder, monkeypatch, capsys):
    listed = run(monkeypatch, capsys, "--report", "report.json")
    assert "nothing was deleted: to delete these, add --yes" in listed and files(folder) == {*BROUGHT, *WRITTEN}
    for name in ("out.csv", "half.npz.partial", "material", "joined.partial", "ck  (4 files", "report.json"):
        assert name in listed
    assert run(monkeypatch, capsys, "--report", "report.json", "--yes").endswith("deleted\n")
    assert files(folder) == set(BROUGHT)
    assert run(monkeypatch, capsys) == "nothing to delete\n"


def test_kinds_are_kept(folder, monkeypatch, capsys):
    run(monkeypatch, capsys, "--yes", "--keep", "model", "--keep", "aligned")
    kept = {"half.npz", "half.npz.partial", *(name for name in WRITTEN if name.startswith("joined"))}
    assert files(folder) == {*BROUGHT, *kept, "report.json"}
    assert "--keep must be model or" in complaint(
        monkeypatch, capsys, *("purge", "--config", "job.toml", "--party", "party_a", "--keep", "everything")
    )


def test_nothing_that_a_party_brought_is_deleted(folder, monkeypatch, capsys):
    text = JOB.replace('predictions = "out.csv"', 'predictions = "new.csv"').replace('"joined"', '"joined_too"')
    (folder / "job.toml").write_text(text)
    (folder / "half.npz").unlink()
    (folder / "half.npz").symlink_to("raw.csv")
    said = run(monkeypatch, capsys, "--yes")
    assert "new.csv  (0.00 MB" in said and "kept, it is a table that this party brought" in said
    assert "kept, it has no shards.json" in said and "kept, it is a link: delete its target yourself" in said
    assert set(BROUGHT) <= files(folder)


def test_another_party_or_report_is_refused(folder, monkeypatch, capsys):
    job = "purge", "--config", "job.toml", "--party"
    assert "'dealer' is not one of the parties" in complaint(monkeypatch, capsys, *job, "dealer")
    assert "there is no such file" in complaint(monkeypatch, capsys, *job, "party_a", "--report", "none.json")
