"""Paths of a job: no output is an input or another output, by any name; odd files and names end in one sentence."""

import os
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from mpc.errors import ConfigError, DataError
from secure_tree.model.shared_model import SharedModel
from sharewood.commands.hosts.train import train_half
from sharewood.commands.local.export import export
from sharewood.job import session
from sharewood.job.config import WRITTEN, HostsConfig
from sharewood.job.files import own_half
from sharewood.job.paths import check_paths
from sharewood.job.sections import PartySection
from sharewood.job.session import bringing
from sharewood.tables.columns import Columns
from sharewood.tables.files import not_a_formula, read_cells, writable
from tests.sharewood.commands.hosting import COMMAND, complaint, in_threads, write_job

READ = "columns", "align_data", "train_data", "test_data", "continue_from", "predict_data"
CHAINED = {("aligned", key) for key in ("train_data", "test_data", "predict_data")}


@pytest.fixture
def config(tmp_path):
    """A job without a dealer, whose files need not exist; `of` sets keys of the first party."""

    def of(**keys):
        lines = ['tls = "keys"', 'offline = "pairwise"', "[parties.b]", "[parties.a]", 'address = "127.0.0.1:1"']
        lines += [f"{key} = {str(value)!r}" for key, value in keys.items()]
        (tmp_path / "a.toml").write_text("\n".join(lines))
        return HostsConfig.read(tmp_path / "a.toml")

    (tmp_path / "data.csv").write_text("x,label\n1,0\n")
    return of


def pairs():
    files = [key for key, field in PartySection.model_fields.items() if "Path" in str(field.annotation)]
    assert set(files) == {*WRITTEN, *READ}
    return [(w, other) for w in WRITTEN for other in files if other != w and (w, other) not in CHAINED]


@pytest.mark.parametrize(("written", "other"), pairs())
def test_an_output_is_no_other_file_of_the_party(config, tmp_path, written, other):
    job = config(**{written: tmp_path / "data.csv", other: "./sub/../data.csv"})
    (tmp_path / "sub").mkdir()
    with pytest.raises(ConfigError, match=f"parties.a.({written}|{other}) and .* must be different files"):
        check_paths(job, "a", {}, {})
    assert (tmp_path / "data.csv").read_text() == "x,label\n1,0\n"


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_links_are_followed(config, tmp_path, link):
    link(tmp_path / "data.csv", tmp_path / "other.npz")
    with pytest.raises(ConfigError, match=r"parties.a.model and parties.a.train_data must be different files"):
        check_paths(config(model="other.npz", train_data="data.csv"), "a", {}, {})


def test_the_other_party_may_use_the_same_names_and_align_feeds_training(config):
    job = config(aligned="data.csv", train_data="data.csv", predict_data="data.csv", model="a.npz")
    check_paths(job, "a", {}, {})
    check_paths(job, "b", {}, {})


@pytest.mark.parametrize(
    ("keys", "writes"),
    [
        ({"model": "keys/a.key"}, {}),
        ({"predictions": "keys/authority.crt"}, {}),
        ({"model": "m.npz"}, {"--json": "m.npz"}),
        ({"train_data": "data.csv"}, {"--json": "data.csv"}),
        ({"model": "m.npz", "train_data": "m.report.html"}, {}),
    ],
)
def test_keys_options_and_pages_are_files_of_their_own(config, tmp_path, keys, writes):
    given = {what: tmp_path / path for what, path in writes.items()}
    with pytest.raises(ConfigError, match="must be different files"):
        check_paths(config(**keys), "a", given, {})


def test_nothing_is_written_into_a_folder_of_tables(config, tmp_path):
    (tmp_path / "tables").mkdir()
    with pytest.raises(ConfigError, match="must be different files"):
        check_paths(config(train_data="tables", predictions="tables/part.csv"), "a", {}, {})


def test_a_result_is_not_the_configuration(config):
    with pytest.raises(ConfigError, match=r"parties\.a\.model must not be the configuration itself"):
        config(model="a.toml")


def test_commands_that_write_beside_their_input(tmp_path, monkeypatch, capsys):
    both = tmp_path / "m.json"
    both.write_text("{}")
    with pytest.raises(ConfigError, match="--out and --model must be different files"):
        export(both, both)
    said = complaint(monkeypatch, capsys, "report", both, "--page", both)
    assert "--page and report 1 must be different files" in said
    said = complaint(monkeypatch, capsys, "demo", "--data", both, both, "--json", both)
    assert "--json and the first file must be different files" in said and both.read_text() == "{}"


@pytest.mark.parametrize("name", ["n" * 300 + ".npz", "a\0b.npz", "n" * 250 + ".npz"])
def test_names_that_cannot_exist_are_a_sentence_and_the_other_party_is_told(config, tmp_path, monkeypatch, name):
    told = []
    monkeypatch.setattr(session, "decline", lambda *_: told.append(True))
    monkeypatch.setattr(HostsConfig, "credentials", lambda *_: None)
    job = config(train_data="data.csv").model_copy()
    section = job.parties["a"].model_copy(update={"model": tmp_path / name})
    job = job.model_copy(update={"parties": {**job.parties, "a": section}})
    with pytest.raises(DataError, match="the name of a file must have") as error, bringing(job, "a"):
        writable(job.needs("a", "model"))
    assert told and len(str(error.value)) < 500 and "\0" not in str(error.value)


