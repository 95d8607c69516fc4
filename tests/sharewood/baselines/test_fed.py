"""`sharewood fed`: each published system on files and on the built-in set, and one sentence for bad input."""

import json
import stat
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer

from mpc.errors import ConfigError, DataError
from protocols.baselines.federated.fedxgbllr.config import FedXGBllrConfig
from protocols.baselines.federated.virtual_samples.config import VirtualSamplesConfig
from protocols.baselines.federated.virtual_samples.node import predict
from protocols.baselines.secureboost import GuestModel, HostModel
from sharewood.cli import app

TINY_LLR = ["--trees", 8, "--depth", 3, "--rounds", 1, "--local-epochs", 20]
TINY_VS = ["--trees", 2, "--update-trees", 1, "--depth", 2, "--clusters", 8]
TINY_SB = ["--trees", 2, "--depth", 2, "--key-bits", 1024, "--encryption", "ou"]
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


@pytest.fixture
def by_rows_in_one_process(monkeypatch):
    """Run the server and the participants of a federated training in this process, without Flower."""
    pytest.importorskip("flwr")
    from protocols.baselines.federated import apps
    from protocols.baselines.federated.engine import LocalFederation
    from sharewood.baselines import by_rows

    def simulate(job, say):
        members = dict(apps.participant(node, job.run) for node in job.nodes)
        monkeypatch.setattr(apps, "FlowerFederation", lambda grid, *rest: LocalFederation(members))
        return apps.serve(None, job.run, say)

    monkeypatch.setattr(by_rows, "simulate", simulate)
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


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
    monkeypatch.setattr("sharewood.baselines.fed._by_rows", lambda config, *rest: configs.append(config))
    fed("fedxgbllr", *options)
    assert configs == [given]


@pytest.mark.parametrize(
    "engine",
    [
        "without Flower",
        pytest.param("simulation", marks=pytest.mark.long),
        pytest.param("--processes", marks=pytest.mark.long),
    ],
)
def test_virtual_samples_with_secure_sums(files, capsys, engine, request):
    pytest.importorskip("flwr")
    if engine == "without Flower":
        request.getfixturevalue("by_rows_in_one_process")
    a, b = files(a=rows(90, 0), b=rows(110, 1))
    processes = [engine] if engine == "--processes" else []
    fed("virtual-samples", "--data", a, b, "--secure", *TINY_VS, "--update-share", 0.3, *processes, "--json", "r.json")
    report = report_of()
    # A fifth of 90 and 110 rows is held out, and 0.3 of the others is for the update.
    assert report["set_aside"] == round(0.3 * 72) + round(0.3 * 88)
    assert report["data"]["bytes"] == 160 * 4 * 4
    assert set(report["quality"]) == QUALITY
    assert report["quality"]["auc"] > 0.75 and report["smallest_group"] >= report["config"]["min_group"] > 1
    two = "with two clients each learns all counts of the other while the clusters are agreed"
    printed = capsys.readouterr()
    assert report["leaks"][0] == two
    assert only_the_owner_reads([*report["files"], "r.json"])
    assert printed.err.startswith(f"leaks: {two[:40]}") and "fewest rows behind a sum" in printed.out
    assert "rows set aside for the update, which the base model lacks: 48" in printed.out
    assert "the training rows have" in printed.out
    X = rows(90, 0)[["label", "b", "c"]].to_numpy(np.float32)
    assert predict("out/virtual-samples/client-0.npz", X).shape == (90,)


def test_secureboost_aligns_files_by_id(files, capsys):
    pytest.importorskip("nacl")
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
    pytest.importorskip("nacl")
    pytest.importorskip("heu")
    files()
    fed("secureboost", "--parties", 3, *TINY_SB, "--trees", 4, "--json", "r.json")
    quality = report_of()["quality"]
    assert abs(quality["auc"] - quality["xgboost"]["auc"]) < 0.02


