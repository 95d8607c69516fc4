"""Every layout of data between two hosts: columns, missing values, several classes, weights, validation rows."""

import json

import numpy as np
import pandas as pd
import pytest
import xgboost

from mpc.errors import DataError
from secure_tree.data.categories import expand
from secure_tree.model.shared_model import SharedModel
from sharewood.commands.hosts.predict import predict_rows
from sharewood.commands.hosts.reveal import reveal_half
from sharewood.commands.hosts.train import train_half
from sharewood.commands.local.export import export
from sharewood.job import session
from sharewood.job.config import HostsConfig
from tests.sharewood.commands.hosting import (
    EXAMPLES,
    both,
    complaint,
    dealing,
    example,
    in_threads,
    sharewood,
    write_job,
)
from tests.sharewood.page.pages import check_page


def write(path, names, values, **others):
    """A CSV file of features, then the other columns."""
    pd.DataFrame(values, columns=names).assign(**others).to_csv(path, index=False)


def holes(X, share, rng):
    return np.where(rng.random(X.shape) < share, np.nan, X)


@pytest.fixture
def by_columns(tmp_path):
    """Write a table by columns with missing values, weights and validation rows; B's label depends on both parties."""
    rng = np.random.default_rng(8)
    train = {"partition": "vertical", "missing": ["a0", "b0"], "n_estimators": 8, "max_depth": 2, "max_bin": 8}
    train |= {"learning_rate": 0.5, "eval_epochs": 1, "early_stopping_rounds": 2, "subsample": 0.9}
    train |= {"colsample_bytree": 0.8}
    common = {"train_data": "{}.csv", "test_data": "{}_test.csv", "predict_data": "{}_new.csv", "model": "{}_model.npz"}
    sections = {
        f"party_{p}": {name: path.format(p) for name, path in common.items()} | {"predictions": f"{p}_out.csv"}
        for p in "ab"
    }
    sections["party_b"] |= {"label": "bad", "weight": "w"}
    names = [["a0", "a1"], ["b0", "b1", "b2"]]
    plan = {"rows": [70, 70], "features": names, "test_rows": [30, 30], "largest_weight": 2.0}
    write_job(tmp_path, sections, train=train, predict={"to": "party_a"}, plan=plan)
    for suffix, n in (("", 70), ("_test", 30), ("_new", 40)):
        ids = rng.choice(10_000, n, replace=False)
        X = rng.normal(size=(n, 5)).round(3)
        bad = (X[:, 0] - X[:, 2] + 0.3 * rng.normal(size=n) > 0).astype(int)
        X[:, [0, 2]] = holes(X[:, [0, 2]], 0.2, rng)
        write(tmp_path / f"a{suffix}.csv", ["a0", "a1"], X[:, :2], id=ids)
        told = {} if suffix == "_new" else {"bad": bad, "w": rng.choice([1.0, 2.0], n)}
        write(tmp_path / f"b{suffix}.csv", ["b0", "b1", "b2"], X[:, 2:], id=ids, **told)
    np.save(tmp_path / "truth.npy", bad)
    return tmp_path


@pytest.mark.long
def test_columns_between_hosts(by_columns):
    with dealing(2, cwd=by_columns):
        both("train", "--json", "{}.json", cwd=by_columns)
        said = both("predict", cwd=by_columns)
    report = json.loads((by_columns / "party_a.json").read_text())
    assert report["data"] == {"rows": [70, 70], "held": [30, 30], "features": 5, "weighted": False}
    assert report["curve"][0][0] == 1 and len(report["curve"]) <= 8
    assert report["revealed"][0] == "whether the rows have the same ids"
    assert "predictions of the rows" in said[0] and "predictions of" not in said[1]
    table = pd.read_csv(by_columns / "a_out.csv")
    assert not (by_columns / "b_out.csv").exists()
    assert (table["id"] == pd.read_csv(by_columns / "a_new.csv")["id"]).all()
    assert ((table["prediction"] > 0.5) == np.load(by_columns / "truth.npy")).mean() > 0.65
    status, out, error = sharewood("plan", "--config", "party_b.toml", "--json", "plan.json", cwd=by_columns)
    assert status == 0 and "rounds" in out, error
    planned = json.loads((by_columns / "plan.json").read_text())
    # Training may stop early, so the plan is a bound.
    assert planned["online"]["rounds"] >= sum(report[stage]["rounds"] for stage in ("setup", "online"))


