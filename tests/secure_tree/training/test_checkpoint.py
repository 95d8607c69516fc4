"""A training that is killed and resumed keeps earlier trees, and its result agrees with an uninterrupted run."""

import dataclasses
import os
import secrets
import signal

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from mpc.errors import ConfigError, DataError, PeerFailure
from protocols.offline.dealer import client as dealt
from protocols.offline.dealer.client import FromDealer
from protocols.offline.streams import Streams
from protocols.runtime import run_local
from protocols.runtime.processes import RoleKilled
from protocols.testing.two_parties import run_both
from secure_tree.estimator import SecureXGBClassifier
from secure_tree.training.checkpoint import Checkpoints
from tests.secure_tree.test_twin import halves, table

TREES = 5
# No two splits of a node are nearly equal, so the coins of another run do not change any tree.
X, _ = table(60, 3, seed=41)
Y = ((X[:, 0] > 0.3) & (X[:, 1] > -0.5)).astype(float)
TABLES, LABELS = halves(X, Y, 25)


class Killed(Exception):
    pass


@dataclasses.dataclass
class Dying(Checkpoints):
    """Checkpoints that fail just before or just after a tree is saved."""

    tree: int = 0
    after: bool = False

    def save(self, number, *args):
        if number == self.tree and not self.after:
            raise Killed
        super().save(number, *args)
        if number == self.tree:
            raise Killed


def train(folder, resume=False, seeds=(b"a" * 16, b"b" * 16), labels=LABELS, dying=None, ask=None, **parameters):
    def job(party):
        kept = Checkpoints(folder / str(party.rank), resume)
        if dying and dying[0] == party.rank:
            kept = Dying(kept.folder, resume, *dying[1:])
        config = dict(n_estimators=TREES, max_depth=2, max_bin=8, learning_rate=0.5) | parameters
        model = SecureXGBClassifier(**config).fit(party, TABLES[party.rank], labels[party.rank], checkpoints=kept)
        return ask(model, party) if ask else model.predict_margin(party, TABLES[party.rank])

    return np.concatenate(run_both(job, seeds)[0])


def files(folder, below):
    trees = [folder / str(rank) / f"round_{number:05d}.npz" for rank in (0, 1) for number in range(1, below)]
    return [path.read_bytes() for path in trees]


@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("tree", [2, TREES])
def test_killed_and_resumed(tmp_path, victim, after, tree):
    whole = train(tmp_path / "whole")
    with pytest.raises(Killed):
        train(tmp_path / "cut", dying=(victim, tree, after))
    before = files(tmp_path / "cut", tree)
    resumed = train(tmp_path / "cut", resume=True, seeds=(b"c" * 16, b"d" * 16))
    assert files(tmp_path / "cut", tree) == before
    assert np.abs(resumed - whole).max() < 1e-2


def test_a_training_goes_on_to_more_trees(tmp_path):
    whole = train(tmp_path / "whole")
    fewer = train(tmp_path / "cut", n_estimators=2)
    before = files(tmp_path / "cut", 3)
    more = train(tmp_path / "cut", resume=True, seeds=(b"c" * 16, b"d" * 16))
    assert files(tmp_path / "cut", 3) == before
    assert np.abs(more - whole).max() < 1e-2 < np.abs(more - fewer).max()
    with pytest.raises(ConfigError, match=f"n_estimators must be at least {TREES}, .* got 3"):
        train(tmp_path / "cut", resume=True, n_estimators=3)


@pytest.mark.parametrize("kind", ["total_gain", "total_cover"])
def test_gains_and_covers_are_carried_over(tmp_path, kind):
    def ask(model, party):
        return model.feature_importance(party, kind)

    whole = train(tmp_path / "whole", ask=ask)
    with pytest.raises(Killed):
        train(tmp_path / "cut", dying=(0, 4, True))
    resumed = train(tmp_path / "cut", resume=True, seeds=(b"c" * 16, b"d" * 16), ask=ask)
    assert np.abs(resumed - whole).max() < 0.02 * whole.max()


def test_killed_before_the_first_tree(tmp_path):
    with pytest.raises(Killed):
        train(tmp_path, dying=(1, 1, False))
    with pytest.raises((ConfigError, PeerFailure), match=r"no checkpoint|no complete round to resume from"):
        train(tmp_path, resume=True)


def test_checkpoints_of_another_training(tmp_path):
    with pytest.raises(Killed):
        train(tmp_path, dying=(0, 3, True))
    with pytest.raises(DataError, match="another configuration or other data"):
        train(tmp_path, resume=True, reg_lambda=3)
    with pytest.raises(DataError, match="another configuration or other data"):
        train(tmp_path, resume=True, labels=[1 - y for y in LABELS])
    train(tmp_path, n_estimators=2)
    assert len(list((tmp_path / "0").glob("round_*"))) == 2


