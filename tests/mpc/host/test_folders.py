"""A user's folders: private ones, and that of compiled kernels if neither the package nor a home can be written."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from mpc.errors import ConfigError
from mpc.host import folders
from mpc.host.folders import cache_folder, memory_folder, private_folder, temporary_folder
from mpc.kernels import compiled

ROOT = Path(__file__).parents[3]


@pytest.fixture
def no_home(tmp_path, monkeypatch):
    """An environment whose home and cache cannot be made, not even by root."""
    (tmp_path / "file").touch()
    (tmp_path / "tmp").mkdir()
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "file" / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    return tmp_path / "tmp"


def test_a_folder_that_others_may_enter_is_refused(tmp_path):
    folder = private_folder(tmp_path / "new" / "own")
    assert folder.stat().st_mode & 0o777 == 0o700 and private_folder(folder) == folder
    folder.chmod(0o750)
    with pytest.raises(ConfigError, match="own must be a folder that only this user may enter: remove it"):
        private_folder(folder)
    (tmp_path / "link").symlink_to(private_folder(tmp_path / "other"))
    with pytest.raises(ConfigError, match="link must be a folder"):
        private_folder(tmp_path / "link")


def test_a_folder_of_another_user_is_refused(tmp_path, monkeypatch):
    folder = private_folder(tmp_path / "own")
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    with pytest.raises(ConfigError, match="own must be a folder"):
        private_folder(folder)


def test_the_memory_folder_is_in_memory_or_temporary(no_home, tmp_path, monkeypatch):
    assert memory_folder() == Path(f"/dev/shm/sharewood-{os.getuid()}")
    monkeypatch.setattr(folders, "_IN_MEMORY", str(tmp_path / "nowhere"))
    assert memory_folder() == temporary_folder()


def test_the_cache_is_the_users_or_a_temporary_folder(no_home, tmp_path, monkeypatch):
    assert cache_folder() == temporary_folder() == no_home / f"sharewood-{os.getuid()}"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "home" / ".cache" / "sharewood"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert cache_folder() == tmp_path / "cache" / "sharewood"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == tmp_path / "home" / ".cache" / "sharewood"


def test_compiled_code_without_any_folder_is_refused_in_one_sentence(no_home, monkeypatch):
    private_folder(no_home / f"sharewood-{os.getuid()}").chmod(0o777)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(compiled, "_writable", lambda folder: False)
    with pytest.raises(ConfigError, match=r"set NUMBA_CACHE_DIR to one of this user; .* must be a folder that only"):
        compiled.keep_compiled()


@pytest.fixture
def homeless(tmp_path):
    """Returns a function that runs Python where any user can write only temporary files: no package folder, no home."""
    for name in ("mpc", "secure_tree", "protocols", "sharewood"):
        shutil.copytree(ROOT / name, tmp_path / "packages" / name, ignore=shutil.ignore_patterns("__pycache__"))
        for folder in (tmp_path / "packages" / name, *(tmp_path / "packages" / name).rglob("*/")):
            (folder / "__pycache__").touch()
    (tmp_path / "tmp").mkdir()
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path / "packages"), "HOME": "/dev/null/home"}
    environment |= {"TMPDIR": str(tmp_path / "tmp")}

    def run(*arguments):
        work = {"env": environment, "cwd": tmp_path / "tmp", "capture_output": True, "text": True}
        return subprocess.run([sys.executable, *arguments], **work)

    return run


def test_a_kernel_is_compiled_without_a_home(homeless, tmp_path):
    code = "import numpy as np; from mpc.kernels import wrap as w; import mpc; print(mpc.__path__);" + (
        "w.mask_tops(np.zeros(2, np.uint64), np.uint64(0), np.zeros(2, np.uint8))"
    )
    done = homeless("-c", code)
    assert done.returncode == 0 and str(tmp_path / "packages") in done.stdout, done.stderr
    (folder,) = (tmp_path / "tmp").glob("sharewood-*")
    assert folder.stat().st_mode & 0o777 == 0o700 and list(folder.glob("numba/*/wrap.mask_tops*.nbc"))


@pytest.mark.long
def test_the_demo_and_run_local_run_without_a_home(homeless):
    arguments = [
        "--rows",
        "60",
        "--features",
        "3",
        "--trees",
        "2",
        "--depth",
        "2",
        "--bins",
        "4",
        "--json",
        "report.json",
    ]
    done = homeless("-c", "from sharewood.cli import main; main()", "demo", *arguments)
    assert done.returncode == 0 and "XGBoost" in done.stdout and "Matplotlib" not in done.stderr, done.stderr
    done = homeless("-c", "from protocols.runtime import run_local; print(run_local(lambda party: party.rank))")
    assert "(0, 1)" in done.stdout, done.stderr
