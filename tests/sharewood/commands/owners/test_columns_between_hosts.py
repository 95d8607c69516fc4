"""Owners of columns contribute between hosts: collected, trained on, and asked again for each prediction; clients ask
services of the model.
"""

import json

import httpx
import numpy as np
import pandas as pd
import pytest

from tests.ports import free_port
from tests.sharewood.commands.hosting import (
    ROLES,
    both,
    both_end,
    dealing,
    ends_of,
    sharewood,
    start,
    write_job,
    write_owner,
)
from tests.sharewood.serving.test_serve import WAIT, running, until_ready

OWNERS = ["bank_c", "bank_d"]
TRAIN = {"partition": "vertical", "n_estimators": 3, "max_depth": 2, "max_bin": 8}
COLUMNS = {"party_a": ["u"], "party_b": ["v"], "bank_c": ["w", "x"], "bank_d": ["y", "label"]}


def people(n, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 5)).round(3), columns=list("uvwxy"))
    frame.insert(0, "id", [f"p{k}" for k in range(n)])
    return frame.assign(label=(frame[list("uwy")].sum(axis=1) > 0).astype(int))


def write_tables(place, frame, folder=""):
    for name, columns in COLUMNS.items():
        frame[["id", *columns]].to_csv(place / folder / f"{name}.csv", index=False)


@pytest.fixture
def place(tmp_path):
    """Return a folder with the files of two parties, a dealer, and the owners bank_c and bank_d, who has the labels."""
    ports = [free_port() for _ in ROLES[:2]]
    sections = {
        name: {
            "train_data": f"{name}.csv", "model": f"{name}.npz", "predict_data": f"new/{name}.csv",
            "predictions": f"{name}.out.csv", "owners_address": f"127.0.0.1:{port}", "contributed": f"{name}.given",
        }
        for name, port in zip(ROLES[:2], ports, strict=True)
    }  # fmt: skip
    more = {"owners": {"names": OWNERS, "patience": 30}, "predict": {"to": "party_a"}}
    write_job(tmp_path, sections, OWNERS, train=TRAIN, **more)
    for name in OWNERS:
        for file, data in ((name, f"{name}.csv"), (f"new_{name}", f"new/{name}.csv")):
            labels = {"label": "label"} if name == "bank_d" else {}
            terms = {"max_bin": 8, "partition": "vertical"}
            write_owner(tmp_path, file, ports, {"name": name, "data": data, **labels}, terms)
    (tmp_path / "new").mkdir()
    write_tables(tmp_path, people(150, 1))
    write_tables(tmp_path, people(40, 2), "new")
    return tmp_path


def contributing(place, *files):
    return {file: start("contribute", "--config", f"{file}.toml", cwd=place) for file in files}


def test_columns_are_collected_trained_on_and_asked_for_again(place):
    with dealing(4, cwd=place):
        owners = contributing(place, *OWNERS)
        said = both("collect", cwd=place)
        ends = ends_of(owners)
        assert all(status == 0 for status, _, _ in ends.values()), ends
        both("train", "--json", "{}.train.json", cwd=place)
        both("cv", "--folds", "3", "--json", "{}.cv.json", cwd=place)
        owners = contributing(place, "new_bank_c", "new_bank_d")
        both("predict", cwd=place)
        ends = ends_of(owners)
        assert all(status == 0 for status, _, _ in ends.values()), ends
    receipt = json.loads((place / "bank_d.json").read_text())
    assert f"bank_d: 150 rows, contribution {receipt['id']}" in said[0]
    folds = [json.loads((place / f"{name}.cv.json").read_text())["table"] for name in ROLES[:2]]
    assert folds[0] == folds[1] and len(folds[0]) == 3
    report = json.loads((place / "party_b.train.json").read_text())
    assert report["data"]["owners"] == {"bank_c": 150, "bank_d": 150} and report["data"]["features"] == 5
    predicted = pd.read_csv(place / "party_a.out.csv")
    assert predicted["id"].tolist()[:2] == ["p0", "p1"] and not (place / "party_b.out.csv").exists()
    assert ((predicted["prediction"] > 0.5) == (people(40, 2)["label"] == 1)).mean() > 0.75
    check_a_client(place, predicted)


