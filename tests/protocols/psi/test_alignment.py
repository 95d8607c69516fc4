"""Private set intersection between two threads, whose messages are recorded."""

import queue
import threading

import numpy as np
import pandas as pd
import pytest

from mpc.errors import DataError, ProtocolDesync
from protocols.psi.alignment import align_guest, align_host
from protocols.transport.codec import encode


class Pipe:
    """One end of a channel that records what it sends."""

    peer = "the other"

    def __init__(self, out, into):
        self._out, self._in, self.sent = out, into, []

    def send(self, tag, tree):
        self.sent.append(b"".join(bytes(part) for part in encode(tree)))
        self._out.put((tag, tree))

    def receive(self, tag, limit=None):
        said, tree = self._in.get(timeout=60)
        assert said == tag
        return tree


def align(guest_ids, host_ids):
    """Return the rows of both, and all bytes that each sent."""
    there, back = queue.Queue(), queue.Queue()
    guest, host = Pipe(there, back), Pipe(back, there)
    found = []
    thread = threading.Thread(target=lambda: found.append(align_host(host, host_ids)))
    thread.start()
    rows = align_guest({"host": guest}, guest_ids)
    thread.join()
    return (rows, found[0]), (guest.sent, host.sent)


def test_both_find_the_common_rows_in_the_order_of_the_ids():
    rng = np.random.default_rng(4)
    ours, theirs = (rng.permutation(np.arange(start, start + 300)) for start in (1000, 1200))
    (mine, yours), _ = align(ours.tolist(), theirs.tolist())
    assert ours[mine].tolist() == theirs[yours].tolist() == list(range(1200, 1300))


def test_ids_of_only_one_party_are_never_on_the_wire():
    ours = [f"only-here-{i:03}" for i in range(40)] + ["shared-1", "shared-2"]
    theirs = [f"only-there-{i:03}" for i in range(50)] + ["shared-2", "shared-1"]
    (mine, yours), sent = align(ours, theirs)
    assert [ours[i] for i in mine] == [theirs[i] for i in yours] == ["shared-1", "shared-2"]
    wire = b"".join(part for parts in sent for part in parts)
    assert b"only" not in wire and b"shared-1" in wire
    # The sizes of messages reveal how many ids there are, and nothing else.
    _, again = align([f"{i:099}" for i in range(40)] + ["shared-1", "shared-2"], [*theirs[:50], "shared-1", "shared-2"])
    assert [[len(part) for part in parts] for parts in sent] == [[len(part) for part in parts] for parts in again]


@pytest.mark.parametrize(
    ("ids", "sentence"),
    [
        (None, "ids must be a sequence of text or whole numbers, got NoneType"),
        ("abc", "ids must be a sequence of text or whole numbers, got str"),
        ([1, None, 3], "ids: row 1: the id is missing"),
        ([1, np.nan, 3], "ids: row 1: the id is missing"),
        (["a", ""], "ids: row 1: the id is missing"),
        (pd.Series(["a", pd.NA]), "ids: row 1: the id is missing"),
        (np.array([np.nan, 1.0]), "ids: row 0: the id is missing"),
        ([1, 2.5], r"ids: row 1: an id must be text or a whole number, got a value of <class 'float'>"),
        (np.zeros((2, 2), int), "ids: row 0: an id must be text or a whole number"),
        ([b"a"], "ids: row 0: an id must be text or a whole number"),
        (["a", "\udcff"], "ids: row 1: id .* is not valid Unicode"),
        ([1, "1"], "ids: row 1: id '1' appears twice"),
        ([], "ids: must not be empty"),
    ],
)
def test_malformed_ids_are_refused_in_one_sentence(ids, sentence):
    for role in (lambda: align_guest({}, ids), lambda: align_host(None, ids)):
        with pytest.raises(DataError, match=sentence) as caught:
            role()
        assert "\n" not in str(caught.value)


class Says:
    """A peer that gives fixed answers to any question."""

    peer = "the other"

    def __init__(self, *said):
        self._said = iter(said)

    def send(self, tag, tree):
        pass

    def receive(self, tag, limit=None):
        return next(self._said)


@pytest.mark.parametrize(
    "said", [None, 3, (b"", b""), (1, 2), (b"x", b"y"), (b"", b"", b""), {"a": 1}, [b"\xff" * 40] * 2]
)
def test_a_malformed_answer_is_one_sentence_that_names_the_host(said):
    with pytest.raises(ProtocolDesync, match="host sent a malformed intersection"):
        align_guest({"host": Says(said)}, ["a", "b"])


@pytest.mark.parametrize("said", [None, (1,), ("2", b""), (2, b"\xff" * 9), (-1, 5), {"count": 1}])
def test_a_malformed_request_is_one_sentence_that_names_the_guest(said):
    with pytest.raises(ProtocolDesync, match="the other sent a malformed request"):
        align_host(Says(said), ["a", "b"])


@pytest.mark.parametrize("named", [None, "ab", [1], ["b", "a"], ["a", "a"], ["c"], [["a"]]])
def test_common_ids_that_are_not_here_or_not_in_order_are_refused(named):
    class Guest(Says):
        def receive(self, tag, limit=None):
            if tag == "align.common":
                return named
            return request

    asked = []

    class Host(Says):
        def send(self, tag, tree):
            asked.append(tree)

    with pytest.raises(StopIteration):
        align_guest({"host": Host()}, ["a", "b"])
    request = asked[0]
    with pytest.raises(
        ProtocolDesync, match=r"the other (must name the common ids in order|named common ids that are not here)"
    ):
        align_host(Guest(), ["a", "b"])
