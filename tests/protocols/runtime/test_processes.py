import multiprocessing
import os
import signal
import threading
import time

import numpy as np
import pytest

from mpc.errors import ConfigError, DataError, MaskReuse, PeerTimeout, PeerVanished, ProtocolDesync
from protocols.runtime.processes import RemoteError, run_processes
from protocols.runtime.settings import Link

TAG = "test uint64[3]"


@pytest.fixture(autouse=True)
def no_child_left():
    yield
    assert multiprocessing.active_children() == []


def wait_for(peer):
    """Return a role that waits for a message of `peer` that never comes."""
    return lambda channels: channels[peer].receive(TAG)


def failing(error):
    def role(channels):
        raise error

    return role


def test_every_two_roles_are_connected_and_each_has_its_own_process():
    def role(channels):
        mine = np.full(3, os.getpid(), np.uint64)
        seen = {name: channel.exchange(TAG, [mine])[0] for name, channel in sorted(channels.items())}
        return {"pid": os.getpid(), "seen": seen}

    names = ("party_a", "party_b", "dealer")
    results = run_processes(dict.fromkeys(names, role), timeout=30)
    assert list(results) == list(names)
    pids = {name: result["pid"] for name, result in results.items()}
    assert len({*pids.values(), os.getpid()}) == 4
    for name, result in results.items():
        assert {peer: set(array) for peer, array in result["seen"].items()} == {
            peer: {pid} for peer, pid in pids.items() if peer != name
        }


def test_lines_of_a_given_shape_delay_every_message():
    """One line per role: what two others send at once to a third shares its line."""
    round_trip, rate, size = 0.04, 40e6, 100_000

    def role(channels):
        for channel in channels.values():
            channel.exchange_public("ready", None)
        started = time.monotonic()
        if "party_a" in channels:
            channels["party_a"].send("data", bytes(size))
            channels["party_a"].receive("done")
        else:
            for channel in channels.values():
                channel.receive("data")
            for channel in channels.values():
                channel.send("done", None)
        return time.monotonic() - started

    names = ("party_a", "party_b", "dealer")
    taken = run_processes(dict.fromkeys(names, role), timeout=30, line=Link(round_trip, rate))
    assert min(taken["party_b"], taken["dealer"]) >= round_trip + 8 * size / rate
    assert max(taken["party_b"], taken["dealer"]) >= round_trip + 2 * 8 * size / rate


@pytest.mark.parametrize(
    ("round_trip", "rate", "message"),
    [(-1, 1, "round_trip must be seconds"), (float("nan"), 1, "round_trip"), (0, 0, "rate must be bits per second")],
)
def test_a_shape_that_no_line_has(round_trip, rate, message):
    with pytest.raises(ConfigError, match=message):
        Link(round_trip, rate)


def test_large_results_come_back_whole_and_writable():
    results = run_processes({"party_a": lambda _: np.arange(1_000_000), "party_b": lambda _: (None, 2.5)})
    results["party_a"] += 1
    assert np.array_equal(results["party_a"], np.arange(1, 1_000_001))
    assert results["party_b"] == (None, 2.5)


def test_numpy_numbers_come_back_as_python_numbers():
    def role(_):
        return {"auc": np.float64(0.5), "counts": [(np.int32(3), np.bool_(True), "x")]}

    result = run_processes({"party_a": role})["party_a"]
    assert result == {"auc": 0.5, "counts": [(3, True, "x")]}
    assert [type(result["auc"]), *map(type, result["counts"][0])] == [float, int, bool, str]


def test_a_sharewood_error_comes_back_as_itself_and_ends_the_others_at_once():
    roles = {
        "party_a": wait_for("party_b"),
        "party_b": failing(DataError("no rows")),
        "dealer": wait_for("party_a"),
    }
    started = time.monotonic()
    with pytest.raises(DataError, match=r"^party_b: no rows") as caught:
        run_processes(roles)
    assert time.monotonic() - started < 5
    # The sentence is all: it says what to do.
    assert str(caught.value) == "party_b: no rows" and not hasattr(caught.value, "__notes__")


def test_a_subclass_comes_back_as_the_nearest_known_class():
    class OddReuse(MaskReuse):
        pass

    with pytest.raises(MaskReuse, match=r"^party_a: twice") as caught:
        run_processes({"party_a": failing(OddReuse("twice"))})
    assert "in role" in caught.value.__notes__[0]


def test_any_other_error_carries_the_remote_traceback():
    with pytest.raises(RemoteError, match=r"(?s)^party_a: ZeroDivisionError: oh.*Traceback.*in role"):
        run_processes({"party_a": failing(ZeroDivisionError("oh")), "party_b": wait_for("party_a")})


def test_a_result_that_the_codec_refuses_is_an_error():
    with pytest.raises(
        DataError, match=r"party_a: a job must return .* a value of type builtins\.set .*: save it to a file"
    ):
        run_processes({"party_a": lambda _: {1, 2}})


def test_the_cause_is_raised_not_its_consequence():
    def late(channels):
        try:
            channels["party_a"].exchange(TAG, [], like=[])
            channels["party_a"].close()
            time.sleep(0.2)
        finally:
            raise DataError("the cause")

    def consequence(channels):
        channels["party_b"].exchange(TAG, [], like=[])
        channels["party_b"].receive(TAG)

    with pytest.raises(DataError, match="party_b: the cause"):
        run_processes({"party_a": consequence, "party_b": late})


def test_a_desync_outranks_the_broken_connection_it_leads_to():
    def role(step):
        return lambda channels: [channel.exchange(step, [np.arange(3)]) for channel in channels.values()]

    roles = {"party_a": role("a"), "party_b": role("b"), "dealer": wait_for("party_a")}
    with pytest.raises(ProtocolDesync, match=r"party_.: round 1: expected (a, got b|b, got a)"):
        run_processes(roles)


def test_a_killed_role_is_named_with_its_signal():
    def killed(channels):
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(PeerVanished, match=r"^party_b: killed by SIGKILL$"):
        run_processes({"party_a": wait_for("party_b"), "party_b": killed})


def test_a_role_that_exits_on_its_own_is_named_with_its_status():
    with pytest.raises(PeerVanished, match=r"^party_b: exited with status 7$"):
        run_processes({"party_a": wait_for("party_b"), "party_b": lambda _: os._exit(7)})


def test_the_timeout_names_the_roles_that_are_late():
    with pytest.raises(PeerTimeout, match=r"no result from party_b within 0\.3 s"):
        run_processes({"party_a": lambda _: 1, "party_b": lambda _: time.sleep(60)}, timeout=0.3)


def test_ctrl_c_ends_the_children():
    # A shell starts background processes with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        run_processes({"party_a": wait_for("party_b"), "party_b": wait_for("party_a")}, timeout=30)
