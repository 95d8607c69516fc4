"""Two hosts with workers that read their own rows, from folders: by rows and by columns, the models of one process."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from tests.sharewood.hosting import ROLES, both, dealing, write_job

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
    """For both parties, a letter of theirs in the place of a *."""
    return {
        name: {"columns": f"schema_{name[-1]}.toml"} | {k: v.replace("*", name[-1]) for k, v in settings.items()}
        for name in ROLES[:2]
    }


def report_of(place, name, kind):
    return json.loads((place / f"{name}.{kind}.json").read_text())


def predictions(place, name):
    """By id, and the files that they lie in."""
    found = place / f"predictions_{name}"
    files = sorted(found.glob("shard-*")) if found.is_dir() else [found]
    tables = [pd.read_csv(path) if path.suffix != ".parquet" else pd.read_parquet(path) for path in files]
    return pd.concat(tables, ignore_index=True).set_index("id")["prediction"], tables


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
    with dealing(12, cwd=place):
        both("train", *SHARDS, "--json", "{}.train.json", cwd=place)
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
    for name, rows in (("a", slice(0, 100)), ("b", slice(100, 300))):
        ours, files = predictions(place, name)
        assert [len(each) for each in files] == [(rows.stop - rows.start) // 2] * 2
        single = pd.read_csv(place / f"single_{name}").set_index("id")["prediction"]
        truth = fresh[rows].set_index("id")["label"]
        assert (ours.index == truth.index).all() and (single.index == truth.index).all()
        assert np.abs(ours - single).max() < 1e-3
        assert roc_auc_score(truth, ours) > 0.8
        assert report_of(place, f"party_{name}", "predict")["quality"]["auc"] > 0.8
