"""The files of a killed training: damaged rounds are grown again, and files of other trainings are refused."""

import logging
import pickle
import random
import shutil
import stat
from types import SimpleNamespace

import numpy as np
import pytest

from mpc.errors import ConfigError, DataError, SharewoodError
from secure_tree.agreement.messages import VERSION
from secure_tree.agreement.training import ResumeFacts, agree_on_resumption
from secure_tree.data.bins import make_bins
from secure_tree.data.own_rows import Here
from secure_tree.data.table import Table, rows_of
from secure_tree.model.storage import read_arrays
from secure_tree.public.config import TrainConfig
from secure_tree.training import checkpoint
from secure_tree.training.checkpoint import Attempt, Checkpoints
from tests.secure_tree.model.mutations import mutated
from tests.secure_tree.prediction.test_predict import predict_both
from tests.secure_tree.training.test_checkpoint import TABLES, TREES, Killed, train

AGAIN = {"resume": True, "seeds": (b"c" * 16, b"d" * 16)}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Folders of a training that was killed at its last round and of another one on the same data, and its margins."""
    folder = tmp_path_factory.mktemp("checkpoints")
    with pytest.raises(Killed):
        train(folder / "one", dying=(1, TREES, True))
    with pytest.raises(Killed):
        train(folder / "other", dying=(1, TREES, True), seeds=(b"e" * 16, b"f" * 16))
    return folder, train(folder / "whole")


@pytest.fixture
def kept(trained, tmp_path):
    shutil.copytree(trained[0] / "one", tmp_path / "kept")
    return tmp_path / "kept"


def names(folder):
    return {path.name for path in folder.iterdir()}


def test_only_their_owner_reads_them(kept):
    assert names(kept / "0") == {
        "key",
        "bins_00000.npz",
        *(f"round_0000{n}.npz" for n in (1, 2, 3, 4, 5)),
        *margins(2, 3, 4, 5),
    }
    assert stat.S_IMODE((kept / "0").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (kept / "0").iterdir()} == {0o600}


def margins(*numbers):
    return {f"margin_0000{n}.npz" for n in numbers}


def test_old_margins_thin_out(kept, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "write_arrays", lambda path, *_: path.touch())
    shares = resumable(kept)[0]
    for number in range(1, 1001):
        Attempt(Checkpoints(tmp_path), "training", "attempt", "own").save(number, *shares)
    left = {int(path.stem[7:]) for path in tmp_path.glob("margin_*")}
    assert {1000, 999, 998, 997, 996, 994, 992, 984, 976, 960, 896, 768, 512} <= left and len(left) < 25


@pytest.mark.parametrize(("kind", "foreign"), [("round", (1, 2, 3)), ("round", (5,)), ("margin", (5,))])
def test_files_of_another_training_are_refused(trained, kept, kind, foreign):
    for rank in "01":
        for number in foreign:
            name = f"{kind}_{number:05d}.npz"
            shutil.copy(trained[0] / "other" / rank / name, kept / rank / name)
            shutil.copy(trained[0] / "other" / rank / "key", kept / rank / "key")
    with pytest.raises(DataError, match="another configuration or other data"):
        train(kept, **AGAIN)


def test_files_of_another_training_under_the_same_key_are_refused(trained, kept, monkeypatch):
    monkeypatch.setattr(checkpoint, "_mac", lambda *_: "the same")
    other = kept.parent / "other"
    with pytest.raises(Killed):
        train(kept.parent / "one", dying=(1, TREES, True))
    with pytest.raises(Killed):
        train(other, dying=(1, TREES, True))
    for rank in "01":
        shutil.copy(other / rank / "round_00002.npz", kept.parent / "one" / rank / "round_00002.npz")
    with pytest.raises(
        DataError, match=r"round_00002.npz: the checkpoint and that of round 1 belong to different trainings"
    ):
        train(kept.parent / "one", **AGAIN)


@pytest.mark.parametrize(
    ("lost", "after"),
    [
        ({"1": ("round_00005", "margin_00005")}, 4),
        ({"1": [f"{kind}_0000{n}" for n in (3, 4, 5) for kind in ("round", "margin")]}, 2),
        ({"0": ["margin_00005"], "1": ["round_00004"]}, 3),
    ],
)
@pytest.mark.parametrize("how", ["gone", "cut", "empty"])
def test_the_newest_round_that_both_have_whole(trained, kept, caplog, lost, after, how):
    for rank, stems in lost.items():
        for stem in stems:
            path = kept / rank / f"{stem}.npz"
            content = path.read_bytes()
            path.unlink()
            if how != "gone":
                path.write_bytes(content[: len(content) // 2] if how == "cut" else b"")
    with caplog.at_level(logging.INFO):
        resumed = train(kept, **AGAIN)
    assert f"resumed after round {after} of trees" in caplog.text
    assert np.abs(resumed - trained[1]).max() < 1e-2


def test_a_folder_from_a_backup_is_not_mixed_with_rounds_of_a_later_attempt(trained, kept, caplog):
    """Both parties resume after round 3 and grow 4 and 5 again. Then one folder is restored to its earlier state."""
    shutil.copytree(kept / "1", kept.parent / "backup")
    for rank in "01":
        for n in (4, 5):
            (kept / rank / f"round_0000{n}.npz").unlink()
    train(kept, **AGAIN)
    shutil.rmtree(kept / "1")
    (kept.parent / "backup").rename(kept / "1")
    with caplog.at_level(logging.INFO):
        resumed = train(kept, resume=True, seeds=(b"g" * 16, b"h" * 16))
    assert caplog.text.count("resumed after round 3 of trees") == 2
    assert np.abs(resumed - trained[1]).max() < 1e-2


def test_halves_that_two_runs_of_a_training_finished_are_refused(kept):
    halves = [[None, None], [None, None]]
    for run, seeds in enumerate((AGAIN["seeds"], (b"g" * 16, b"h" * 16))):

        def keep(model, party, run=run):
            halves[run][party.rank] = model
            return np.zeros(1)

        train(kept, resume=True, seeds=seeds, ask=keep)
    assert predict_both(halves[1], TABLES)[0].shape == (25,)
    with pytest.raises(DataError, match="the two halves of the model come from different trainings"):
        predict_both((halves[0][0], halves[1][1]), TABLES)


def test_parties_without_a_common_round(kept):
    for n in (3, 4, 5):
        (kept / "0" / f"margin_0000{n}.npz").unlink()
    (kept / "1" / "margin_00002.npz").unlink()
    with pytest.raises(ConfigError, match="no round is complete at both parties: train without --resume"):
        train(kept, **AGAIN)


def test_strangers_in_the_folder(trained, kept):
    for name in ("round_copy.npz", "round_.npz", "margin_1.npz", "notes.txt"):
        (kept / "0" / name).write_text("not ours")
    (kept / "0" / "round_00003.npz.partial").write_text("a kill left this")
    (kept / "0" / "round_folder.npz").mkdir()
    resumed = train(kept, **AGAIN)
    assert np.abs(resumed - trained[1]).max() < 1e-2
    left = names(kept / "0")
    assert {"round_copy.npz", "notes.txt", "round_folder.npz"} <= left and not any(n.endswith("partial") for n in left)


OLD_FACTS = np.array('{"format": 3, "pairing": "p", "own": "o"}')


@pytest.mark.parametrize(
    ("name", "spoil", "sentence"),
    [
        ("round_00001.npz", lambda path: path.unlink(), "round_00001.npz: there is no such file"),
        (
            "round_00001.npz",
            lambda path: path.write_bytes(pickle.dumps([1])),
            "not a checkpoint of format 9",
        ),
        ("round_00001.npz", lambda path: np.savez(path, facts=OLD_FACTS), "from an older version"),
        ("round_00005.npz", lambda path: shutil.copy(path.with_name("round_00003.npz"), path), "is round 3, renamed"),
        ("margin_00005.npz", lambda path: shutil.copy(path.with_name("round_00005.npz"), path), "is round 5, renamed"),
        ("round_00006.npz", lambda path: path.mkdir(), "round_00006.npz: cannot be removed"),
        ("key", lambda path: path.unlink(), "key: there is no such file"),
        ("key", lambda path: path.write_bytes(b"short"), r"not a key of a checkpoints folder \(5 bytes\)"),
        ("key", lambda path: path.write_bytes(bytes(32)), "another configuration or other data"),
    ],
)
def test_what_cannot_be_resumed_is_a_sentence(kept, name, spoil, sentence):
    spoil(kept / "0" / name)
    with pytest.raises(DataError, match=sentence):
        train(kept, **AGAIN)


@pytest.mark.parametrize("nothing", [(None, []), ("t", [])])
def test_only_the_party_without_rounds_is_at_fault(nothing):
    def outcome(own, theirs):
        facts = ResumeFacts.of(resume=True, training=theirs[0], points=theirs[1])
        party = SimpleNamespace(exchange_public=lambda *_: {"version": VERSION, **facts.model_dump()})
        with pytest.raises(SharewoodError) as error:
            agree_on_resumption(party, True, *own)
        return error.value.exit_status, str(error.value)

    whole = "t", [(1, "d")]
    status, said = outcome(nothing, whole)
    assert status == 2 and said == "this party has no complete round to resume from: train without --resume at both"
    status, said = outcome(whole, nothing)
    assert status == 3 and "the other party has no complete round to resume from, or refuses its checkpoints" in said


def test_equal_data_leaves_different_fingerprints(tmp_path):
    config, data = TrainConfig().model_dump(), rows()
    party = SimpleNamespace(rank=0, exchange_public=lambda _, facts: facts)
    attempts = [Checkpoints(tmp_path / name).start(party, "p", config, data) for name in ("a", "b")]
    assert attempts[0].own != attempts[1].own


def test_there_is_something_to_resume_once_a_round_is_kept(kept, tmp_path):
    config, party = TrainConfig().model_dump(), SimpleNamespace(rank=0, exchange_public=lambda _, facts: facts)
    fresh = Checkpoints(kept / "0")
    assert not fresh.any_kept(), "the rounds in the folder are of an earlier training"
    fresh.start(party, "p", config, rows())
    assert not fresh.any_kept() and names(kept / "0") == {"key"}


@pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.long)])
def test_no_damage_resumes_with_other_shares(kept, tmp_path, count, caplog):
    """Whatever happens to one file, a training resumes from the shares that were saved, or not at all."""
    caplog.set_level(logging.CRITICAL)
    rng, refused = random.Random(7), 0
    party = SimpleNamespace(rank=0, exchange_public=lambda _, facts: facts)
    config, data = TrainConfig().model_dump(), rows()
    whole = tmp_path / "whole"
    attempt = Checkpoints(whole).start(party, "p", config, data)
    attempt.bins(data, lambda: make_bins(data.table.features, 2))
    shares = resumable(kept)
    for number, (trees, margin) in enumerate(shares, 1):
        attempt.save(number, trees, margin)
    for _ in range(count):
        shutil.rmtree(tmp_path / "cut", ignore_errors=True)
        shutil.copytree(whole, tmp_path / "cut")
        path = rng.choice(sorted((tmp_path / "cut").iterdir()))
        path.write_bytes(mutated(path.read_bytes(), rng))
        try:
            found = Checkpoints(tmp_path / "cut", resume=True).start(party, "q", config, data)
        except (DataError, ConfigError) as error:
            assert "\n" not in str(error)
            refused += 1
            continue
        assert found.training == "p" and found.done <= len(shares)
        expected = [tree for trees, _ in shares[: found.done] for tree in trees]
        assert all(same(*pair) for pair in zip(found.trees, expected, strict=True))
        assert np.array_equal(found.margin.words, shares[found.done - 1][1].words)
    assert 0 < refused < count


def rows():
    table = Table(np.arange(3, dtype=np.float32)[:, None], ("f0",))
    return Here(table, rows_of(table, np.arange(0)))


def resumable(folder):
    """Return (trees, margin) of every round of party 0 as arguments of `save`; a removed margin is the newest one."""

    def parts(kind, number):
        return checkpoint._unpack(read_arrays(folder / "0" / f"{kind}_{number:05d}.npz", "checkpoint")[1], 0)

    return [(checkpoint._trees(parts("round", n)), parts("margin", max(n, 2))["margin"]) for n in range(1, TREES + 1)]


def same(tree, other):
    pairs = [(getattr(tree, name), getattr(other, name)) for name in ("leaves", "gains", "covers")]
    bits = [(tree.winner, other.winner), *zip(tree.sets, other.sets, strict=True)]
    return all(np.array_equal(a.words, b.words) for a, b in pairs) and all(
        np.array_equal(a.bits, b.bits) for a, b in bits
    )
