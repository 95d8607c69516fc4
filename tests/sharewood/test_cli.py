"""The command: the files of the demo, and one sentence and an exit status for bad input."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.core import TyperGroup

from mpc.host.extras import install
from secure_tree.setup.edges import EDGES
from sharewood import __version__, cli
from tests.sharewood.commands.hosting import complaint
from tests.sharewood.page.pages import check_page

COMMAND = [sys.executable, "-c", "from sharewood.cli import main; main()"]

GOOD = "id,y,a,b\n1,0,1.5,2\n2,1,2.5,1\n3,0,0.5,3\n4,1,3.5,0\n"


def sharewood(*arguments, cwd):
    return subprocess.run([*COMMAND, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=120)


def test_the_version(tmp_path):
    done = sharewood("--version", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout == f"sharewood {__version__}\n"


def test_one_place_to_import_from():
    import protocols.runtime
    import secure_tree
    import sharewood as users

    assert users.SecureXGBClassifier is secure_tree.SecureXGBClassifier
    assert users.SecureXGBRegressor is secure_tree.SecureXGBRegressor
    assert users.run_local is protocols.runtime.run_local
    with pytest.raises(AttributeError, match="'sharewood' has no attribute 'SecureForest'"):
        users.SecureForest  # noqa: B018


@pytest.fixture
def files(tmp_path):
    def write(**texts):
        for name, text in texts.items():
            (tmp_path / f"{name}.csv").write_text(text)
        return [tmp_path / f"{name}.csv" for name in texts]

    return write


def test_demo_writes_what_interfaces_name(tmp_path):
    done = sharewood("demo", "--trees", 2, "--depth", 2, "--bins", 8, "--json", "report.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    keys = {
        "data": {"rows", "features"},
        "quality": {"auc", "accuracy", "logloss", "xgboost"},
        "setup": {"seconds", "rounds", "bytes"},
        "offline": {"seconds", "bytes_dealer", "bytes_parties"},
        "online": {"seconds", "rounds", "bytes", "seconds_per_tree", "rounds_per_tree", "bytes_per_tree"},
        "predict": {"rows", "seconds", "rounds", "bytes"},
        "memory_peak_bytes": {"party_a", "party_b", "dealer"},
    }
    for section, names in keys.items():
        assert names <= set(report[section]), section
    assert report["quality"]["auc"] > 0.9 and len(set(report["pid"].values())) == 3
    assert report["training_seconds"] > max(report[name]["seconds"] for name in ("offline", "online"))
    assert report["online"]["rounds"] > 0 and report["offline"]["bytes_parties"] == 0
    own = "predictions of its own rows"
    assert report["revealed"] == [[own, f"{own} after every step of the learning curve"]] * 2
    files = {p.name for p in (tmp_path / "out" / "demo").iterdir()}
    assert files == {"party_a.npz", "party_b.npz", "result.json", "report.html"}
    curve = report["curve"]
    assert curve["trees"] == [1, 2] and curve["rows"] == {"training": 455, "held_out": 114}
    assert curve["sharewood"]["held_out"][-1] == pytest.approx(report["quality"]["logloss"], abs=1e-9)
    assert curve["xgboost"]["held_out"][-1] == pytest.approx(report["quality"]["xgboost"]["logloss"], abs=1e-9)
    assert {"gradients", "histograms", "gains", "best split", "rows to children", "leaf weights"} == set(
        report["parts"]
    )
    assert sum(part["rounds"] for part in report["parts"].values()) == report["online"]["rounds"] - 2
    dealt = sum(part["bytes_dealt"] for part in report["parts"].values())
    assert 0.9 * report["offline"]["bytes_dealer"] < dealt <= report["offline"]["bytes_dealer"]
    page = check_page((tmp_path / "out" / "demo" / "report.html").read_text())
    for measure in (*report["quality"].values(), *report["quality"]["xgboost"].values()):
        assert isinstance(measure, dict) or f"{measure:.4f}" in page
    assert f"{report['online']['rounds']:,}" in page and "ROC" in page and own in page
    assert "2 of 2 rounds of trees" in done.stderr
    assert "party_a" in done.stdout and "XGBoost" in done.stdout


def test_demo_with_joint_edges_and_without_xgboost(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "xgboost.py").write_text("raise ImportError('it is gone')\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'gone'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    done = sharewood(
        "demo", "--trees", 2, "--depth", 2, "--bins", 8, "--edges", "joint", "--json", "r.json", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert f"(it is gone): {install('xgboost')}. The demo continues without it" in done.stderr
    assert "XGBoost" not in done.stdout and "Sharewood, on secret shares" in done.stdout
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["quality"]["auc"] > 0.9 and [r[0] for r in report["revealed"]] == [EDGES] * 2
    page = check_page((tmp_path / "out" / "demo" / "report.html").read_text())
    assert "8 bins with joint edges" in page and EDGES in page
    assert report["quality"]["xgboost"] == report["curve"]["xgboost"] == {} and "XGBoost is not installed" in page


def test_demo_by_columns(tmp_path, files):
    rng = np.random.default_rng(1)
    rows = [(i, int(a + b > 0), a, b) for i, (a, b) in enumerate(rng.normal(size=(30, 2)))]
    a, b = files(
        a="id,y,a,c\n" + "".join(f"{i},{y},{a},{'few' if i % 3 else 'many'}\n" for i, y, a, _ in rows),
        b="id,b\n" + "".join(f"{i},{b if i % 5 else ''}\n" for i, _, _, b in rows),
    )
    for data in ([], ["--data", a, b]):
        done = sharewood(
            "demo", *data, "--partition", "vertical", "--trees", 2, "--depth", 2, "--json", "r.json", cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        report = json.loads((tmp_path / "r.json").read_text())
        assert report["revealed"][0][0] == "predictions of the rows" and report["revealed"][1] == []
        assert report["quality"]["auc"] > 0.7
        assert report["data"]["partition"] == "vertical" and report["data"]["features"] == (4 if data else 30)


def test_demo_with_further_owners(tmp_path):
    done = sharewood(
        "demo", "--rows", 400, "--features", 4, "--owners", 4, "--edges", "joint", "--trees", 3, "--json", "r.json",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "80 rows at party_a, 80 at party_b, 80 at owner_3, 80 at owner_4" in " ".join(done.stdout.split())
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["data"]["rows"] == [80] * 4 and report["data"]["owners"] == ["owner_3", "owner_4"]
    assert report["contributions"]["owner_3"]["rows"] == 80 and report["contributions"]["owner_4"]["bytes"] > 4 << 18
    assert abs(report["quality"]["auc"] - report["quality"]["xgboost"]["auc"]) < 0.1
    assert "that owner_3's rows are valid" in report["revealed"][0]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--owners", 1), "--owners must be at least 2, got 1"),
        (("--owners", 3), "--owners above 2 needs --edges joint, rows"),
        (("--owners", 3, "--edges", "joint", "--partition", "vertical"), "--owners above 2 needs --edges joint, rows"),
        (("--owners", 3, "--edges", "joint", "--test-size", 0), "needs a --test-size above 0"),
        (("--owners", 900, "--edges", "joint"), "no rows are left for owner_3 to train on"),
    ],
)
def test_what_further_owners_need(tmp_path, arguments, sentence):
    done = sharewood("demo", *arguments, cwd=tmp_path)
    assert done.returncode == 2 and sentence in done.stderr and done.stderr.count("\n") == 1


def test_regression_on_files(tmp_path, files):
    a, b, t = files(a=GOOD.replace("y", "v"), b=GOOD.replace("y", "v"), t=GOOD.replace("y", "v"))
    done = sharewood(
        "demo", "--data", a, b, "--test", t, "--label", "v", "--objective", "squarederror", "--trees", 1, "--depth", 1,
        "--json", tmp_path / "r.json", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert set(json.loads((tmp_path / "r.json").read_text())["quality"]) == {"rmse", "mae", "xgboost"}


def test_counts_are_evaluated_as_counts(tmp_path):
    done = sharewood(
        "--log-level", "warning", "demo", "--objective", "count:poisson", "--rows", 200, "--features", 6, "--trees", 3,
        "--depth", 2, "--bins", 8, "--json", "r.json", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0 and done.stderr == ""
    report = json.loads((tmp_path / "r.json").read_text())
    rmse, theirs = report["quality"]["rmse"], report["quality"]["xgboost"]["rmse"]
    assert rmse == pytest.approx(report["curve"]["sharewood"]["held_out"][-1], rel=1e-4)
    assert rmse == pytest.approx(theirs, rel=0.15)


@pytest.mark.parametrize(
    ("second", "arguments", "sentence"),
    [
        (GOOD.replace("y", "target"), [], "there is no label column 'y'"),
        (GOOD.replace("3,0,0.5", "3,2,0.5"), [], "b.csv: column 'y', line 4: label must be 0 or 1, got 2"),
        (GOOD.replace("3,0,", "3,,"), [], "b.csv: column 'y', line 4: value is missing"),
        (GOOD.replace("0.5", "inf"), [], "column 'a', line 4: value must be a finite number of float32, got 'inf'"),
        (
            GOOD.replace("0.5", "many"),
            [],
            "column 'a', line 4: value must be a number, got 'many'; declare it",
        ),
        (GOOD.replace("a,b", "b,a"), [], "feature columns or their order differ"),
        ("", [], "b.csv: the file is empty"),
        ("id,y,a,b\n", [], "the table has no rows"),
        (None, [], "there is no such file"),
        (GOOD, ["--depth", 0], "max_depth"),
        (GOOD, ["--bins", "few"], "--bins must be a number"),
        (GOOD, ["--bins", 1], "max_bin"),
        (GOOD, ["--objective", "rank:pairwise"], "objective"),
        (GOOD, ["--objective", "multi:ova"], "use sharewood train for several classes"),
        (GOOD, ["--offline", "nobody"], "--offline must be dealer or pairwise"),
        (GOOD, ["--offline", "pairwise", "--ot", "iknp"], "--ot must be ferret or softspoken"),
        (GOOD, ["--partition", "diagonal"], "--partition must be horizontal or vertical"),
        (GOOD[: GOOD.rindex("4,")], ["--partition", "vertical"], "must have the 4 rows of"),
        (GOOD, ["--partition", "vertical", "--test", "t.csv"], "--test must be used with data by rows"),
        (GOOD, ["--rows", 10], "use one or the other"),
        (GOOD, ["--schema", "none.toml"], "none.toml: cannot be read"),
        (GOOD, ["--test-size", 1], "--test-size"),
        (GOOD, ["--check-dealer"], 'check_dealer no longer exists: who distrusts the dealer uses offline = "pairwise"'),
    ],
)
def test_bad_input_is_one_sentence(tmp_path, monkeypatch, capsys, files, second, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    paths = files(a=GOOD, b=second) if second is not None else [*files(a=GOOD), tmp_path / "b.csv"]
    assert sentence in complaint(monkeypatch, capsys, "demo", "--data", *paths, *arguments)
    assert not (tmp_path / "out").exists()


def test_the_json_file_is_checked_before_training(tmp_path, monkeypatch, capsys, files):
    monkeypatch.chdir(tmp_path)
    a, b = files(a=GOOD, b=GOOD)
    for place, sentence in ((tmp_path / "nowhere" / "r.json", "there is no such folder"), (tmp_path, "it is a folder")):
        assert sentence in complaint(monkeypatch, capsys, "demo", "--data", a, b, "--json", place)
    assert not (tmp_path / "out").exists()


def test_an_unknown_option(tmp_path):
    done = sharewood("demo", "--nonsense", cwd=tmp_path)
    assert done.returncode == 2 and "nonsense" in done.stderr and "Traceback" not in done.stderr


def test_too_little_memory_is_one_sentence(monkeypatch, capsys):
    said = complaint(monkeypatch, capsys, "demo", "--rows", 10**11, "--features", 10**5)
    assert "this machine has too little memory (Unable to allocate" in said


def test_too_little_memory_for_compiled_code_is_one_sentence(monkeypatch, capsys):
    """numba then fails in this way."""

    def fails(**_):
        raise SystemError("error return without exception set")

    monkeypatch.setattr(cli, "app", fails)
    said = complaint(monkeypatch, capsys, "demo")
    assert said == "sharewood: this machine has too little memory (error return without exception set)\n"


@pytest.mark.parametrize(
    ("modules", "heavy"),
    [
        ("mpc, protocols.runtime, secure_tree, sharewood.cli", "torch xgboost sklearn pandas crypten matplotlib"),
        (
            "sharewood.commands.hosts.train, sharewood.commands.hosts.predict, sharewood.commands.hosts.dealer, "
            "sharewood.serving.service, sharewood.serving.http, sharewood.client, sharewood.commands.setup.plan, "
            "secure_tree.cross_validation, secure_tree.exchange.plain_model",
            "torch xgboost sklearn crypten matplotlib pandas",
        ),
    ],
)
def test_imports_are_light(modules, heavy):
    code = f"import sys, {modules}\nprint([m for m in {heavy.split()!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.stdout.strip() == "[]", done.stderr


def test_a_second_start_compiles_nothing():
    code = (
        "from numba.core import event\n"
        "from sharewood.warming_up import warm_up\n"
        "with event.install_recorder('numba:compile') as recorder: warm_up()\n"
        "print(len(recorder.buffer))"
    )
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2]
        )
    assert done.stdout.strip() == "0", done.stdout + done.stderr


def test_a_foreign_package_of_the_same_name_is_told(tmp_path):
    root = Path(__file__).parents[2]
    (tmp_path / "protocols").mkdir()
    (tmp_path / "protocols" / "__init__.py").touch()
    code = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(root)!r}]; import sharewood.cli"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert f"Sharewood needs its package 'protocols' in {root}, but Python finds {tmp_path}/protocols" in done.stderr


@pytest.mark.parametrize("command", cli._commands(), ids=lambda command: command.name)
def test_the_help_of_every_command_ends_with_an_example_that_it_accepts(command):
    before, marked, example = command.help.partition("\n\nExample: sharewood ")
    assert before and marked and "\n" not in example
    name, *words = shlex.split(example.partition(" >")[0])
    assert name == command.name
    loaded = command.loaded()
    if isinstance(loaded, TyperGroup):
        loaded = loaded.commands[words.pop(0)]
    loaded.make_context(name, words)