def in_processes(folder, resume=False, kill=None, tables=TABLES, labels=LABELS, **parameters):
    """Train between processes. `kill` is (rank, tree): this party is killed after it has grown this tree."""

    def job(party):
        def observe(number, *_):
            if kill == (party.rank, number + 1):
                os.kill(os.getpid(), signal.SIGKILL)

        config = dict(n_estimators=TREES, max_depth=2, max_bin=8, learning_rate=0.5) | parameters
        kept = Checkpoints(folder / str(party.rank), resume)
        own = tables[party.rank], labels[party.rank]
        model = SecureXGBClassifier(**config).fit(party, *own, observer=observe, checkpoints=kept)
        return model.predict_margin(party, tables[party.rank]), model.curve

    (first, curve), (second, same) = run_local(job)
    assert curve == same
    return np.concatenate([first, second]), curve


@pytest.fixture
def requests_taken(tmp_path, monkeypatch):
    """Record every request that either party takes in any session, as (seed and nonce of the session, index)."""
    log, take = tmp_path / "taken", FromDealer.take

    class Seeded(Streams):
        def __init__(self, seed, nonce):
            super().__init__(seed, nonce)
            self.seed = seed

    def noted(self, kind):
        window_take = self._window.take

        def taken(look):
            request = window_take(look)
            # Written immediately, so that a killed process leaves a record of what it took.
            with open(log, "ab", buffering=0) as file:
                streams = f"{self._streams.seed.hex()} {self._streams.nonce.hex()}"
                file.write(f"{self._rank} {streams} {request.index}\n".encode())
            return request

        monkeypatch.setattr(self._window, "take", taken)
        try:
            return take(self, kind)
        finally:
            monkeypatch.setattr(self._window, "take", window_take)

    monkeypatch.setattr(dealt, "Streams", Seeded)
    monkeypatch.setattr(FromDealer, "take", noted)
    return lambda: [tuple(line.split()) for line in log.read_text().splitlines()]


@pytest.mark.parametrize(
    ("trainings", "kills"),
    [(1, 2), pytest.param(10, 1, marks=pytest.mark.long), pytest.param(1, 10, marks=pytest.mark.long)],
)
def test_processes_killed_at_random_trees(tmp_path, requests_taken, trainings, kills):
    trees = {"n_estimators": max(TREES, kills + 2)}
    whole, _ = in_processes(tmp_path / "whole", **trees)
    for attempt in range(trainings):
        folder = tmp_path / str(attempt)
        before, at = [], sorted(secrets.SystemRandom().sample(range(1, trees["n_estimators"] + 1), kills))
        for tree in at:
            with pytest.raises(RoleKilled):
                in_processes(folder, resume=tree != at[0], kill=(secrets.randbelow(2), tree), **trees)
            now = files(folder, tree)
            assert set(before) <= set(now)
            before = now
        resumed, _ = in_processes(folder, resume=True, **trees)
        assert files(folder, at[-1]) == before
        assert np.abs(resumed - whole).max() < 1e-2, at
        truth = np.concatenate(LABELS)
        assert abs(roc_auc_score(truth, resumed) - roc_auc_score(truth, whole)) < 0.005
    taken = requests_taken()
    assert len(taken) == len(set(taken)), "a mask is used only once"
    sessions = 1 + trainings * (kills + 1)
    assert (
        len({seed for _, seed, _, _ in taken}) == 2 * sessions and len({nonce for _, _, nonce, _ in taken}) == sessions
    )


@pytest.mark.parametrize(
    ("tree", "data", "parameters"),
    [
        (3, {}, {"test_size": 0.3, "eval_epochs": 2}),
        (TREES, {}, {"test_size": 0.3, "eval_epochs": 2, "edges": "joint"}),
        (4, {}, {"test_size": 0.3, "eval_epochs": 1, "early_stopping_rounds": 2, "n_estimators": 12}),
        (
            7,
            {"labels": [np.digitize(x[:, 0], [-0.5, 0.5]) for x in TABLES]},
            {"objective": "multi:ova", "num_class": 3},
        ),
        # With eight bins two splits of these columns are nearly equal; with six, none are.
        (2, {"tables": (X[:, :1], X[:, 1:]), "labels": (None, Y)}, {"partition": "vertical", "max_bin": 6}),
    ],
)
def test_resumed_trainings_of_every_kind(tmp_path, tree, data, parameters):
    whole, curve = in_processes(tmp_path / "whole", **data, **parameters)
    with pytest.raises(RoleKilled):
        in_processes(tmp_path / "cut", kill=(1, tree), **data, **parameters)
    resumed, again = in_processes(tmp_path / "cut", resume=True, **data, **parameters)
    assert np.abs(resumed - whole).max() < 1e-2
    assert [count for count, _ in again] == [count for count, _ in curve]
    assert all(value == pytest.approx(other, abs=1e-2) for (_, value), (_, other) in zip(again, curve, strict=True))


def test_a_file_is_no_folder_for_checkpoints(tmp_path):
    for rank in (0, 1):
        (tmp_path / str(rank)).write_text("")
    with pytest.raises(DataError, match="the folder cannot be made"):
        train(tmp_path)
