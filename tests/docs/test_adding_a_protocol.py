"""docs/adding_a_protocol.md works word for word: a copy of the repository that follows it passes its tests."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "adding_a_protocol.md"
COPIED = ("benchmarks", "docs", "mpc", "notebooks", "protocols", "secure_tree", "tests", "pyproject.toml")
PROGRAMS = re.compile(r"Write this to\s+`([^`]+)`:\n\n```python\n(.*?)```", re.DOTALL)
COMMANDS = re.compile(r"```sh\n(.*?)```", re.DOTALL)


def contents(root):
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.parts[len(root.parts)].startswith(".")
    }


def run(root, command):
    environment = os.environ | {"PYTHONPATH": str(root)}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.timeout(900)
def test_the_page_word_for_word(tmp_path):
    root = tmp_path / "copy"
    root.mkdir()
    for name in COPIED:
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy2)(source, root / name)
    before = contents(root)
    page = PAGE.read_text()
    programs = PROGRAMS.findall(page)
    written = [
        "mpc/comparison/absolute.py",
        "tests/mpc/comparison/test_absolute.py",
        "tests/mpc/comparison/test_absolute_ahead.py",
    ]
    assert [path for path, _ in programs] == written
    for path, program in programs:
        (root / path).write_text(program)
    for block in COMMANDS.findall(page):
        for line in block.splitlines():
            printed = run(root, [sys.executable if word == "python" else word for word in shlex.split(line)])
    passed = re.search(r"(\d+) passed", printed)
    assert passed and int(passed[1]) >= 8, printed
    after = contents(root)
    changed = {path for path in after if after[path] != before.get(path)}
    assert changed == {*(path for path, _ in programs), "tests/mpc/protocol/wire_pins.json", "docs/complexity.md"}
    pins = [json.loads(files["tests/mpc/protocol/wire_pins.json"]) for files in (before, after)]
    new = {name for name in pins[1] if pins[0].get(name) != pins[1][name]}
    assert new == {"absolute.absolute-0"}
    for path, _ in programs:
        for command in (["check"], ["format", "--check"]):
            run(root, [sys.executable, "-m", "ruff", *command, path])
