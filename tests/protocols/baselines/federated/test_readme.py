"""README's commands for Flower's deployment, run verbatim and in order."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.protocols.baselines.federated.test_flower_processes import QUICK_LLR, write_rows

pytest.importorskip("flwr")

ROOT = Path(__file__).resolve().parents[4]
STAY = ("flower-superlink", "flower-supernode")
WAIT = 240


def commands(page):
    """Return the block of commands that begins with the superlink's keys, each as a list of words."""
    text = re.search(r"(?:^    .*\n)*^    .*flower-superlink --ssl.*\n(?:^    .*\n)*", page, re.MULTILINE)[0]
    return [shlex.split(line) for line in text.replace("\\\n", " ").splitlines() if line.strip()]


def test_a_key_is_registered_before_its_supernode_starts():
    order = ["sharewood", "ssh-keygen", "flower-superlink", "flwr", "flower-supernode", "flwr"]
    pages = [(ROOT / page).read_text() for page in ("README.md", "docs/federated.md")]
    blocks = [commands(page) for page in pages]
    assert [[words[0] for words in block] for block in blocks] == [order, order]
    assert [[words[:3] for words in block][3] for block in blocks] == [["flwr", "supernode", "register"]] * 2
    renamed = [[word.replace("link.example.org", "localhost").replace("/data/", "") for word in c] for c in blocks[1]]
    assert renamed == blocks[0]


@contextmanager
def started(words, folder, environment):
    """Run a process in the background; end it and its children after the block."""
    with (folder / f"{words[0]}.log").open("wb") as log:
        process = subprocess.Popen(
            words, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield
        assert process.poll() is None, (folder / f"{words[0]}.log").read_text()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def until_it_succeeds(words, folder, environment):
    """Repeat a command, as a user would while the superlink starts."""
    give_up = time.monotonic() + WAIT
    while (done := subprocess.run(words, cwd=folder, env=environment, capture_output=True)).returncode:
        assert time.monotonic() < give_up, (done.stdout + done.stderr).decode(errors="replace")
        time.sleep(1)


@pytest.mark.long
def test_readmes_commands_train_a_model(tmp_path):
    write_rows(tmp_path, clients=1)
    (tmp_path / "rows-0.csv").rename(tmp_path / "a.csv")
    (tmp_path / "protocols").symlink_to(ROOT / "protocols")
    (tmp_path / "flwr").mkdir()
    here = '[superlink]\ndefault = "here"\n[superlink.here]\naddress = "localhost:9100"\n'
    (tmp_path / "flwr/config.toml").write_text(f'{here}root-certificates = "{tmp_path}/keys/authority.crt"\n')
    run = {"system": "fedxgbllr", "parameters": QUICK_LLR.model_dump_json(), "clients": 1, "minimum": 1}
    run |= {"out": str(tmp_path / "model.npz"), "report": str(tmp_path / "report.json")}
    (tmp_path / "run.toml").write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in run.items()))
    environment = os.environ | {"FLWR_HOME": str(tmp_path / "flwr"), "FLWR_TELEMETRY_ENABLED": "0"}
    environment |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "NO_PROXY": "localhost,127.0.0.1"}
    environment |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}

    def follow(block):
        if not block:
            return
        if block[0][0] in STAY:
            with started(block[0], tmp_path, environment):
                follow(block[1:])
        else:
            until_it_succeeds(block[0], tmp_path, environment)
            if len(block) == 1:
                wait_for_the_report()
            follow(block[1:])

    def wait_for_the_report():
        give_up = time.monotonic() + WAIT
        while not (tmp_path / "model.npz").exists():
            report = tmp_path / "report.json"
            said = report.read_text() if report.exists() else "no report yet"
            assert "error" not in said and time.monotonic() < give_up, said
            time.sleep(1)

    follow(commands((ROOT / "README.md").read_text()))
    assert json.loads((tmp_path / "report.json").read_text()).get("error") is None
