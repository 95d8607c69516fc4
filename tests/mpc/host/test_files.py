"""Files are private to their owner, complete or absent, and on disk when the call returns."""

import os
import re
import resource
import stat

import pytest

from mpc.errors import ConfigError, DataError
from mpc.host.files import alone_in, discard_partial, make_folder, remove, write_bytes, writing


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def lax_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def test_nobody_else_reads_a_file_or_enters_a_folder(tmp_path, lax_umask):
    make_folder(tmp_path / "out" / "demo")
    write_bytes(tmp_path / "out" / "demo" / "model", b"shares")
    assert mode(tmp_path / "out" / "demo") == 0o700 and mode(tmp_path / "out" / "demo" / "model") == 0o600
    (tmp_path / "old").write_bytes(b"")
    (tmp_path / "old").chmod(0o644)
    write_bytes(tmp_path / "old", b"new")
    assert mode(tmp_path / "old") == 0o600


def test_an_existing_folder_is_unchanged(tmp_path):
    tmp_path.chmod(0o755)
    make_folder(tmp_path)
    assert mode(tmp_path) == 0o755


def test_content_is_flushed_before_the_rename_and_the_folder_after_it(tmp_path, monkeypatch):
    done = []

    def noted(name, call):
        def play(first, *others):
            what = os.readlink(f"/proc/self/fd/{first}") if isinstance(first, int) else str(first)
            done.append((name, os.path.basename(what)))
            return call(first, *others)

        monkeypatch.setattr(os, name, play)

    noted("fsync", os.fsync)
    noted("replace", os.replace)
    write_bytes(tmp_path / "model", b"shares")
    assert done == [("fsync", "model.partial"), ("replace", "model.partial"), ("fsync", tmp_path.name)]


def test_a_block_that_fails_leaves_the_old_file(tmp_path):
    write_bytes(tmp_path / "material", b"old")
    with pytest.raises(KeyError), writing(tmp_path / "material") as file:
        file.write(b"new")
        raise KeyError
    assert (tmp_path / "material").read_bytes() == b"old" and len(list(tmp_path.iterdir())) == 1


def test_leftovers_of_a_killed_process_are_replaced(tmp_path):
    (tmp_path / "elsewhere").write_bytes(b"untouched")
    (tmp_path / "model.partial").symlink_to(tmp_path / "elsewhere")
    write_bytes(tmp_path / "model", b"shares")
    assert (tmp_path / "model").read_bytes() == b"shares" and (tmp_path / "elsewhere").read_bytes() == b"untouched"
    (tmp_path / "model.partial").write_bytes(b"half")
    discard_partial(tmp_path / "model")
    assert {path.name for path in tmp_path.iterdir()} == {"model", "elsewhere"}


def test_a_full_disk_is_reported_in_one_sentence_and_leaves_the_old_file(tmp_path):
    write_bytes(tmp_path / "model", b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(DataError, match=r"model: cannot be written \(File too large\)"):
            write_bytes(tmp_path / "model", bytes(2000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.name for path in tmp_path.iterdir()] == ["model"] and (tmp_path / "model").read_bytes() == b"old"


def test_failures_to_make_or_remove_are_reported_in_one_sentence(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match=r"file: the folder cannot be made \(File exists\)"):
        make_folder(tmp_path / "file")
    with pytest.raises(DataError, match="folder: cannot be removed"):
        remove(tmp_path / "folder")
    remove(tmp_path / "nothing")


def test_a_folder_has_one_training_at_a_time(tmp_path):
    sentence = f"^{re.escape(str(tmp_path))}: another process is training in this folder: wait until"
    held, again = alone_in(tmp_path), alone_in(tmp_path)
    with alone_in(tmp_path / "none"), held, pytest.raises(ConfigError, match=sentence), again:
        pass
    with alone_in(tmp_path):
        pass