@pytest.mark.parametrize(
    ("objective", "measures"),
    [("multi:softprob", {"accuracy", "logloss"}), ("count:poisson", {"rmse", "mae", "poisson_nloglik"})],
)
def test_secureboost_on_classes_and_counts_with_noise_and_missing_values(files, objective, measures):
    pytest.importorskip("nacl")
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
    from sharewood.baselines.by_rows import _nodes, from_files

    ordered = rows(100, 0).sort_values("y")
    a, b, test = files(a=ordered, b=ordered, test=rows(30, 1))
    data = from_files([Path(a), Path(b)], "y", Path(test), 0.2, "binary:logistic")
    nodes = _nodes(data, VirtualSamplesConfig.of(), True, tmp_path, tmp_path, [20, 20])
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
    from sharewood.baselines.by_rows import from_files

    tables = {"a": rows(60, 0), "b": rows(40, 1)}
    data = from_files([Path(name) for name in files(**tables)], "y", None, test_size, "binary:logistic")
    parts = [features for features, _ in data.training] + ([data.test[0]] if held else [])
    together = pd.concat(parts).sort_values(["label", "b", "c"]).to_numpy()
    pooled = pd.concat(tables.values())[["label", "b", "c"]].sort_values(["label", "b", "c"]).to_numpy()
    np.testing.assert_array_equal(together, pooled)
    assert data.judged_on == (f"{held} held-out rows" if held else "100 training rows")
    assert len(data.test[1]) == (held or 100)


@pytest.mark.parametrize("command", ["fedxgbllr", "virtual-samples", "secureboost"])
def test_options_have_names_defaults_and_words_of_the_configuration(command):
    from protocols.baselines.secureboost import SecureBoostConfig

    configs = {"fedxgbllr": FedXGBllrConfig, "virtual-samples": VirtualSamplesConfig, "secureboost": SecureBoostConfig}
    fields = configs[command].model_fields
    options = {option.name: option for option in _fed().commands[command].params if option.name in fields}
    assert len(options) == {"fedxgbllr": 18, "virtual-samples": 13, "secureboost": 8}[command]
    for name, option in options.items():
        assert option.default == fields[name].default and option.help == fields[name].description
        assert option.opts[0] in (f"--{name.replace('_', '-')}", NAMES.get(name))


NAMES = {"max_bin": "--bins", "n_estimators": "--trees", "total_trees": "--trees", "max_depth": "--depth"}
NAMES["update_estimators"] = "--update-trees"


def _fed():
    return typer.main.get_command(app).commands["fed"].loaded()


def test_a_benchmark_has_the_defaults_of_python(monkeypatch, tmp_path):
    from benchmarks import federated_fedxgbllr, federated_virtual_samples

    seen = []
    monkeypatch.setattr(federated_fedxgbllr, "load", lambda name: (np.zeros((9, 2)), np.zeros(9)))
    monkeypatch.setattr(federated_fedxgbllr, "run", lambda X, y, clients, config, *rest: seen.append(config) or {})
    monkeypatch.setattr("sys.argv", ["benchmark", "--data", "a9a", "--clients", "2", "--out", str(tmp_path / "a.csv")])
    federated_fedxgbllr.main()
    assert seen == [FedXGBllrConfig.of()]
    monkeypatch.setattr(federated_virtual_samples, "rare_positives", lambda seed: (np.zeros((9, 2)), np.zeros(9)))
    monkeypatch.setattr(federated_virtual_samples, "federated", lambda *given: seen.append(given[-1]) or ())
    monkeypatch.setattr("sys.argv", ["benchmark", "--clusters", "10", "--peers", "--out", str(tmp_path / "b.csv")])
    federated_virtual_samples.main()
    assert VirtualSamplesConfig.of(**seen[1]) == VirtualSamplesConfig.of()


def test_a_guest_with_labels_only(files, capsys):
    pytest.importorskip("nacl")
    pytest.importorskip("heu")
    table = rows(120, 0)
    guest, host = table[["id", "y"]], table[["id", "label", "b"]][10:]
    fed("secureboost", "--data", *files(guest=guest, host=host), *TINY_SB, "--json", "r.json")
    report = report_of()
    assert report["data"]["features"] == [0, 2] and report["quality"]["auc"] > 0.8
    assert GuestModel.load(report["files"][0]).names == ()


def test_clusters_are_at_most_the_rows_of_the_smallest_client(files, by_rows_in_one_process, capsys):
    a, b = files(a=rows(30, 0), b=rows(200, 1))
    options = ["--data", a, b, "--min-group", 1, "--trees", 1, "--depth", 2, "--json", "r.json"]
    moved = {}
    for clusters in (24, 405):
        fed("virtual-samples", *options, "--clusters", clusters)
        report = report_of()
        # A fifth of the 30 rows is held out.
        assert report["config"]["clusters"] == 24
        moved[clusters] = report["online"]["bytes"]
        said = "the smallest client: there are 24 clusters, as many as these rows, instead of 405"
        assert (said in report["leaks"][-1]) == (clusters == 405)
        assert (said in " ".join(capsys.readouterr().out.split())) == (clusters == 405)
    assert moved[24] == moved[405]
    fed("virtual-samples", *options)
    assert report_of()["config"]["clusters"] == VirtualSamplesConfig.of().clusters == 10


