"""Every program of benchmarks/ runs at its smallest size, and writes nothing into the documentation."""

import ast
import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import benchmarks
from benchmarks.__main__ import main, programs
from benchmarks.bench_page import main as write_page
from benchmarks.every_protocol import EVERY_PROTOCOL
from benchmarks.federated_data import DATA
from benchmarks.program import DOCS, write_between

FOLDER = {
    *(
        "beside_spu",
        "categories",
        "checks_cost",
        "cluster",
        "compare_vertical",
        "edges_cost",
        "extraction",
        "federated_figures",
    ),
    *(
        "fedxgbllr_rates",
        "four_systems",
        "heterogeneity",
        "explore",
        "forests",
        "large",
        "monitor",
        "objectives",
        "owners",
        "pairwise",
        "papers",
        "peer_check",
        "plot_secureboost",
        "reasons",
        "sources",
        "two_runs",
    ),
}
FILE = {"crypten_cnn", "federated_fedxgbllr", "federated_virtual_samples", "virtual_samples_update"}
LONG = {
    "cluster": "starts Ray",
    "cluster_kills": "starts Ray",
    "papers": "starts three hosts as commands, through a relay",
    "plan_vs_relay": "starts three hosts as commands, through a relay",
    "serve": "starts three hosts as commands, and waits until they are ready",
    "reasons": "starts three hosts as commands, and waits until they are ready",
    "crypten_cnn": "starts CrypTen; test_crypten_cnn.py runs all but its report",
}
# Another test runs its main.
ELSEWHERE = {"bench_page": "with make bench, below", "complexity": "test_complexity.py", "scaling": "test_scaling.py"}
PUBLIC_SETS = {
    *("attack_secureboost", "federated_fedxgbllr", "federated_virtual_samples", "plot_secureboost"),
    *("fedxgbllr_rates", "quality_secureboost", "virtual_samples_update"),
}


def documentation():
    return {path: path.stat().st_mtime_ns for path in DOCS.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long, pytest.mark.timeout(1800)] if name in LONG else [])
        for name in programs()
        if name not in ELSEWHERE
    ],
)
def test_a_program_runs_at_its_smallest_size(name, tmp_path, monkeypatch):
    if name in PUBLIC_SETS and not DATA.is_dir():
        pytest.skip("the public sets are not beside this checkout")
    monkeypatch.chdir(tmp_path)
    before = documentation()
    where = ["--out", str(tmp_path)] if name in FOLDER else ["--out", str(tmp_path / "out.csv")] if name in FILE else []
    import_module(f"benchmarks.{name}").main(["--smallest", *where])
    assert documentation() == before
    if where:
        assert any(path.is_file() and path.stat().st_size for path in tmp_path.rglob("*"))


def test_each_module_that_can_be_run_is_among_the_programs():
    known = {*programs(), "__main__"}
    for path in Path(benchmarks.__file__).parent.glob("*.py"):
        guarded = any(
            isinstance(node, ast.If) and "__name__" in ast.dump(node.test) for node in ast.parse(path.read_text()).body
        )
        assert guarded == (path.stem in known), path


def test_make_bench_runs_at_its_smallest_size_and_its_page_is_written(tmp_path):
    arguments = ["--smallest", "--out", tmp_path]
    command = [sys.executable, "-m", "benchmarks", *map(str, arguments)]
    # As outside this suite: its workers would switch the timings off.
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    run = subprocess.run(command, cwd=DOCS.parent, env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    for said in ("Beside CrypTen", "CrypTen, third party", "whole tree", "passed"):
        assert said in run.stdout
    measured = json.loads((tmp_path / "results.json").read_text())["benchmarks"]
    assert {b["extra_info"].get("suite") for b in measured} == {"operation", "protocol", "tree", None}
    assert {b["extra_info"].get("name") for b in measured} >= set(EVERY_PROTOCOL)
    before = documentation()
    write_page(["--results", str(tmp_path / "results.json"), "--out", str(tmp_path)])
    assert "| product | 64 |" in (tmp_path / "benchmarks.md").read_text()
    assert documentation() == before


def test_help_is_the_packages_own(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    said = capsys.readouterr().out
    assert "python -m benchmarks" in said and "--benchmark-only" not in said
    for name, line in programs().items():
        assert f"benchmarks.{name}" in said and line and line in said
        assert line.endswith("."), f"the first line of {name} must be a sentence"


def test_a_table_is_written_between_its_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a\n\n<!-- t -->\nold\n<!-- end of t -->\n\nb\n")
    write_between(page, "t", "| new |")
    assert page.read_text() == "a\n\n<!-- t -->\n\n| new |\n\n<!-- end of t -->\n\nb\n"
    with pytest.raises(ValueError, match="must have the lines <!-- u -->"):
        write_between(page, "u", "")