def test_the_other_party_is_told_of_any_error_of_a_file(config, monkeypatch, tmp_path):
    told = []
    monkeypatch.setattr(session, "decline", lambda *_: told.append(True))
    monkeypatch.setattr(HostsConfig, "credentials", lambda *_: None)
    with pytest.raises(DataError, match="File name too long"), bringing(config(), "a"):
        (tmp_path / ("n" * 300)).is_dir()
    assert told


def sparse(path):
    with path.open("wb") as file:
        file.truncate(3 << 30)


@pytest.mark.parametrize("odd", [os.mkfifo, sparse])
@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("job.toml", HostsConfig.read),
        ("schema.toml", Columns.read),
        ("table.csv", lambda path: read_cells(path, [])),
        ("table.parquet", lambda path: read_cells(path, [])),
        ("model.npz", SharedModel.load),
        ("model.json", SharedModel.load),
    ],
)
@pytest.mark.timeout(20)
def test_what_is_no_file_or_far_too_large_is_refused_at_once(tmp_path, name, read, odd):
    odd(tmp_path / name)
    with pytest.raises((ConfigError, DataError), match=name) as error:
        read(tmp_path / name)
    assert "\n" not in str(error.value)


def test_a_fifo_is_no_key(tmp_path, monkeypatch, capsys):
    os.mkfifo(tmp_path / "key", 0o600)
    said = complaint(
        monkeypatch, capsys, "export", "--model", "m.npz", "--out", "o", "--files-key", f"file:{tmp_path / 'key'}"
    )
    assert "must be a regular file, got a FIFO or a device" in said


def test_a_full_standard_output_is_status_2(tmp_path):
    keys = ["keygen", "--out", str(tmp_path / "keys"), "--names", "a", "b"]
    with open("/dev/full", "w") as full:
        ended = subprocess.run([*COMMAND, *keys], stdout=full, stderr=subprocess.PIPE, text=True)
        assert ended.returncode == 2 and "files named as written are complete" in ended.stderr
        assert ended.stderr.count("\n") == 1 and Path(tmp_path / "keys" / "a.key").is_file()
        assert subprocess.run([*COMMAND, "--version"], stdout=full, stderr=full).returncode == 2


def test_formulas_are_text_in_a_spreadsheet():
    assert [not_a_formula(name) for name in ("=1+1", "+x", "-x", "@x", "x=1")] == ["'=1+1", "'+x", "'-x", "'@x", "x=1"]


def test_names_with_control_characters_are_refused(tmp_path):
    (tmp_path / "s.toml").write_text('x = {type = "categorical", categories = ["a", "b\\u001b]0;owned\\u0007"]}')
    with pytest.raises(ConfigError, match="categories must have no control characters"):
        Columns.read(tmp_path / "s.toml")
    pd.DataFrame({"a\u202eb": [1]}).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(DataError, match="has unprintable characters"):
        read_cells(tmp_path / "t.csv", [])
    pd.DataFrame({"montant\u00a0net": [1]}).to_csv(tmp_path / "t.csv", index=False)
    assert list(read_cells(tmp_path / "t.csv", [])) == ["montant\u00a0net"]


def test_a_model_grows_on_new_rows_from_the_command_line(tmp_path, monkeypatch):
    train = {"n_estimators": 2, "max_depth": 1, "max_bin": 4}
    names = {"train_data": "{}.csv", "model": "{}.npz"}
    sections = {f"party_{p}": {key: name.format(p) for key, name in names.items()} for p in "ab"}
    write_job(tmp_path, sections, train=train)
    for p in "ab":
        values = [f"{i % 7},{i % 3},{int(i % 7 > 3)}" for i in range(30)]
        (tmp_path / f"{p}.csv").write_text("\n".join(["x,z,label", *values]) + "\n")
    in_threads(monkeypatch, tmp_path, train_half, False, None)
    for p in "ab":
        (tmp_path / f"{p}.npz").rename(tmp_path / f"{p}_old.npz")
        values = [f"{i % 5},{i % 2},{int(i % 5 > 2)}" for i in range(40)]
        (tmp_path / f"{p}.csv").write_text("\n".join(["x,z,label", *values]) + "\n")

    def go_on(config, name):
        return train_half(config.continuing(name, tmp_path / f"{name[-1]}_old.npz"), name, False, None)

    first, _ = in_threads(monkeypatch, tmp_path, go_on)
    model = SharedModel.load(tmp_path / "a.npz")
    assert model.rounds == 4 and first.rounds_of_trees.asked == first.rounds_of_trees.kept == 4
    swapped = HostsConfig.read(tmp_path / "party_a.toml").continuing("party_a", tmp_path / "b_old.npz")
    with pytest.raises(DataError, match="must be the half of party_a, got that of party_b"):
        own_half(swapped, "party_a", "continue_from")