def test_an_update_is_only_made_on_request(files, by_rows_in_one_process, capsys):
    (a,) = files(a=rows(100, 0))
    options = ["--data", a, "--trees", 2, "--depth", 2, "--json", "r.json"]
    fed("virtual-samples", *options)
    assert report_of()["set_aside"] == 0 and report_of()["update_trees"] == 0
    assert "no update: the base model is trained on all rows" in capsys.readouterr().out
    fed("virtual-samples", *options, "--update-trees", 1, "--update-share", 0.5)
    assert report_of()["set_aside"] == 40


def test_poissons_loss_of_counts(files, by_rows_in_one_process):
    from scipy.stats import poisson

    table = rows(120, 0).drop(columns="id")
    table["y"] = np.random.default_rng(0).poisson(np.exp(table["label"] / 2))
    (a,) = files(a=table)
    kind = ["--objective", "count:poisson", "--test-size", 0, "--json", "r.json"]
    fed("virtual-samples", "--data", a, *kind, "--trees", 3, "--depth", 2)
    quality = report_of()["quality"]
    X = table[["label", "b", "c"]].to_numpy(np.float32)
    expected = -poisson.logpmf(table["y"], predict("out/virtual-samples/client-0.npz", X)).mean()
    assert quality["poisson_nloglik"] == pytest.approx(expected, abs=1e-9)
    assert quality["xgboost"]["poisson_nloglik"] == pytest.approx(expected, rel=0.05)


def test_learned_rates_are_in_the_report_and_in_files(files, by_rows_in_one_process, capsys):
    files()
    options = ["--trees", 12, "--depth", 3, "--rounds", 1, "--channels", 4, "--json", "r.json"]
    fed("fedxgbllr", "--clients", 3, "--divided", "component", *options)
    report, printed = report_of(), capsys.readouterr().out
    assert np.shape(report["rates"]) == (3, 4)
    assert "Learned rates of the trees, by client" in printed and "every rate is 0.3333" in " ".join(printed.split())
    by_tree, by_client = (pd.read_csv(f"out/fedxgbllr/rates_by_{name}.csv") for name in ("tree", "client"))
    assert list(by_tree) == ["tree", *(f"channel_{c}" for c in range(4))]
    assert (by_tree.shape, by_client.shape) == ((4, 5), (3, 5))
    assert only_the_owner_reads(report["files"]) and len(report["files"]) == 3
    from protocols.baselines.federated.fedxgbllr.model import FedXGBllrModel

    with np.load("out/fedxgbllr/server.npz") as arrays:
        model = FedXGBllrModel.unpack(dict(arrays), FedXGBllrConfig.of(**report["config"]))
    np.testing.assert_allclose(by_tree.to_numpy()[:, 1:].T, model.learned_rates().trees, atol=1e-6)
    np.testing.assert_allclose(by_client.to_numpy()[:, 1:], model.learned_rates().clients, atol=1e-6)
    fed("fedxgbllr", *options, "--architecture", "fcnn")
    assert np.shape(report_of()["rates"]) == (2, 6) and len(report_of()["files"]) == 1


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
        (
            ["fedxgbllr", "--out", "a.csv/model"],
            ConfigError,
            r"--out a.csv/model: the folder cannot be made \(Not a directory\)",
        ),
        (["fedxgbllr", "--json", "nowhere/r.json"], ConfigError, "there is no such directory"),
        (["secureboost", "--data", "a.csv"], ConfigError, "the guest's file and one file per host"),
        (["secureboost", "--data", "a.csv", "less.csv"], DataError, "a.csv: has a column 'id', but another file"),
        (
            ["secureboost", "--data", "less.csv", "short.csv"],
            DataError,
            "short.csv: must have the 20 rows of less.csv, got 5",
        ),
        (["virtual-samples", "--update-share", 1], ConfigError, "--update-share must be between 0 and 1, got 1"),
        (
            ["fedxgbllr", "--divided", "oddly"],
            ConfigError,
            "--divided must be equal or component or labels, got 'oddly'",
        ),
        (["fedxgbllr", "--data", "a.csv", "--divided", "labels"], ConfigError, "with --data, every file is a client"),
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