@pytest.mark.long
def test_a_table_of_labels_only(by_columns, monkeypatch):
    for suffix in ("", "_test", "_new"):
        path = by_columns / f"b{suffix}.csv"
        table = pd.read_csv(path).drop(columns=["b0", "b1", "b2"])
        table.to_csv(path, index=False)
    for party in "ab":
        path = by_columns / f"party_{party}.toml"
        text = path.read_text().replace('["a0", "b0"]', '["a0"]').replace('["b0", "b1", "b2"]', "[]")
        # All rows and trees: few say little of a label that depends on both parties' features.
        text = text.replace("subsample = 0.9", "subsample = 1.0").replace("early_stopping_rounds = 2\n", "")
        path.write_text(text)
    in_threads(monkeypatch, by_columns, train_half, False, None)
    in_threads(monkeypatch, by_columns, predict_rows, None)
    predicted = pd.read_csv(by_columns / "a_out.csv")["prediction"]
    assert ((predicted > 0.5) == np.load(by_columns / "truth.npy")).mean() > 0.55
    status, out, error = sharewood("plan", "--config", "party_b.toml", cwd=by_columns)
    assert status == 0 and "rounds" in out, error


def test_rows_that_are_not_the_same(by_columns, monkeypatch):
    table = pd.read_csv(by_columns / "a.csv")
    pd.concat([table[1:], table[:1]]).to_csv(by_columns / "a.csv", index=False)
    with pytest.raises(DataError, match="both parties must have the same ids in the same order"):
        in_threads(monkeypatch, by_columns, train_half, False, None)
    assert not (by_columns / "a_model.npz").exists()


@pytest.mark.parametrize("command", [train_half, predict_rows])
def test_ids_at_one_party_only(by_columns, monkeypatch, command):
    if command is predict_rows:
        in_threads(monkeypatch, by_columns, train_half, False, None)
    path = by_columns / ("b.csv" if command is train_half else "b_new.csv")
    pd.read_csv(path).drop(columns="id").to_csv(path, index=False)
    with pytest.raises(DataError, match=r"table has an id column, and .* has none"):
        in_threads(monkeypatch, by_columns, command, *([False, None] if command is train_half else [None]))


@pytest.mark.parametrize("column", ["id", "b1"])
def test_predicted_rows_have_the_columns_of_the_schema(by_columns, monkeypatch, column):
    """Without ids, party B's shuffled rows would be predicted as other people's."""
    schema = 'id = "id"\nb0 = { type = "numeric", missing = true }\nb1 = "numeric"\nb2 = "numeric"\n'
    (by_columns / "schema.toml").write_text(f'{schema}bad = "label"\nw = "weight"\n')
    path = by_columns / "party_b.toml"
    path.write_text(path.read_text().replace('label = "bad"\nweight = "w"', 'columns = "schema.toml"'))
    in_threads(monkeypatch, by_columns, train_half, False, None)
    monkeypatch.setattr(session, "run_party", lambda *_, **__: pytest.fail("it connects"))
    new = pd.read_csv(by_columns / "b_new.csv").drop(columns=column)
    new.sample(frac=1, random_state=1).to_csv(by_columns / "b_new.csv", index=False)
    with pytest.raises(DataError, match=rf"b_new\.csv has no column '{column}', which schema\.toml declares as "):
        predict_rows(HostsConfig.read(path), "party_b", None)


