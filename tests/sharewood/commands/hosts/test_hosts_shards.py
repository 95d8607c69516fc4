"""Two hosts with workers that read their own rows from folders get the models of one process, by rows and columns."""

import contextlib
import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from mpc.errors import ConfigError, DataError
from secure_tree.agreement.same_rows import digest_of
from secure_tree.data.categories import dictionary
from secure_tree.public.config import TrainConfig
from sharewood.commands.hosts.train import train_half
from sharewood.commands.setup.check import findings
from sharewood.job.config import HostsConfig
from sharewood.tables.columns import Columns
from sharewood.tables.sharded import to_predict, to_train_on, write_shards
from tests.sharewood.commands.hosting import LONGEST, ROLES, both, both_end, dealing, start, write_job

TRAIN = {"n_estimators": 4, "max_depth": 2, "max_bin": 16, "learning_rate": 0.5}
SHARDS = ("--shards", "2")


def population(rows, seed):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(rows, 4)).round(2), columns=list("wxyz"))
    table["colour"] = rng.choice(["red", "green", "blue"], rows)
    noise = 0.5 * rng.normal(size=rows)
    table["label"] = (table["w"] + table["x"] * table["y"] + (table["colour"] == "red") + noise > 0.3).astype(int)
    table.loc[::9, "z"] = np.nan
    table.insert(0, "id", rng.permutation(rows) + 1000)
    return table


def schema(columns):
    kinds = {
        "id": '"id"',
        "label": '"label"',
        "colour": '{ type = "categorical", categories = ["red", "green", "blue"] }',
    }
    kinds["z"] = '{ type = "numeric", missing = true }'
    return "".join(f"{name} = {kinds.get(name, chr(34) + 'numeric' + chr(34))}\n" for name in columns)


def write_folder(folder, frame, suffix, ends):
    folder.mkdir()
    for k, part in enumerate(np.split(np.arange(len(frame)), ends)):
        path = folder / f"part-{k}.{suffix}"
        frame.iloc[part].to_csv(path, index=False) if suffix == "csv" else frame.iloc[part].to_parquet(path)


def sections(place, **settings):
    """Return the text for both parties, with their letter instead of *."""
    return {
        name: {"columns": f"schema_{name[-1]}.toml"} | {k: v.replace("*", name[-1]) for k, v in settings.items()}
        for name in ROLES[:2]
    }


def report_of(place, name, kind):
    return json.loads((place / f"{name}.{kind}.json").read_text())


def predictions(place, name):
    """Return predictions by id, and their files."""
    found = place / f"predictions_{name}"
    files = sorted(found.glob("shard-*")) if found.is_dir() else [found]
    tables = [pd.read_csv(path) if path.suffix != ".parquet" else pd.read_parquet(path) for path in files]
    together = pd.concat(tables, ignore_index=True).astype({"id": "int64"})  # in parquet they are text
    return together.set_index("id")["prediction"], tables


@pytest.fixture
def by_rows(tmp_path):
    """Folders of four files a party, unevenly divided, CSV at one and parquet at the other; and the same as files."""
    people, fresh = population(700, 1), population(300, 2)
    for name, suffix, rows, new in (
        ("a", "csv", slice(0, 300), slice(0, 100)),
        ("b", "parquet", slice(300, 700), slice(100, 300)),
    ):
        write_folder(tmp_path / f"train_{name}", people[rows], suffix, [20, 21, 190])
        write_folder(tmp_path / f"new_{name}", fresh[new], suffix, [30, 70])
        people[rows].to_csv(tmp_path / f"train_{name}.csv", index=False)
        fresh[new].to_csv(tmp_path / f"new_{name}.csv", index=False)
        (tmp_path / f"schema_{name}.toml").write_text(schema(people.columns))
    files = {"train_data": "train_*", "predict_data": "new_*", "model": "model_*.npz", "predictions": "predictions_*"}
    write_job(tmp_path, sections(tmp_path, checkpoints="kept_*", **files), train=TRAIN)
    return tmp_path, fresh


