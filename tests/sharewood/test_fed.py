"""`sharewood fed`: each published system on files and on the built-in set, and one sentence for bad input."""

import json
import stat
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mpc.errors import ConfigError, DataError
from protocols.federated.virtual_samples.node import predict
from protocols.secureboost import GuestModel, HostModel
from sharewood.cli import app

TINY_LLR = ["--trees", 8, "--depth", 3, "--rounds", 1, "--local-epochs", 20]
TINY_VS = ["--trees", 2, "--update-trees", 1, "--depth", 2, "--clusters", 8]
TINY_SB = ["--trees", 2, "--depth", 2, "--key-bits", 1024]
QUALITY = {"auc", "accuracy", "logloss", "f1", "auprc", "calibration", "tp", "fp", "fn", "tn", "xgboost"}


def fed(*arguments):
    app(["fed", *map(str, arguments)], standalone_mode=False)


def report_of():
    return json.loads(Path("r.json").read_text())


def only_the_owner_reads(files):
    return all(stat.S_IMODE(Path(file).stat().st_mode) == 0o600 for file in files)


def rows(count, seed, objective="binary:logistic"):
    """Write a table with ids and with ambiguous names."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 3)).round(2)
    margin = 2 * X[:, 0] - X[:, 1]
    table = pd.DataFrame(X, columns=["label", "b", "c"])
    return table.assign(id=np.arange(count), y=margin if objective == "reg:squarederror" else (margin > 0).astype(int))


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(**tables):
        for name, table in tables.items():
            table.to_csv(f"{name}.csv", index=False)
        return [f"{name}.csv" for name in tables]

    return write


@pytest.mark.long
def test_fedxgbllr_on_files_with_a_file_to_judge_by(files, capsys):
    pytest.importorskip("flwr")
    kind = "reg:squarederror"
    a, b, c = files(a=rows(60, 0, kind), b=rows(80, 1, kind), c=rows(50, 2, kind))
    fed("fedxgbllr", "--data", a, "--data", b, "--test", c, "--objective", kind, *TINY_LLR, "--json", "r.json")
    report = report_of()
    assert report["data"]["rows"] == [60, 80] and report["data"]["features"] == 3
    assert report["data"]["judged_on"] == "50 rows of c.csv"
    assert report["quality"]["rmse"] < 0.8 * rows(50, 2, kind)["y"].std()
    assert report["quality"]["mean_of_margins"]["rmse"] > 0
    assert report["online"]["bytes_to_server"]["ensemble"] > 500
    assert Path("out/fedxgbllr/server.npz").read_bytes()[:2] == b"PK"
    printed = capsys.readouterr()
    assert "XGBoost" in printed.out and printed.out.startswith("What leaks") and "clients' margins" in printed.out
    assert "round 1 of 1" in printed.err


def test_every_parameter_of_fedxgbllr_is_an_option(files, monkeypatch):
    pytest.importorskip("flwr")
    from protocols.federated.fedxgbllr.config import FedXGBllrConfig

    files()
    given = FedXGBllrConfig.of(
        objective="reg:squarederror",
        total_trees=30,
        max_depth=5,
        eta=0.3,
        reg_alpha=1.5,
        min_split_loss=2.5,
        subsample=0.8,
        architecture="fcnn",
        channels=16,
        start="kaiming",
        rounds=3,
        local_epochs=4,
        local_batches=7,
        batch_size=32,
        learning_rate=0.01,
        betas=(0.9, 0.99),
        validation_share=0.2,
        seed=5,
    )
    options, names = [], {"total_trees": "trees", "max_depth": "depth"}
    for name, value in given:
        assert value != FedXGBllrConfig.model_fields[name].default
        options += [f"--{names.get(name, name).replace('_', '-')}", *(value if name == "betas" else [value])]
    configs = []
    monkeypatch.setattr("sharewood.fed.cli._by_rows", lambda config, *rest: configs.append(config))
    fed("fedxgbllr", *options)
    assert configs == [given]


@pytest.mark.parametrize("engine", [[], pytest.param(["--processes"], marks=pytest.mark.long)])
def test_virtual_samples_with_secure_sums(files, capsys, engine):
    pytest.importorskip("flwr")
    a, b = files(a=rows(90, 0), b=rows(110, 1))
    fed("virtual-samples", "--data", a, b, "--secure", *TINY_VS, *engine, "--json", "r.json")
    report = report_of()
    assert set(report["quality"]) == QUALITY
    assert report["quality"]["auc"] > 0.75 and report["smallest_group"] >= report["config"]["min_group"] > 1
    two = "with two clients each learns all counts of the other while the clusters are agreed"
    printed = capsys.readouterr()
    assert report["leaks"][0] == two
    assert only_the_owner_reads([*report["files"], "r.json"])
    assert printed.err.startswith(f"leaks: {two[:40]}") and "fewest rows behind a sum" in printed.out
    X = rows(90, 0)[["label", "b", "c"]].to_numpy(np.float32)
    assert predict("out/virtual-samples/client-0.npz", X).shape == (90,)


def test_secureboost_aligns_files_by_id(files, capsys):
    pytest.importorskip("private_set_intersection")
    pytest.importorskip("heu")
    table = rows(120, 0)
    guest, host = table[["id", "y", "b"]][:110], table[["id", "label", "c"]][20:].sample(frac=1, random_state=1)
    fed("secureboost", "--data", *files(guest=guest, host=host), *TINY_SB, "--json", "r.json")
    report = report_of()
    # 90 common ids, 18 of them held out.
    assert report["data"]["rows"] == 72 and report["data"]["features"] == [1, 2]
    assert set(report["quality"]) == QUALITY
    assert report["quality"]["auc"] > 0.8
    assert "recovers most of the hosts' bins row by row" in report["leaks"][0]
    assert capsys.readouterr().out.startswith("What leaks")
    assert report["align"]["bytes"] > 0 and report["online"]["bytes_per_tree"] > 1000
    assert only_the_owner_reads([*report["files"], "r.json"])
    assert GuestModel.load(report["files"][0]).names == ("b",)
    assert HostModel.load(report["files"][1]).names == ("label", "c")


def test_secureboost_on_the_built_in_set_is_as_good_as_xgboost(files):
    pytest.importorskip("private_set_intersection")
    pytest.importorskip("heu")
    files()
    fed("secureboost", "--parties", 3, "--trees", 4, "--key-bits", 1024, "--guest-only", "none", "--json", "r.json")
    quality = report_of()["quality"]
    assert abs(quality["auc"] - quality["xgboost"]["auc"]) < 0.02


@pytest.mark.parametrize(
    ("objective", "measures"), [("multi:softprob", {"accuracy", "logloss"}), ("count:poisson", {"rmse", "mae"})]
)
def test_secureboost_on_classes_and_counts_with_noise_and_missing_values(files, objective, measures):
    pytest.importorskip("private_set_intersection")
    pytest.importorskip("heu")
    table = rows(150, 0).drop(columns="id")
    table["y"] = np.digitize(table["label"], [-0.5, 0.5])
    table.loc[3, "c"] = np.nan
    a, b = files(guest=table[["y", "label"]], host=table[["b", "c"]])
    fed("secureboost", "--data", a, b, *TINY_SB, "--objective", objective, "--epsilon", 5, "--json", "r.json")
    report = report_of()
    assert set(report["quality"]) == measures | {"xgboost"} == set(report["quality"]["xgboost"]) | {"xgboost"}
    assert "(5, 1e-6)-differentially private" in report["leaks"][0]


def test_rows_of_the_update_are_not_the_first_of_a_file(files, tmp_path):
    pytest.importorskip("flwr")
    from protocols.federated.virtual_samples.config import VirtualSamplesConfig
    from sharewood.fed.by_rows import _nodes, from_files

    ordered = rows(100, 0).sort_values("y")
    a, b, test = files(a=ordered, b=ordered, test=rows(30, 1))
    data = from_files([Path(a), Path(b)], "y", Path(test), 0.2, "binary:logistic")
    nodes = _nodes(data, VirtualSamplesConfig.of(), True, tmp_path, tmp_path)
    assert only_the_owner_reads(nodes[0][name] for name in ("data", "update", "group-key", "client-key"))
    assert only_the_owner_reads([nodes[2]["helper-private-key"]])
    for node in nodes[:2]:
        update, base = pd.read_csv(node["update"]), pd.read_csv(node["data"])
        assert (len(update), len(base)) == (20, 80)
        assert set(update["label"]) == set(base["label"]) == {0, 1}
        together = pd.concat([update, base]).to_numpy()
        np.testing.assert_array_equal(
            np.sort(together, axis=0), np.sort(data.training[0][0].assign(y=data.training[0][1]), axis=0)
        )


@pytest.mark.parametrize(("test_size", "held"), [(0, 0), (0.25, 25)])
def test_every_row_trains_or_judges(files, test_size, held):
    pytest.importorskip("flwr")
    from sharewood.fed.by_rows import from_files

    tables = {"a": rows(60, 0), "b": rows(40, 1)}
    data = from_files([Path(name) for name in files(**tables)], "y", None, test_size, "binary:logistic")
    parts = [features for features, _ in data.training] + ([data.test[0]] if held else [])
    together = pd.concat(parts).sort_values(["label", "b", "c"]).to_numpy()
    pooled = pd.concat(tables.values())[["label", "b", "c"]].sort_values(["label", "b", "c"]).to_numpy()
    np.testing.assert_array_equal(together, pooled)
    assert data.judged_on == (f"{held} held-out rows" if held else "100 training rows")
    assert len(data.test[1]) == (held or 100)


BAD_LABEL = rows(20, 0).assign(y=7)


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        (["fedxgbllr", "--data", "none.csv"], DataError, "none.csv: there is no such file"),
        (
            ["fedxgbllr", "--data", "a.csv", "bad.csv"],
            DataError,
            "column 'y', line 2: label must be 0 or 1, got 7",
        ),
        (["virtual-samples", "--data", "a.csv", "less.csv"], DataError, "less.csv: its feature columns"),
        (["virtual-samples", "--data", "a.csv", "--label", "z"], DataError, "a.csv: there is no label column 'z'"),
        (["virtual-samples", "--clusters", 1], ConfigError, "clusters"),
        (["virtual-samples", "--data", "a.csv", "--secure"], ConfigError, "two clients or more"),
        (["fedxgbllr", "--trees", 1], ConfigError, "total_trees must be at least the number of clients, 2, got 1"),
        (["fedxgbllr", "--test", "a.csv"], ConfigError, "--test needs --data"),
        (["fedxgbllr", "--test-size", 1], ConfigError, "--test-size"),
        (["fedxgbllr", "--objective", "reg:squarederror"], ConfigError, "the built-in dataset has classes"),
        (["fedxgbllr", "--data", "bare.csv"], DataError, "bare.csv: there is no column besides the label and the id"),
        (["fedxgbllr", "--out", "a.csv/model"], ConfigError, "--out a.csv/model: Not a directory"),
        (["fedxgbllr", "--json", "nowhere/r.json"], ConfigError, "there is no such directory"),
        (["secureboost", "--data", "a.csv"], ConfigError, "the guest's file and one file per host"),
        (["secureboost", "--data", "a.csv", "less.csv"], DataError, "a.csv: has a column 'id', but another file"),
        (
            ["secureboost", "--data", "less.csv", "short.csv"],
            DataError,
            "short.csv: must have the 20 rows of less.csv, got 5",
        ),
        (
            ["secureboost", "--data", "bare.csv", "less.csv"],
            DataError,
            "bare.csv: there is no column besides the label",
        ),
        (["secureboost", "--data", "a.csv", "ids.csv"], DataError, "ids.csv: there is no column besides the id"),
        (
            ["secureboost", "--data", "a.csv", "idx.csv"],
            DataError,
            "idx.csv: column 'idx' has a different whole number in each row",
        ),
        (
            ["virtual-samples", "--data", "idx.csv", "--label", "b"],
            DataError,
            "column 'idx' has a different whole number in each row",
        ),
        (["secureboost", "--bins", 500], ConfigError, "must be a whole number from 2 to 126 in SecureBoost, got 500"),
        (["secureboost", "--objective", "multi:softprob"], ConfigError, "use --data for other objectives"),
        (["secureboost", "--encryption", "rot13"], ConfigError, "encryption"),
    ],
)
def test_bad_input_is_one_sentence(files, arguments, error, sentence):
    less = rows(20, 0)[["y", "b"]]
    idx = less[["b"]].round(0).clip(0, 1).assign(idx=np.arange(20), c=1.5)
    ids = pd.DataFrame({"id": np.arange(20)})
    files(a=rows(20, 0), bad=BAD_LABEL, less=less, bare=less[["y"]], short=less[:5].drop(columns="y"), ids=ids, idx=idx)
    with pytest.raises(error, match=sentence):
        fed(*arguments)
