"""The power fails at one or both hosts, at any write of a training: it resumes from the newest complete round."""

import logging
import random
import re
import shutil

import numpy as np
import pytest

from mpc.errors import ConfigError, DataError, PeerFailure
from mpc.host.files import make_folder
from tests.attacks.power import Disk
from tests.secure_tree.training.test_checkpoint import TREES, Killed, train

BEGUN = {"first": 0, "resumed": 3, "over an older one": TREES}
NAME = re.compile(r"(bins|round|margin)_([0-9]+)\.npz")
MANY = 150


def seeds(number):
    return bytes([2 * number]) * 16, bytes([2 * number + 1]) * 16


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return train(tmp_path_factory.mktemp("whole") / "kept", seeds=seeds(1))


@pytest.fixture(scope="module", params=BEGUN)
def recorded(request, tmp_path_factory):
    """Record what a training writes: the first in its folder, a resumed one, or a new one over old checkpoints."""
    root = tmp_path_factory.mktemp("recorded")
    if begun := BEGUN[request.param]:
        with pytest.raises(Killed):
            train(root / "kept", seeds=seeds(2), dying=(1, begun, True))
    disk = Disk(root)
    resume = request.param == "resumed"
    with pytest.MonkeyPatch.context() as patched:
        disk.watch(patched)
        train(root / "kept", resume=resume, seeds=seeds(3))
    return disk, begun if resume else 0


def rounds_on_disk(disk, cut, rank):
    """Return the newest round that was flushed with its margin before the cut."""
    named, flushed = set(), set()
    for event in disk.events[:cut]:
        if event.what == "rename":
            named.add(event.path)
        elif event.what == "flush":
            flushed |= {path for path in named if path.parent == event.path}
    kept = [NAME.fullmatch(path.name).groups() for path in flushed if path.parent.name == rank and path.name != "key"]
    return max((int(number) for kind, number in kept if kind == "round"), default=0)


def test_what_is_recorded_is_all_that_is_done(recorded, tmp_path):
    disk, _ = recorded
    disk.left(tmp_path, len(disk.events), random.Random(1), ())
    assert {path.relative_to(tmp_path): path.is_dir() or path.read_bytes() for path in tmp_path.rglob("*")} == {
        path.relative_to(disk.root): path.is_dir() or path.read_bytes() for path in disk.root.rglob("*")
    }


@pytest.mark.parametrize("count", [6, pytest.param(MANY, marks=[pytest.mark.long, pytest.mark.timeout(3600)])])
@pytest.mark.parametrize("hit", [("0",), ("1",), ("0", "1")], ids=["a", "b", "both"])
def test_a_training_resumes_from_the_newest_round_on_both_disks(recorded, whole, tmp_path, caplog, hit, count):
    disk, begun = recorded
    rng = random.Random(20260101 + len(hit) + int(hit[0]))
    places = [disk.root / "kept" / rank for rank in hit]
    for trial in range(count):
        cut = rng.randrange(len(disk.events) + 1)
        root = tmp_path / str(trial)
        make_folder(root)
        disk.left(root, cut, rng, places if len(hit) == 1 else [disk.root])
        sure = max(begun, min(rounds_on_disk(disk, cut, rank) for rank in "01"))
        caplog.clear()
        try:
            with caplog.at_level(logging.INFO):
                margins = train(root / "kept", resume=True, seeds=seeds(4))
        except (ConfigError, DataError, PeerFailure) as error:
            assert not sure and "\n" not in str(error), (cut, hit, error)
            continue
        after = {int(number) for number in re.findall("resumed after round ([0-9]+) of trees", caplog.text)}
        assert len(after) == 1 and min(after) >= sure, (cut, hit, after, sure)
        assert np.abs(margins - whole).max() < 1e-2, (cut, hit)
        shutil.rmtree(root)