def test_several_classes_between_hosts(tmp_path, monkeypatch):
    rng = np.random.default_rng(9)
    parameters = {"objective": "multi:ova", "num_class": 3, "n_estimators": 3, "max_depth": 2, "max_bin": 8}
    parameters |= {"learning_rate": 0.5, "missing": "all", "test_size": 0.2, "eval_epochs": 3}
    sections = {
        f"party_{p}": {"train_data": f"{p}.csv", "label": "kind", "model": f"{p}.json", "predict_data": f"{p}.csv"}
        | {"predictions": f"{p}_out.csv", "reveal_to": ["party_b"]}
        for p in "ab"
    }
    sections["party_b"] |= {"revealed": "plain.json"}
    write_job(tmp_path, sections, train=parameters)
    for p in "ab":
        X = rng.normal(size=(60, 3)).round(3)
        kind = np.digitize(X[:, 1], [-0.5, 0.5])
        write(tmp_path / f"{p}.csv", ["x", "y", "z"], holes(X, 0.1, rng), kind=kind)
    in_threads(monkeypatch, tmp_path, train_half, False, None)
    reports = in_threads(monkeypatch, tmp_path, predict_rows, None)
    in_threads(monkeypatch, tmp_path, reveal_half, "party_b")
    export(tmp_path / "plain.json", tmp_path / "xgboost.json")
    booster = xgboost.Booster(model_file=tmp_path / "xgboost.json")
    rows, table = pd.read_csv(tmp_path / "b.csv"), pd.read_csv(tmp_path / "b_out.csv")
    names = [f"probability_{k}" for k in range(3)]
    assert list(table) == ["prediction", *names]
    right = (table["prediction"] == rows["kind"]).mean()
    told = table[names].to_numpy()[np.arange(60), rows["kind"]]
    assert right > 0.7 and reports[1].costs.stages["predict"].rows == 60
    assert reports[1].quality == pytest.approx({"accuracy": right, "logloss": -np.log(told).mean()})
    page = check_page((tmp_path / "b_out.report.html").read_text())
    assert f"accuracy {right:.4f}" in page and "ROC" not in page
    each = 1 / (1 + np.exp(-booster.predict(xgboost.DMatrix(rows[["x", "y", "z"]]), output_margin=True)))
    assert np.abs(each / each.sum(axis=1, keepdims=True) - table[names].to_numpy()).max() < 1e-4


def test_counts_between_hosts(tmp_path, monkeypatch):
    rng = np.random.default_rng(10)
    parameters = {"objective": "count:poisson", "n_estimators": 4, "max_depth": 2, "max_bin": 8, "learning_rate": 0.5}
    sections = {
        f"party_{p}": {"train_data": f"{p}.csv", "label": "visits", "model": f"{p}.npz", "predict_data": f"{p}.csv"}
        | {"predictions": f"{p}_out.csv"}
        for p in "ab"
    }
    write_job(tmp_path, sections, train=parameters)
    for p in "ab":
        X = rng.normal(size=(60, 2)).round(3)
        write(tmp_path / f"{p}.csv", ["x", "y"], X, visits=rng.poisson(np.exp(X[:, 0])))
    in_threads(monkeypatch, tmp_path, train_half, False, None)
    reports = in_threads(monkeypatch, tmp_path, predict_rows, None)
    for p, report in zip("ab", reports, strict=True):
        truth, told = pd.read_csv(tmp_path / f"{p}.csv")["visits"], pd.read_csv(tmp_path / f"{p}_out.csv")["prediction"]
        assert (told > 0).all() and np.corrcoef(truth, told)[0, 1] > 0.5
        assert report.quality["rmse"] == pytest.approx(np.sqrt(np.mean((truth - told) ** 2)))


def test_the_example_by_columns(tmp_path):
    """Tables of different people, one with a categorical column in parquet, are joined, trained on and predicted."""
    files = {"party_a": "vertical_a.toml", "party_b": "vertical_b.toml", "dealer": "dealer.toml"}
    example(tmp_path, files, n_estimators=6, max_depth=2)
    for party in "ab":
        (tmp_path / f"schema_{party}.toml").write_text((EXAMPLES / f"schema_{party}.toml").read_text())
    rng = np.random.default_rng(12)
    people = rng.permutation(np.arange(1000, 1150))
    device = rng.choice(["desktop", "phone", "tablet"], 150)
    age, income = rng.normal(size=(2, 150)).round(3)
    bad = ((device == "tablet") * 2 + income + 0.3 * rng.normal(size=150) > 0.8).astype(int)
    left = pd.DataFrame({"id": people, "age": age, "income": income, "debts": 0.5, "defaulted": bad, "branch": "x"})
    left.loc[::9, "age"] = np.nan
    right = pd.DataFrame({"device": device, "orders": 1.0, "id": people, "returns": rng.normal(size=150)})
    right.loc[::7, "device"] = None
    left[:130].to_csv(tmp_path / "all_a.csv", index=False)
    right[10:].sample(frac=1, random_state=1).to_parquet(tmp_path / "all_b.parquet")
    left[:50].to_csv(tmp_path / "new_a.csv", index=False)
    right[:50].to_csv(tmp_path / "new_b.csv", index=False)
    assert all("120 of 1" in text for text in both("align", cwd=tmp_path))
    with dealing(2, cwd=tmp_path):
        both("train", "--json", "{}.json", cwd=tmp_path)
        both("predict", cwd=tmp_path)
    report = json.loads((tmp_path / "party_b.json").read_text())
    assert report["data"] == {"rows": [96, 96], "held": [24, 24], "features": 8, "weighted": False}
    table = pd.read_csv(tmp_path / "predictions_a.csv")
    assert (table["id"] == people[:50]).all() and ((table["prediction"] > 0.5) == bad[:50]).mean() > 0.8
    status, out, error = sharewood("plan", "--config", "party_a.toml", cwd=tmp_path)
    assert status == 0 and "rounds" in out, error


