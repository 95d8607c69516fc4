"""The Containerfile, the compose file and the units start what is there; test_wheel.py runs the container's steps."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.sharewood.commands.hosting import sharewood

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted(path.name for path in DEPLOY.glob("*.service"))


def instructions():
    """(name, rest) of each line of the Containerfile that is no comment."""
    lines = re.sub(r"\\\n", " ", (DEPLOY / "Containerfile").read_text()).splitlines()
    return [tuple(line.split(maxsplit=1)) for line in lines if line.strip() and not line.startswith("#")]


def test_the_containerfile_copies_what_is_there_and_runs_as_a_user():
    steps = instructions()
    names = [name for name, _ in steps]
    known = "FROM COPY RUN ENV USER WORKDIR VOLUME EXPOSE HEALTHCHECK ENTRYPOINT CMD"
    assert set(names) == set(known.split()) and names[0] == "FROM"
    users = [rest for name, rest in steps if name == "USER"]
    assert users == ["sharewood"] and names.index("USER") > max(i for i, n in enumerate(names) if n == "RUN")
    assert ("ENTRYPOINT", '["sharewood"]') in steps
    base = {rest.split()[0] for name, rest in steps if name == "FROM"}
    assert len(base) == 1, "what is built runs on the same Python"
    for name, rest in steps:
        if name in ("ENTRYPOINT", "CMD"):
            assert all(isinstance(part, str) for part in json.loads(rest))


@pytest.mark.parametrize("service", ["dealer", "serve"])
def test_the_commands_of_compose_are_those_of_sharewood(tmp_path, service):
    job = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"][service]
    command = [re.sub(r"\$\{PARTY:-(\w+)\}", r"\1", part) for part in job["command"]]
    status, _, said = sharewood(*command, cwd=tmp_path)
    assert status == 2 and said.startswith("sharewood: ") and "cannot be read" in said
    assert (DEPLOY / job["build"]["context"]).resolve() == ROOT
    assert (ROOT / job["build"]["dockerfile"]).is_file()
    assert job["cap_drop"] == ["ALL"] and job["read_only"]


@pytest.mark.parametrize("name", UNITS)
def test_the_units_are_good_and_start_what_is_there(tmp_path, name):
    text = (DEPLOY / name).read_text()
    (started,) = re.findall(r"(?m)^ExecStart=(.+)$", text)
    program, *arguments = shlex.split(started.replace("%i", "party_a").replace("/etc/sharewood", str(tmp_path)))
    assert program == "/opt/sharewood/bin/sharewood"
    status, _, said = sharewood(*arguments, cwd=tmp_path)
    assert status == 2 and "cannot be read" in said
    if shutil.which("systemd-analyze"):
        unit = tmp_path / name
        unit.write_text(text.replace("ExecStart=/opt/sharewood/bin/sharewood", f"ExecStart={sys.executable}"))
        checked = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=60
        )
        assert checked.returncode == 0 and name not in checked.stderr, checked.stderr


def test_the_text_on_a_package_index_needs_nothing_beside_it():
    text = (ROOT / tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["readme"]).read_text()
    links = re.findall(r"\]\(([^)]*)\)", text)
    assert text.startswith("# Sharewood") and all(link.startswith("https://") for link in links), links
