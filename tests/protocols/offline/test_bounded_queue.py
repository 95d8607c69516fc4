"""The bounded queue of material: its size to the byte, its order, and its end."""

import threading
import time

import pytest

from mpc.errors import PeerVanished
from protocols.offline import bounded_queue
from protocols.offline.bounded_queue import BoundedQueue

GONE = PeerVanished("dealer closed the connection")


def idle():
    """Do nothing: no other event."""


def filled(bound, *sizes):
    queue = BoundedQueue(bound)
    for number, size in enumerate(sizes):
        assert queue.reserve(size, wait=False)
        queue.put(number, size)
    return queue


def beside(target):
    thread = threading.Thread(target=target)
    thread.start()
    return thread


def test_the_window_holds_its_bound_and_no_byte_more():
    queue = filled(100, 60, 40)
    assert queue.held == 100
    assert not queue.reserve(1, wait=False) and queue.held == 100
    assert queue.take(idle) == 0 and queue.held == 40
    assert not queue.reserve(61, wait=False)
    assert queue.reserve(60, wait=False) and queue.held == 100
    assert queue.take(idle) == 1 and queue.held == 60, "reserved bytes count before the item arrives"


def test_an_item_larger_than_the_bound_is_admitted_by_itself():
    queue = filled(100, 1)
    assert not queue.reserve(1000, wait=False)
    queue.take(idle)
    assert queue.reserve(1000, wait=False) and not queue.reserve(1, wait=False)


def test_a_wider_window_lets_waiting_items_in():
    queue = filled(100, 60, 40)
    made = []
    waiting = beside(lambda: made.append(queue.reserve(50, wait=True)))
    queue.widen(90)
    time.sleep(0.05)
    assert made == []
    queue.widen(150)
    waiting.join(5)
    assert made == [True] and queue.held == 150 and not queue.reserve(1, wait=False)


def test_a_wait_for_room_ends_when_there_is_room():
    queue = filled(100, 60, 40)
    made = []
    waiting = beside(lambda: made.append(queue.reserve(100, wait=True)))
    assert queue.take(idle) == 0
    time.sleep(0.05)
    assert made == []
    assert queue.take(idle) == 1
    waiting.join(5)
    assert made == [True] and queue.held == 100


def test_take_waits_and_counts_the_seconds():
    queue = filled(100)
    thread = beside(lambda: (time.sleep(0.2), queue.put("late", 0)))
    assert queue.take(idle) == "late"
    thread.join()
    assert 0.15 < queue.waited < 2
    before = queue.waited
    queue.put("here", 0)
    assert queue.take(idle) == "here" and queue.waited == before


def test_a_wait_calls_look(monkeypatch):
    monkeypatch.setattr(bounded_queue, "LOOK", 0.01)

    def look():
        raise GONE

    with pytest.raises(PeerVanished):
        filled(100).take(look)


def test_items_that_have_arrived_can_be_taken_after_a_failure():
    queue = filled(100, 60)
    queue.fail(GONE)
    assert queue.take(idle) == 0
    with pytest.raises(PeerVanished, match="dealer closed"):
        queue.take(idle)


@pytest.mark.parametrize("wait", [lambda q: q.take(idle), lambda q: q.settle(3, idle)])
def test_a_failure_ends_waits(wait):
    queue = filled(100)
    thread = beside(lambda: (time.sleep(0.05), queue.fail(GONE)))
    with pytest.raises(PeerVanished):
        wait(queue)
    thread.join()


def test_a_failure_ends_the_wait_for_room():
    queue, ends = filled(100, 100), []

    def reserve():
        try:
            queue.reserve(1, wait=True)
        except PeerVanished as failure:
            ends.append(failure)

    thread = beside(reserve)
    queue.fail(GONE)
    thread.join(5)
    assert ends == [GONE]


def test_settle_ends_when_all_is_here_or_no_more_fits():
    queue = filled(100, 60, 40)
    queue.settle(2, idle)
    thread = beside(lambda: queue.reserve(1, wait=True))
    queue.settle(3, idle)
    queue.take(idle)
    thread.join(5)
    assert queue.held == 41


def test_items_that_are_not_taken_are_dropped():
    queue = filled(100, 100)
    thread = beside(lambda: (queue.reserve(70, wait=True), queue.put("late", 70)))
    queue.drop()
    thread.join(5)
    assert queue.held == 0