def test_schemas_by_rows(tmp_path, monkeypatch):
    """Each party declares its own categories and missing values; the model has those of both parties."""
    schema = """
        id = "id"
        x = {{ type = "numeric", missing = {missing} }}
        colour = {{ type = "categorical", categories = {categories} }}
        good = "label"
    """
    sections = {
        f"party_{p}": {"columns": f"{p}.schema.toml", "train_data": f"{p}.csv", "model": f"{p}.json"}
        | {"predict_data": f"{p}.csv", "predictions": f"{p}.parquet", "reveal_to": ["party_b"]}
        for p in "ab"
    }
    sections["party_b"] |= {"revealed": "plain.json"}
    parameters = {"n_estimators": 4, "max_depth": 2, "max_bin": 8, "learning_rate": 0.5}
    write_job(tmp_path, sections, train=parameters, predict={"method": "bins"})
    rng = np.random.default_rng(13)
    for p, missing, categories in (("a", "false", ["red", "blue"]), ("b", "true", ["blue", "grün"])):
        (tmp_path / f"{p}.schema.toml").write_text(schema.format(missing=missing, categories=json.dumps(categories)))
        colour, x = rng.choice(categories, 50), rng.normal(size=50).round(3)
        good = ((colour == "blue") ^ (x > 1)).astype(int)
        table = pd.DataFrame({"id": np.arange(50), "good": good, "colour": colour, "x": x})
        table["x"] = table["x"].where(rng.random(50) > (0.2 if p == "b" else 0))
        table.to_csv(tmp_path / f"{p}.csv", index=False)
    reports = in_threads(monkeypatch, tmp_path, train_half, False, None)
    in_threads(monkeypatch, tmp_path, predict_rows, None)
    assert SharedModel.load(tmp_path / "a.json").facts.names == ("x", "colour=red", "colour=blue", "colour=grün")
    assert [report.config.missing for report in reports] == [("x",), ("x",)]
    for p in "ab":
        truth, table = pd.read_csv(tmp_path / f"{p}.csv"), pd.read_parquet(tmp_path / f"{p}.parquet")
        assert ((table["prediction"] > 0.5) == truth["good"]).mean() > 0.85
    in_threads(monkeypatch, tmp_path, reveal_half, "party_b")
    export(tmp_path / "plain.json", tmp_path / "xgboost.json")
    booster = xgboost.Booster(model_file=tmp_path / "xgboost.json")
    plain = booster.predict(xgboost.DMatrix(expand(truth, booster.feature_names)))
    # By bins, all values between two edges go where the largest of them goes.
    assert np.isclose(plain, table["prediction"], atol=1e-4).mean() > 0.9
    with pytest.raises(DataError, match="X has no column 'colour', which the model needs"):
        expand(truth.drop(columns="colour"), booster.feature_names)


@pytest.mark.parametrize(
    ("old", "new", "command", "sentence"),
    [
        ('label = "bad"', 'label = "worse"', "train", "there is no label column 'worse'"),
        ("b0", "b1", "train", "b.csv: column 'b0', line "),
        ('"b.csv"', '"b_new.csv"', "train", "there is no label column 'bad'"),
        ('model = "b_model.npz"', "", "predict", "parties.party_b.model must be set"),
        ("[70, 70]", "[70, 71]", "plan", "the same number of rows"),
        ('features = [["a0", "a1"], ["b0", "b1", "b2"]]', "features = [2, 3]", "plan", "no party has a feature 'a0'"),
    ],
)
def test_bad_jobs(by_columns, monkeypatch, capsys, old, new, command, sentence):
    path = by_columns / "party_b.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    party = [] if command == "plan" else ["--party", "party_b"]
    assert sentence in complaint(monkeypatch, capsys, command, "--config", path, *party)
