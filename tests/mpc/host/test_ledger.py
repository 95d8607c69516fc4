"""The ledger: its chain, what is on disk, and what a crash between two appends leaves."""

import json
import os
import resource

import pytest

from mpc.errors import DataError
from mpc.host.ledger import START, Ledger


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger.jsonl")


def filled(path, count=3):
    ledger = Ledger(path)
    for i in range(count):
        ledger.append(ledger.next({"kind": "test", "what": i}))
    return ledger


def test_lines_are_a_chain_on_disk(ledger):
    assert ledger.head == START and ledger.last is None
    first = ledger.next({"kind": "explore", "bits": 3})
    ledger.append(first)
    ledger.append(ledger.next({"kind": "record"}))
    read = Ledger(ledger.path)
    assert read.lines == ledger.lines and read.head == ledger.head
    assert [(e["number"], e["kind"]) for e in read.entries] == [(0, "explore"), (1, "record")]
    assert read.entries[1]["previous"] != START and json.loads(first)["previous"] == START
    assert os.stat(ledger.path).st_mode & 0o777 == 0o600


@pytest.mark.parametrize("change", ["remove", "swap", "edit", "garbage", "binary"])
def test_changes_are_noticed(tmp_path, change):
    path = tmp_path / "ledger.jsonl"
    filled(path)
    lines = path.read_bytes().splitlines(keepends=True)
    lines = {
        "remove": lines[:1] + lines[2:],
        "swap": [lines[0], lines[2], lines[1]],
        "edit": [lines[0], lines[1].replace(b'"what":1', b'"what":7'), lines[2]],
        "garbage": [*lines[:2], b"[]\n"],
        "binary": [*lines[:2], b"\xff\n"],
    }[change]
    path.write_bytes(b"".join(lines))
    with pytest.raises(DataError, match=r"ledger\.jsonl: (line 3 of the|line 2 of the|the) ledger"):
        Ledger(path)


def test_half_a_line_is_replaced_by_the_next(tmp_path):
    path = tmp_path / "ledger.jsonl"
    whole = filled(path)
    path.write_bytes(path.read_bytes()[:-7])
    cut = Ledger(path)
    assert cut.lines == whole.lines[:2]
    cut.append(whole.lines[2])
    assert Ledger(path).lines == whole.lines


def test_a_line_that_does_not_follow_is_not_written(ledger):
    line = ledger.next({"kind": "test"})
    ledger.append(line)
    with pytest.raises(DataError, match="line 2 of the ledger does not follow"):
        ledger.append(line)
    assert Ledger(ledger.path).lines == [line]


def test_parties_agree_on_equal_ledgers_and_mend_a_crash(tmp_path):
    here, there = filled(tmp_path / "here"), filled(tmp_path / "there")
    here.agree(len(there.lines), there.head, there.last)
    ahead = there.next({"kind": "test", "what": "written by one party only"})
    there.append(ahead)
    # Either party may ask first.
    there.agree(len(here.lines), here.head, here.last)
    here.agree(len(there.lines), there.head, there.last)
    assert Ledger(here.path).lines == there.lines


@pytest.mark.parametrize("lines", [2, 4, 5])
def test_other_ledgers_are_refused(tmp_path, lines):
    here = filled(tmp_path / "here", 4)
    there = Ledger(tmp_path / "there")
    for i in range(lines):
        there.append(there.next({"kind": "test", "what": -i}))
    for one, other in ((here, there), (there, here)):
        with pytest.raises(DataError, match="the ledgers of the parties differ"):
            one.agree(len(other.lines), other.head, other.last)


def test_a_ledger_that_cannot_be_written_is_an_error(tmp_path):
    ledger = Ledger(tmp_path / "none" / "ledger.jsonl")
    with pytest.raises(DataError, match="cannot be written"):
        ledger.append(ledger.next({"kind": "test"}))
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match="cannot be read"):
        Ledger(tmp_path / "folder")


def test_a_line_that_another_run_has_written_is_read_again(tmp_path):
    here, there = filled(tmp_path / "ledger"), Ledger(tmp_path / "ledger")
    line = here.next({"kind": "test", "what": "mended"})
    there.append(line)
    here.append(line, again=True)
    assert here.lines == there.lines and len(Ledger(here.path).lines) == 4
    with pytest.raises(DataError, match="does not follow"):
        here.append(line)
    # A run that has not read the file since writes no second line of the same number.
    with pytest.raises(DataError, match="does not follow"):
        there.append(Ledger(tmp_path / "other").next({"kind": "test"}), again=True)


def test_what_a_full_disk_leaves_is_removed(tmp_path, monkeypatch):
    ledger = filled(tmp_path / "ledger")
    line, before = ledger.next({"kind": "test", "what": "x" * 1000}), ledger.path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, limits[1]))
    try:
        with pytest.raises(DataError, match="the ledger cannot be written"):
            ledger.append(line)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert ledger.path.read_bytes() == before
    ledger.append(line)
    assert Ledger(ledger.path).lines[-1] == line


def test_one_party_that_read_its_ledger_some_lines_ago(tmp_path):
    here = filled(tmp_path / "here", 5)
    for count, head in ((0, START), (2, json.loads(here.lines[2])["previous"]), (5, here.head)):
        here.agree(count, head, None, behind=True)
    for count, head in ((0, "1" * 64), (2, here.head), (6, here.head)):
        with pytest.raises(DataError, match="the ledgers of the parties differ"):
            here.agree(count, head, None, behind=True)


def test_a_line_is_mended_only_after_a_check(tmp_path):
    here, there = filled(tmp_path / "here"), filled(tmp_path / "there")
    there.append(there.next({"kind": "test"}))

    def check(line):
        raise DataError(f"no: {json.loads(line)['number']}")

    with pytest.raises(DataError, match="no: 3"):
        here.agree(len(there.lines), there.head, there.last, check)
    assert len(Ledger(here.path).lines) == 3
