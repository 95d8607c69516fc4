"""Hosts with broken answers: the guest's error names the host, and there is no model."""

import random
from functools import partial

import numpy as np
import pytest

from mpc.errors import ProtocolDesync, SharewoodError
from protocols.baselines.secureboost import Guest, Host, SecureBoostConfig, answers
from protocols.runtime.processes import run_processes
from tests.protocols.baselines.secureboost.parties import QUICK, kept

ROWS, TREES = 60, 2
STRANGE = (
    None,
    True,
    0,
    -1,
    1 << 70,
    0.5,
    "left",
    b"\x00" * 9,
    [],
    {},
    (),
    [b""],
    np.zeros(3),
    np.zeros((2, 2), np.uint8),
)


def table():
    """Return a table in which no two rows have the same gradient, so that a wrong route shows in the sums."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 4))
    X[:5, 3] = np.nan
    return X, np.nan_to_num(X).sum(axis=1) + 0.1 * rng.normal(size=ROWS)


class Recorded:
    """A host's channel that records what it receives."""

    def __init__(self, channel):
        self._channel, self.peer, self.answers = channel, channel.peer, []

    def send(self, tag, tree):
        self._channel.send(tag, tree)

    def receive(self, tag, limit=None):
        self.answers.append(self._channel.receive(tag, limit))
        return self.answers[-1]


class Replayed:
    """A host that gives the recorded answers to any question."""

    peer = "host_1"

    def __init__(self, given):
        self._given = iter(given)

    def send(self, tag, tree):
        pass

    def receive(self, tag, limit=None):
        return next(self._given)


def broken(value, draw):
    """Return a value unlike `value`: of another type, or with one part changed, missing or doubled."""
    if draw.random() < 0.2:
        return draw.choice(STRANGE)
    if isinstance(value, (list, tuple)) and value:
        parts, at = list(value), draw.randrange(len(value))
        change = draw.randrange(4)
        if change == 0:
            del parts[at]
        elif change == 1:
            parts.append(parts[at])
        else:
            parts[at] = broken(parts[at], draw)
        return type(value)(parts)
    if isinstance(value, bytes) and value:
        at, change = draw.randrange(len(value)), draw.randrange(3)
        if change == 0:
            return value[:at]
        flipped = value[:at] + bytes([value[at] ^ (1 << draw.randrange(8))]) + value[at + 1 :]
        return flipped if change == 1 else value + value[at:]
    if isinstance(value, np.ndarray) and value.size:
        change = draw.randrange(4)
        if change == 0:
            return value[:-1]
        if change == 1:
            return value.astype(draw.choice((np.float64, np.int32, np.bool_)))
        if change == 2:
            return np.append(value, value[-1:])
        changed = value.copy()
        changed[draw.randrange(value.size)] ^= 1 << draw.randrange(8)
        return changed
    return value + draw.choice((-1, 1, 1 << 40)) if type(value) is int else draw.choice(STRANGE)


def lie(config, count, channels):
    """Train once honestly, then with one broken answer at a time; return the outcomes and the kinds of answers."""
    X, y = table()
    recorded = Recorded(channels["host_1"])
    true = Guest({"host_1": recorded}).train(config, X[:, :1], y)
    key = true_key.pop()
    from protocols.baselines.secureboost import remote

    remote.generate_key = lambda *_: key
    draw, outcomes = random.Random(7), []
    for number in range(count):
        given, at = list(recorded.answers), number % len(recorded.answers)
        given[at] = broken(given[at], draw)
        try:
            model = Guest({"host_1": Replayed(given)}).train(config, X[:, :1], y)
            outcomes.append("the same model" if same(model, true) else f"another model, answer {at}")
        except ProtocolDesync as error:
            outcomes.append("named" if "host_1" in str(error) else str(error))
        except StopIteration:
            outcomes.append("another conversation")
        except Exception as error:
            outcomes.append(f"{type(error).__name__}, answer {at}: {error}")
    return {"outcomes": outcomes, "answers": len(recorded.answers)}


true_key = []


def keeping_the_key(role, channels):
    """Run `role`, and keep the guest's key in `true_key`."""
    from protocols.baselines.secureboost import remote

    make = remote.generate_key

    def keep(*arguments):
        true_key.append(make(*arguments))
        return true_key[0]

    remote.generate_key = keep
    return role(channels)


def same(model, other):
    trees = zip(model.ensemble.trees, other.ensemble.trees, strict=True)
    return kept(model) == kept(other) and all(
        np.array_equal(getattr(a, name), getattr(b, name)) for a, b in trees for name in ("owner", "record", "weight")
    )


@pytest.mark.parametrize(
    ("packing", "count"), [(True, 260), (False, 120), pytest.param(True, 3000, marks=pytest.mark.long)]
)
def test_every_broken_answer_ends_with_a_sentence_that_names_the_host(packing, count):
    config = SecureBoostConfig.of(
        objective="reg:squarederror", n_estimators=TREES, max_depth=2, max_bin=4, packing=packing, **QUICK
    )
    X, _ = table()
    guest = partial(keeping_the_key, partial(lie, config, count))
    result = run_processes({"guest": guest, "host_1": lambda c: Host(c["guest"]).train(X[:, 1:]) and None}, timeout=550)
    outcomes = result["guest"]["outcomes"]
    assert len(outcomes) == count and result["guest"]["answers"] >= 1 + 2 * TREES
    assert set(outcomes) <= {"named", "the same model"}
    assert outcomes.count("named") > 0.8 * count


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (np.zeros(1, np.uint8), r"host_1 must answer with one bit for each of 9 rows, got an array uint8\[1\]"),
        (np.zeros(2, np.int8), "one bit for each of 9 rows"),
        (np.array([0, 1], np.uint8), "one bit for each of 9 rows"),
        ([0] * 9, "got a value of type list of 9"),
    ],
)
def test_routes_are_one_bit_per_row(answer, sentence):
    with pytest.raises(SharewoodError, match=sentence):
        answers.directions("host_1", answer, 9)
    assert answers.directions("host_1", np.packbits([1, 0] * 4 + [1]), 9).tolist() == [True, False] * 4 + [True]