def check_a_client(place, predicted):
    """Both parties serve the model over TLS, and a client gets what party A has predicted with the owners."""
    urls, told = {}, ['tls = "keys"', 'columns = "schema.toml"']
    for name in ROLES[:2]:
        port = free_port()
        urls[name], path = f"https://127.0.0.1:{port}", place / f"{name}.toml"
        serve = [f'address = "127.0.0.1:{port}"', f'certificate = "keys/{name}.crt"', f'key = "keys/{name}.key"']
        serve += ['token_file = "token"', "halves = true", "largest_batch = 64", "ahead = 4"]
        path.write_text(path.read_text() + "\n".join(["[serve]", *serve]) + "\n")
        told += [f"[services.{name}]", f'address = "127.0.0.1:{port}"', 'token_file = "token"']
    (place / "client.toml").write_text("\n".join(told) + "\n")
    (place / "token").write_text("a token of this test")
    (place / "token").chmod(0o600)
    (place / "schema.toml").write_text('id = "id"\nlabel = "label"\n' + "".join(f'{c} = "numeric"\n' for c in "uvwxy"))
    people(40, 2).to_csv(place / "new.csv", index=False)
    with running(place, *ROLES) as processes, httpx.Client(verify=False, timeout=WAIT) as http:
        for name in ROLES[:2]:
            until_ready(http, urls[name], processes[name])
        query = "query", "--config", "client.toml", "--rows", "new.csv", "--out", "client.csv"
        status, said, error = sharewood(*query, cwd=place)
        assert status == 0 and "client.csv: predictions of 40 rows" in said, (said, error)
        http.headers = {"Authorization": "Bearer a token of this test"}
        for url in urls.values():
            answer = http.post(f"{url}/v1/predict", json={"rows": [{"id": "p0", "u": 1.0}]})
            assert answer.status_code == 404 and "has columns of bank_c, bank_d" in answer.json()["detail"]
    pd.testing.assert_frame_equal(pd.read_csv(place / "client.csv"), predicted[["id", "prediction"]])


@pytest.mark.long
def test_workers_train_on_contributed_columns(place):
    predicted = []
    with dealing(7, cwd=place):
        owners = contributing(place, *OWNERS)
        both("collect", cwd=place)
        assert all(status == 0 for status, _, _ in ends_of(owners).values())
        for shards in ((), ("--shards", "2")):
            both("train", *shards, cwd=place)
            owners = contributing(place, "new_bank_c", "new_bank_d")
            both("predict", cwd=place)
            assert all(status == 0 for status, _, _ in ends_of(owners).values())
            predicted.append(pd.read_csv(place / "party_a.out.csv")["prediction"])
    assert predicted[0].std() > 0.05 and (predicted[0] - predicted[1]).abs().max() < 2e-3


@pytest.mark.long
def test_other_ids_are_named_and_nothing_is_kept(place):
    frame = pd.read_csv(place / "bank_c.csv")
    frame.iloc[::-1].to_csv(place / "bank_c.csv", index=False)
    with dealing(1, cwd=place):
        owners = contributing(place, *OWNERS)
        collected = both_end("collect", cwd=place)
        ends = ends_of(owners)
    assert [status for status, _, _ in collected] == [2, 2]
    assert all("bank_c: must have the same ids as the parties" in said for *_, said in collected), collected
    assert all(status == 3 for status, _, _ in ends.values()) and not (place / "party_a.given").exists()


@pytest.mark.long
def test_predictions_of_labels_of_an_owner_need_a_receiver(place):
    for name in ROLES[:2]:
        path = place / f"{name}.toml"
        path.write_text(path.read_text().replace('to = "party_a"', ""))
    with dealing(2, cwd=place):
        owners = contributing(place, *OWNERS)
        both("collect", cwd=place)
        ends_of(owners)
        both("train", cwd=place)
    predicted = both_end("predict", cwd=place)
    assert [status for status, _, _ in predicted] == [2, 2]
    assert all("predict.to must name the party" in said for *_, said in predicted), predicted
