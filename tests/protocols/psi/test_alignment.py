"""Private set intersection between two threads, whose messages are recorded."""

import queue
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

from mpc.errors import DataError, ProtocolDesync
from protocols.psi.alignment import align_guest, align_host
from protocols.psi.points import hashed
from protocols.transport.codec import encode
from protocols.transport.memory import memory_pair


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

    def exchange_public(self, tag, tree, limit=None):
        self.send(tag, tree)
        return self.receive(tag)


def align(guest_ids, host_ids, *pads):
    """Return the rows of both, and all bytes that each sent."""
    there, back = queue.Queue(), queue.Queue()
    guest, host = Pipe(there, back), Pipe(back, there)
    found = []
    thread = threading.Thread(target=lambda: found.append(align_host(host, host_ids, *pads[1:])))
    thread.start()
    rows = align_guest({"host": guest}, guest_ids, *pads[:1])
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

    def exchange_public(self, tag, tree, limit=None):
        return next(self._said)


@pytest.mark.parametrize(
    "said", [None, 3, "ab", [b"a" * 32], b"", b"a" * 31, b"a" * 64, b"\xff" * 32, bytes(32), {"a": 1}, (b"a" * 32,)]
)
def test_malformed_points_are_one_sentence_that_names_their_sender(said):
    sentence = "sent malformed points|must send its ids as points"
    with pytest.raises(ProtocolDesync, match=f"^the other ({sentence})") as caught:
        align_guest({"host": Says(said)}, ["a", "b"])
    with pytest.raises(ProtocolDesync, match=f"^the other ({sentence})"):
        align_host(Says(said), ["a", "b"])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("said", [None, 3, b"", b"a" * 31, b"a" * 33, [b"a" * 16] * 2, "a" * 32])
def test_a_malformed_answer_is_one_sentence_that_names_the_host(said):
    with pytest.raises(ProtocolDesync, match=r"^host must return 16 bytes for each of 2 points"):
        align_guest({"host": Says(b"".join(hashed([b"c"])), said)}, ["a", "b"])


@pytest.mark.parametrize("named", [None, "ab", [1], ["b", "a"], ["a", "a"], ["c"], [["a"]]])
def test_common_ids_that_are_not_here_or_not_in_order_are_refused(named):
    with pytest.raises(
        ProtocolDesync, match=r"the other (must name the common ids in order|named common ids that are not here)"
    ):
        align_host(Says(b"".join(hashed([b"a", b"b"])), named), ["a", "b"])


@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 700), (700, 1), (3, 5000)])
def test_very_unequal_parties(n, m):
    ours, theirs = [f"x{i}" for i in range(n)], [f"x{i}" for i in range(m)][::-1]
    (mine, yours), sent = align(ours, theirs)
    assert [ours[i] for i in mine] == [theirs[i] for i in yours] == sorted(f"x{i}" for i in range(min(n, m)))
    # The declared bytes: 32 and 16 for each id of the guest, 32 for each of the host; 9 name type and length.
    assert [len(part) for part in sent[0][:1] + sent[1]] == [9 + 32 * n, 9 + 32 * m, 9 + 16 * n]


def test_padding_hides_the_number_of_ids():
    ours, theirs = [f"a{i}" for i in range(70)], [f"a{i}" for i in range(60, 90)]
    (mine, yours), sent = align(ours, theirs, 64, 50)
    assert [ours[i] for i in mine] == [theirs[i] for i in yours] == [f"a{i}" for i in range(60, 70)]
    assert [len(part) for part in sent[0][:1] + sent[1]] == [9 + 32 * 128, 9 + 32 * 50, 9 + 16 * 128]
    full, again = align(ours[:64], theirs, 64, 50)
    assert len(full[0]) == 4 and len(again[0][0]) == 9 + 32 * 64


def test_masks_are_drawn_anew_and_a_host_s_points_are_sorted():
    ids = [f"a{i}" for i in range(30)]
    runs = [align(ids, ids)[1] for _ in range(2)]
    parts = [[message[-32 * 30 :] for message in (guest[0], host[0])] for guest, host in runs]
    points = [{run[i : i + 32] for run in pair for i in range(0, 960, 32)} for pair in parts]
    assert len(points[0]) == 60 and points[0].isdisjoint(points[1])
    for _, host in parts:
        split = [host[i : i + 32] for i in range(0, 960, 32)]
        assert split == sorted(split)


def test_several_hosts_learn_only_what_all_have():
    pairs = [memory_pair() for _ in range(2)]
    guest_ids, host_ids = list("abcdef"), [list("fbcx"), list("yczfa")]
    with ThreadPoolExecutor(2) as pool:
        hosts = [pool.submit(align_host, pair[1], ids) for pair, ids in zip(pairs, host_ids, strict=True)]
        rows = align_guest({str(i): pair[0] for i, pair in enumerate(pairs)}, guest_ids)
        found = [[ids[i] for i in host.result()] for host, ids in zip(hosts, host_ids, strict=True)]
    assert [guest_ids[i] for i in rows] == ["c", "f"] and found == [["c", "f"]] * 2
