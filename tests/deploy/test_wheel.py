"""The wheel, the container and a bundle in fresh environments, outside the checkout; they need a package registry."""

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.deploy.test_deploy import ROOT, instructions

NOBODY = 65534
# What a user does first: train and predict between processes of this machine, and write a page.
JOB = """
import numpy as np
from sharewood import SecureXGBClassifier, run_local, warm_up
from sharewood.page import comparison_page

def job(party):
    rng = np.random.default_rng(party.rank)
    X = rng.normal(size=(40, 3))
    model = SecureXGBClassifier(n_estimators=2, max_depth=2, max_bin=4).fit(party, X, X[:, 0] > 0)
    return float(((model.predict_proba(party, X)[:, 1] > 0.5) == (X[:, 0] > 0)).mean())

warm_up()
assert min(run_local(job)) > 0.8
assert "</html>" in comparison_page(["a"], {})
import sharewood, importlib.resources
assert importlib.resources.files("sharewood.page").joinpath("live.html").is_file()
print(sharewood.__file__)
"""


def outside(command, folder, **more):
    """Run a command without a home, in a folder outside the checkout, and as another user if that one has a Python."""
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **more}
    user = NOBODY if _may_run_python() else None
    done = subprocess.run(
        command, cwd=folder, env=env, user=user, group=user, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _may_run_python():
    """Whether this process may become NOBODY, and NOBODY enters the folders of this Python."""
    places = Path(sys.executable).resolve().parents
    return os.getuid() == 0 and all(place.stat().st_mode & 0o001 for place in places)


@pytest.fixture
def open_folder(tmp_path):
    """A folder that every user may enter and write."""
    for path in (tmp_path, *tmp_path.parents):
        if path.stat().st_uid == os.getuid() and path.stat().st_mode & 0o001 == 0:
            path.chmod(path.stat().st_mode | 0o011)
    work = tmp_path / "work"
    work.mkdir()
    work.chmod(0o777)
    return work


@pytest.fixture
def source(tmp_path):
    """A copy of the checkout: a build writes beside what it builds."""
    ignored = shutil.ignore_patterns(".*", "out", "*.egg-info", "__pycache__", "build")
    return shutil.copytree(ROOT, tmp_path / "source", ignore=ignored)


@pytest.fixture
def clean():
    """The environment without PYTHONPATH, where pip would find the checkout."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def test_the_wheel_in_a_fresh_environment(tmp_path, open_folder, source, clean):
    pip = [sys.executable, "-m", "pip", "--quiet"]
    command = [*pip, "wheel", "--no-deps", "--wheel-dir", tmp_path, source]
    subprocess.run(command, check=True, timeout=300, env=clean)
    (wheel,) = tmp_path.glob("*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    install = [python, "-m", "pip", "--quiet", "install", "--no-compile", wheel]
    subprocess.run(install, check=True, timeout=500, env=clean)
    size = sum(path.lstat().st_size for path in (tmp_path / "venv").rglob("*") if path.is_file())
    print(f"base install: {size / 1e6:.0f} MB")
    (open_folder / "job.py").write_text(JOB)
    found = outside([python, "job.py"], open_folder)
    assert found.strip().startswith(str(tmp_path / "venv"))
    assert not list((tmp_path / "venv").rglob("pandas"))
    command = python.with_name("sharewood")
    assert "sharewood" in outside([command, "--version"], open_folder)
    outside([command, "keygen", "--out", "keys", "--names", "party_a", "party_b"], open_folder)
    hosts = '[parties.a]\naddress = "h:1"\n[parties.b]\n[dealer]\naddress = "h:2"\n'
    (open_folder / "a.toml").write_text(f'tls = "keys"\n{hosts}')
    done = subprocess.run(
        [command, "serve", "--config", "a.toml", "--party", "a"],
        cwd=open_folder,
        env=clean,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and re.search(r"pip install '/.*\.whl\[serve\]'", done.stderr)


@pytest.mark.long
def test_the_steps_of_the_containerfile(tmp_path, open_folder, source, clean):
    """Every RUN, with the image's folders below a folder here and stand-ins for what needs root; then the command."""
    places = {"/src": str(source), "/opt/": f"{tmp_path}/opt/", "/var/lib/": f"{open_folder}/"}

    def here(text):
        for there, place in places.items():
            text = text.replace(there, place)
        return text

    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("useradd", "chown"):
        (tools / name).write_text('#!/bin/sh\necho "$0 $*" >> "${0%/*}/log"\n')
        (tools / name).chmod(0o755)
    (tools / "python").symlink_to(sys.executable)
    env = {**clean, "PATH": f"{tools}:{clean['PATH']}"}
    steps = instructions()
    for rest in [rest for name, rest in steps if name == "RUN"]:
        subprocess.run(["sh", "-ec", here(rest)], check=True, env=env, cwd=tmp_path, timeout=500)
    assert "useradd --uid 10001" in (tools / "log").read_text()
    (open_folder / "sharewood" / "cache").chmod(0o777)
    (set_there,) = [rest for name, rest in steps if name == "ENV"]
    variables = dict(part.split("=", 1) for part in here(set_there).split())
    variables["PATH"] = variables["PATH"].replace("$PATH", os.environ["PATH"])
    entry, command = (json.loads(rest) for name, rest in steps if name in ("ENTRYPOINT", "CMD"))
    program = shutil.which(entry[0], path=variables["PATH"])
    assert program and program.startswith(str(tmp_path / "opt"))
    assert "serve" in outside([program, *command], open_folder, **variables)
    (open_folder / "job.py").write_text(JOB)
    python = Path(program).with_name("python")
    assert str(tmp_path / "opt") in outside([python, "job.py"], open_folder, **variables)
    assert "fastapi" in outside([python, "-c", "import sharewood.serving.http as h; print(h.FastAPI)"], open_folder)


@pytest.mark.long
def test_a_bundle_installs_without_an_index(tmp_path, open_folder, source, clean):
    subprocess.run(["make", "bundle", f"PYTHON={sys.executable}", "EXTRAS=align"], cwd=source, check=True, env=clean)
    bundle = source / "out" / "bundle"
    lines = (bundle / "requirements.txt").read_text().splitlines()
    wheels = sorted((bundle / "wheels").iterdir())
    assert len(lines) == len(wheels) and all(
        re.fullmatch(r"\S+==\S+ --hash=sha256:[0-9a-f]{64}", line) for line in lines
    )
    assert not any((bundle / name).exists() for name in ("tool", "venv"))
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--no-index", "--find-links", "wheels", "--require-hashes"]
    install += ["--no-compile", "-r", "requirements.txt"]
    # No configuration of pip, and a proxy where nobody listens.
    alone = {"PATH": clean["PATH"], "PIP_CONFIG_FILE": os.devnull, "HTTPS_PROXY": "http://127.0.0.1:9"}

    (changed,) = (bundle / "wheels").glob("typer-*.whl")
    wheel = changed.read_bytes()
    changed.write_bytes(wheel + b"\0")
    refused = subprocess.run(install, cwd=bundle, env=alone, capture_output=True, text=True, timeout=500)
    assert refused.returncode and "DO NOT MATCH THE HASHES" in refused.stderr
    changed.write_bytes(wheel)

    subprocess.run(install, cwd=bundle, env=alone, check=True, timeout=500)
    (open_folder / "job.py").write_text(JOB)
    assert outside([python, "job.py"], open_folder).strip().startswith(str(tmp_path / "venv"))
    assert "nacl" in outside([python, "-c", "from protocols.psi.points import sodium; print(sodium())"], open_folder)