@pytest.mark.long
def test_folders_by_rows_make_the_model_of_one_process(by_rows):
    place, fresh = by_rows
    with dealing(11, cwd=place):
        both("train", *SHARDS, "--json", "{}.train.json", cwd=place)
        pages = {name: (place / f"model_{name}.report.html").read_text() for name in "ab"}
        both("predict", *SHARDS, "--json", "{}.predict.json", cwd=place)
        both("train", *SHARDS, "--resume", cwd=place)
        in_files = {name: (place / f"{name}.toml").read_text() for name in ROLES[:2]}
        for name, text in in_files.items():
            for kind in ("train", "new"):
                text = text.replace(f'"{kind}_{name[-1]}"', f'"{kind}_{name[-1]}.csv"')
            text = text.replace("predictions_", "single_").replace("kept_", "single_kept_")
            (place / f"{name}.toml").write_text(text)
        both("train", cwd=place)
        both("predict", cwd=place)
    for name in "ab":
        division = report_of(place, f"party_{name}", "train")["division"]
        assert division["rows"] == [[150, 150], [200, 200]]
        assert set(division["rank_errors"]) == {"w", "x", "y", "z", "colour=red", "colour=green", "colour=blue"}
        assert max(division["rank_errors"].values()) == 0
        assert "Rows in 2 shards per party, of 150 to 200 rows." in pages[name] and "Work by shard" in pages[name]
        assert [each["shard"] for each in report_of(place, f"party_{name}", "train")["by_shard"]] == [0, 1]
    for name, rows, least in (("a", slice(0, 100), 0.78), ("b", slice(100, 300), 0.85)):
        ours, files = predictions(place, name)
        assert [len(each) for each in files] == [(rows.stop - rows.start) // 2] * 2
        single = pd.read_csv(place / f"single_{name}").set_index("id")["prediction"]
        truth = fresh[rows].set_index("id")["label"]
        assert (ours.index == truth.index).all() and (single.index == truth.index).all()
        assert np.abs(ours - single).max() < 1e-3
        assert roc_auc_score(truth, ours) > least
        assert report_of(place, f"party_{name}", "predict")["quality"]["auc"] > least


@pytest.mark.long
@pytest.mark.parametrize(("lost", "ray_dies"), [("party_a", False), ("party_b", False), ("party_a", True)])
def test_a_training_goes_on_after_a_lead_was_lost(by_rows, lost, ray_dies, monkeypatch):
    """Also if Ray dies on its machine, which ends the lead."""
    place, fresh = by_rows
    monkeypatch.setenv("SHAREWOOD_TEST", str(place))
    for name in ROLES[:2]:
        path = place / f"{name}.toml"
        path.write_text(path.read_text().replace("n_estimators = 4", "n_estimators = 40"))
    with dealing_on(place):
        work = {}
        for name in ROLES[:2]:
            monkeypatch.setenv("SHAREWOOD_PARTY", name)
            work[name] = start("train", "--config", f"{name}.toml", "--party", name, *SHARDS, cwd=place)
        until = time.monotonic() + LONGEST
        while not all((place / f"kept_{name[-1]}" / "round_00003.npz").exists() for name in work):
            assert time.monotonic() < until and all(process.poll() is None for process in work.values())
            time.sleep(0.02)
        if ray_dies:
            (raylet,) = (pid for pid, name in workers_of(place, lost).items() if name.endswith("/raylet"))
            os.kill(int(raylet), signal.SIGKILL)
        else:
            work[lost].kill()
        said = {name: process.communicate(timeout=LONGEST)[1] for name, process in work.items()}
        (other,) = set(work) - {lost}
        last = said[other].strip().splitlines()[-1]
        assert work[other].returncode == 3 and lost in last and "--resume" in last, said
        if ray_dies:
            (sentence,) = (line for line in said[lost].splitlines() if line[:1] != "2")  # other lines begin with a date
            assert work[lost].returncode == 3 and sentence.startswith("sharewood: ") and "Ray has" in sentence, said
        until = time.monotonic() + 20
        while left := workers_of(place):
            assert time.monotonic() < until, f"Ray outlives its lead: {left}"
            time.sleep(0.2)
        again = both_end("train", *SHARDS, "--resume", cwd=place)
        assert all(status == 0 and "resumed after round" in log for status, _, log in again), again
        both("predict", *SHARDS, cwd=place)
    for name, rows in (("a", slice(0, 100)), ("b", slice(100, 300))):
        assert roc_auc_score(fresh[rows].set_index("id")["label"], predictions(place, name)[0]) > 0.8


@contextlib.contextmanager
def dealing_on(place):
    """Run a dealer that may fail in a session."""
    dealer = start("dealer", "--config", "dealer.toml", cwd=place)
    try:
        yield
    finally:
        dealer.kill()
        dealer.communicate()


def workers_of(place, party=""):
    """Return the Ray processes that this test's processes have started, or those of one party."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            name = (path / "cmdline").read_bytes().split(b"\0")[0].decode()
            if "ray" in name.rpartition("/")[2] and _begun_by(path / "environ", place, party):
                found[path.name] = name
    return found


def _begun_by(path, place, party):
    found = path.read_text().split("\0")
    return f"SHAREWOOD_TEST={place}" in found and (not party or f"SHAREWOOD_PARTY={party}" in found)


def on_shards(place, shards=2):
    return HostsConfig.read(place / "party_a.toml").on_cluster("party_a", shards, None)


def test_tables_that_make_no_shards_are_refused(ray, by_rows):
    place, _ = by_rows
    with pytest.raises(DataError, match="train_a: must be a file without shards, got a folder"):
        train_half(on_shards(place, 0), "party_a", False, None)
    with pytest.raises(DataError, match="train_a: must have at least one row per shard, got 300 rows for 301 shards"):
        train_half(on_shards(place, 301), "party_a", False, None)
    path = place / "train_a" / "part-2.csv"
    pd.read_csv(path).rename(columns={"y": "why"}).to_csv(path, index=False)
    with pytest.raises(DataError, match=r"part-2.csv: must have the columns of part-0.csv .* but has 'why'"):
        train_half(on_shards(place), "party_a", False, None)
    text = (place / "schema_a.toml").read_text()
    (place / "schema_a.toml").write_text(text.replace('label = "label"\n', 'risk = "label"\n'))
    with pytest.raises(DataError, match=r"part-0.csv has no column 'risk', which schema_a"):
        train_half(on_shards(place), "party_a", False, None)


def test_a_ray_without_shards_is_refused(by_rows):
    config = HostsConfig.read(by_rows[0] / "party_a.toml")
    with pytest.raises(ConfigError, match="--ray must be used with shards: add --shards N, or leave out --ray"):
        config.on_cluster("party_a", None, "127.0.0.1:6380")
    assert config.on_cluster("party_a", 2, "127.0.0.1:6380").party("party_a").ray == "127.0.0.1:6380"


def test_a_check_counts_the_rows_of_a_folder(ray, by_rows):
    place, _ = by_rows
    found = {finding.what: finding for finding in findings(on_shards(place), "party_a", 0.1)}
    assert found["train_data"].text.endswith("train_a has 300 rows, 5 feature columns")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_workers_read_what_one_process_reads(ray, tmp_path, suffix):
    """Predictions of a folder are in a folder, and those of a file in a file, with the labels if all are known."""
    people = population(60, 3)
    write_folder(tmp_path / "table", people, suffix, [11, 12, 40])
    (tmp_path / "schema.toml").write_text(schema(people.columns))
    columns, config = Columns.read(tmp_path / "schema.toml"), TrainConfig(missing=("z",))
    rows = to_train_on(tmp_path / "table", columns, 4)
    known = dictionary(rows.features.header)
    tables = [part.read(config, known) for part in rows.features.parts]
    assert [len(table.features) for table in tables] == [15] * 4 and rows.columns == 5
    assert tables[0].names == ("w", "x", "y", "z", "colour=red", "colour=green", "colour=blue")
    assert np.array_equal(np.concatenate([table.labels for table in tables]), people["label"])
    assert tables[3].ids == digest_of(people["id"][45:].astype(str))
    found = np.concatenate([table.features for table in tables])
    assert np.array_equal(found[:, :4], people[list("wxyz")].to_numpy(np.float32), equal_nan=True)
    assert np.array_equal(found[:, 4], people["colour"] == "red")

    asked = to_predict(tmp_path / "table", columns, tables[0].names, 4)
    again = [part.read(config, dictionary(asked.features.header)) for part in asked.features.parts]
    assert np.array_equal(np.concatenate([table.features for table in again]), found, equal_nan=True)
    values = np.arange(60) / 60
    labels = write_shards(tmp_path / "table", asked, values, "probability", 2, tmp_path / "out")
    assert np.array_equal(labels, people["label"])
    files = sorted((tmp_path / "out").glob(f"shard-0000*-of-00004.{suffix}"))
    read = pd.read_csv if suffix == "csv" else pd.read_parquet
    written = pd.concat([read(path) for path in files], ignore_index=True)
    assert len(files) == 4 and not list(tmp_path.glob("*.partial"))
    assert np.array_equal(written["prediction"], values)
    assert written["id"].astype(str).tolist() == people["id"].astype(str).tolist()
    one = to_predict(files[0], Columns.inferred(), ("prediction",), 3)
    assert write_shards(files[0], one, values[:15], "probability", 2, tmp_path / "one.csv") is None
    assert pd.read_csv(tmp_path / "one.csv")["id"].tolist() == people["id"][:15].tolist()


@pytest.mark.long
def test_aligned_folders_by_columns_make_the_model_of_one_process(tmp_path):
    place = tmp_path
    # In three trees of these rows no two splits have nearly the same gain (the twin: 7% apart), so coins decide none.
    people, rng = population(500, 45), np.random.default_rng(6)
    for name, some in (("a", ["w", "x", "label"]), ("b", ["y", "z", "colour"])):
        frame = people[["id", *some]].iloc[rng.permutation(500)[: 480 if name == "a" else 450]]
        write_folder(place / f"all_{name}", frame, "csv", [100])
        (place / f"schema_{name}.toml").write_text(schema(frame.columns))
    files = {"align_data": "all_*", "aligned": "joined_*", "train_data": "joined_*", "predict_data": "joined_*"}
    files |= {"model": "model_*.npz", "predictions": "predictions_*"}
    write_job(place, sections(place, **files), train={**TRAIN, "n_estimators": 3, "partition": "vertical"})
    with dealing(8, cwd=place):
        both("align", *SHARDS, cwd=place)
        both("train", *SHARDS, "--json", "{}.train.json", cwd=place)
        both("predict", *SHARDS, cwd=place)
        for name in ROLES[:2]:
            files = sorted((place / f"joined_{name[-1]}").glob("shard-*"))
            whole = pd.concat([pd.read_csv(path) for path in files])
            whole.to_csv(place / f"joined_{name[-1]}.csv", index=False)
            text = (place / f"{name}.toml").read_text().replace("predictions_", "single_")
            for kind in ("train_data", "predict_data"):
                text = text.replace(f'{kind} = "joined_{name[-1]}"', f'{kind} = "joined_{name[-1]}.csv"')
            (place / f"{name}.toml").write_text(text)
        both("train", cwd=place)
        both("predict", cwd=place)
    ours, parts = predictions(place, "a")
    rows = report_of(place, "party_a", "train")["division"]["rows"]
    assert rows[0] == rows[1] == [len(part) for part in parts]
    single = pd.read_csv(place / "single_a").set_index("id")["prediction"]
    assert (ours.index == single.index).all() and np.abs(ours - single).max() < 1e-3
    truth = people.set_index("id")["label"].loc[ours.index]
    assert roc_auc_score(truth, ours) > 0.8
    assert not (place / "predictions_b").exists()
