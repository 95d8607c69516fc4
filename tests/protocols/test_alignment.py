"""Private set intersection between two threads whose messages are kept."""

import queue
import threading

import numpy as np

from protocols.alignment import align_guest, align_host
from protocols.transport.codec import encode


class Pipe:
    """One end of a channel that keeps what it has sent."""

    peer = "the other"

    def __init__(self, out, into):
        self._out, self._in, self.sent = out, into, []

    def send(self, tag, tree):
        self.sent.append(b"".join(bytes(part) for part in encode(tree)))
        self._out.put((tag, tree))

    def receive(self, tag):
        said, tree = self._in.get(timeout=60)
        assert said == tag
        return tree


def align(guest_ids, host_ids):
    """Rows of both, and all bytes that either sent."""
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


def test_ids_of_one_party_alone_are_never_on_the_wire():
    ours = [f"only-here-{i:03}" for i in range(40)] + ["shared-1", "shared-2"]
    theirs = [f"only-there-{i:03}" for i in range(50)] + ["shared-2", "shared-1"]
    (mine, yours), sent = align(ours, theirs)
    assert [ours[i] for i in mine] == [theirs[i] for i in yours] == ["shared-1", "shared-2"]
    wire = b"".join(part for parts in sent for part in parts)
    assert b"only" not in wire and b"shared-1" in wire
    # Sizes of messages tell how many ids there are, and nothing else.
    _, again = align([f"{i:099}" for i in range(40)] + ["shared-1", "shared-2"], [*theirs[:50], "shared-1", "shared-2"])
    assert [[len(part) for part in parts] for parts in sent] == [[len(part) for part in parts] for parts in again]
