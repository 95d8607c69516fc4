"""The dealer: plans on the wire, corrections ahead of use, and every request and stream used once."""

import importlib
import pkgutil
import threading
from dataclasses import dataclass, is_dataclass, replace

import numpy as np
import pytest

import mpc
from mpc.arithmetic.beaver import Triples, multiply
from mpc.arithmetic.bits import BitTriples, RingBits
from mpc.comparison.all_pairs import GroupMasks
from mpc.errors import MaskReuse, PeerFailure, PeerVanished, ProtocolDesync
from mpc.lookup.windows import WindowMasks
from mpc.matrix.linear_map import MatrixMask, MatrixVectors
from mpc.matrix.matrix_product import MatrixMasks
from mpc.offline.correlation import correlation
from mpc.party import Party
from mpc.planning import provide, rehearse
from mpc.protocol.catalogue import correlations
from mpc.rings import GF2, Z16, Z32, Z64, Z2k
from mpc.rounding.truncation import FloorMasks
from mpc.sharing import ZeroShares
from mpc.words import U64
from protocols.offline.dealer import client as dealt
from protocols.offline.dealer import delivery
from protocols.offline.dealer import server as dealer
from protocols.offline.dealer.client import FromDealer
from protocols.offline.dealer.server import PLAN_ROOM, serve
from protocols.offline.plan import decode_plan, encode_plan
from protocols.offline.streams import Streams
from protocols.runtime import run_local
from protocols.testing.two_parties import ring_half
from protocols.transport.codec import decode, encode
from protocols.transport.frames import FACTS_LIMIT
from protocols.transport.memory import memory_pair
from secure_tree.public.config import TrainConfig
from secure_tree.training.cost import Sizes, plan_training


def with_dealer(job):
    """Run job(randomness, rank) in two threads with a dealer thread; return both results and the dealer's error."""
    ends = [memory_pair((f"party_{rank}", "dealer"), timeout=20) for rank in (0, 1)]
    results, dealer_error = [None, None], []

    def play(rank):
        channel = ends[rank][0]
        try:
            randomness = FromDealer(rank, channel)
            results[rank] = job(randomness, rank)
            randomness.close()
        except Exception as error:
            results[rank] = error
            channel.close()

    def deal():
        try:
            serve(ends[0][1], ends[1][1])
        except Exception as error:
            dealer_error.append(error)

    threads = [threading.Thread(target=t) for t in (deal, lambda: play(0), lambda: play(1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return results, dealer_error


PLAN = [([Triples((3,), Z64), RingBits((5,), Z32)], 2), ([ZeroShares((2,), GF2)], 1)]


def test_a_plan_survives_the_wire():
    others = [GroupMasks(4, 3, 15, Z16, 2), RingBits((5,), Z2k(U64, 37)), BitTriples((3,), U64)]
    plan = [([*PLAN[0][0], FloorMasks((2, 3), 5), *others, WindowMasks((4, 2), 26, 3, 8, 8)], 7)]
    assert decode_plan(encode_plan(plan)) == plan


def test_a_plan_of_300_distinct_rounds_of_ten_classes_has_room():
    config = TrainConfig.of(objective="multi:ova", num_class=10, max_depth=6, n_estimators=1)
    steps = plan_training(config, Sizes.numeric((50_000, 50_000), 30))
    (round_of_trees,) = [step.requests for step in steps if step.step == "one round of trees"]
    encoded = b"".join(encode(encode_plan([(round_of_trees, 1)])))
    assert decode_plan(decode(encoded, PLAN_ROOM // 300)) == [(round_of_trees, 1)]
    assert 300 * len(encoded) < FACTS_LIMIT, "and the message has room"


@pytest.mark.parametrize(
    "tree",
    [
        [[[["Triples", [3], "float64"]], 1]],
        [[[["os.system", [3], "uint64"]], 1]],
        [[[["Triples", [-3], "uint64"]], 1]],
        [[[["Triples", [1 << 20, 1 << 20], "uint64"]], 1]],
        [[[["Triples", [3]]], 1]],
        [[[["Triples", [3], "uint64:65"]], 1]],
        [[[["Triples", [3], "uint64:-1"]], 1]],
        [[[["Triples", [3], "uint64:x"]], 1]],
        [[[["Triples", [3], 64]], 1]],
        [[[["BitTriples", [3], "uint64:8"]], 1]],
        [[[["FloorMasks", [3], 1.5]], 1]],
        [[[["Triples", [3], "uint64"]], -1]],
        [[[["Triples", [0], "uint64"]], 1 << 25]],
        [[[["Triples", [1] * 17, "uint64"]], 1]],
        "Triples",
        7,
    ],
)
def test_what_is_not_a_plan_is_refused(tree):
    with pytest.raises(ProtocolDesync):
        decode_plan(tree)


def test_a_correlation_that_no_module_of_mpc_makes_is_named():
    @dataclass(frozen=True)
    class Cubes:
        size: "int"

    with pytest.raises(ProtocolDesync, match="no correlation is named 'Cubes'; @correlation makes one, in mpc"):
        decode_plan(encode_plan([([Cubes(3)], 1)]))
    with pytest.raises(ProtocolDesync, match=f"named '{'x' * 40}';"):
        decode_plan([[[["x" * 10_000, 3]], 1]])


def test_a_correlation_whose_types_are_not_text_is_refused():
    with pytest.raises(TypeError, match=r"Cubes\.size must have its type as text, got <class 'int'>: begin"):

        @correlation
        class Cubes:
            size: int

            def deal(self, view):
                return view.mask(Z64, (self.size,))

    assert "Cubes" not in correlations()


def test_every_correlation_of_the_modules_is_known():
    found = set()
    for info in pkgutil.walk_packages(mpc.__path__, "mpc."):
        module = importlib.import_module(info.name)
        found |= {v for v in vars(module).values() if is_dataclass(v) and hasattr(v, "deal")}
    assert found == set(correlations().values())


def test_a_plan_is_dealt_once_and_consistently():
    def job(randomness, rank):
        randomness.provide(PLAN)
        randomness.settle()
        before = randomness.received
        out = [randomness.take(kind) for kinds, times in PLAN for _ in range(times) for kind in kinds]
        assert randomness.received == before, "nothing is fetched once a plan is fulfilled"
        return out

    (first, second), errors = with_dealer(job)
    assert not errors
    a, b, ab = (x + y for x, y in zip(first[0], second[0], strict=True))
    assert np.array_equal(a * b, ab)
    assert not np.array_equal(first[0][0], first[2][0]), "two requests of the same shape have different streams"
    assert not (first[4] ^ second[4]).any()


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(("portion", "window"), [(0, 0), (0, 1 << 20), (1 << 20, 1 << 20), (2000, 5000)])
def test_values_are_the_same_whenever_they_are_made(monkeypatch, portion, window, late):
    monkeypatch.setattr(delivery, "PORTION", portion)
    monkeypatch.setattr(dealt, "WINDOW", window)
    known = np.arange(6, dtype=np.uint64).reshape(3, 2)
    rest = [MatrixVectors(1, 0, 3, 2, Z64, 4), RingBits((11,), Z64), MatrixMasks(3, 5, 2, Z64), Triples((7,), Z64)]

    def job(randomness, rank):
        mask = randomness.take(MatrixMask(1, 0, 3, 2, Z64))
        if late:
            randomness.provide([(rest, 3)])
            randomness.settle()
        if rank == 1:
            randomness.keep(1, known)
        if not late:
            randomness.provide([(rest, 3)])
        return mask, [randomness.take(kind) for kind in rest * 3]

    ((mask, first), (_, second)), errors = with_dealer(job)
    assert not errors
    for at in range(0, len(first), len(rest)):
        (_, own), (r, other) = first[at], second[at]
        assert np.array_equal(own + other, r @ (mask[:] + known))
        bits, words = zip(first[at + 1], second[at + 1], strict=True)
        assert np.array_equal(bits[0] ^ bits[1], words[0] + words[1])
        (a, b, c), (a1, b1, c1) = first[at + 2], second[at + 2]
        left, right = (np.pad(w, [(0, 0), (0, 1)]) for w in (a, a1)), (np.pad(w, [(0, 1), (0, 0)]) for w in (b, b1))
        z = np.kron(np.array([[0, -1], [1, 1]]), np.eye(3, dtype=int)).astype(np.uint64)
        (a, a1), (b, b1) = left, right
        assert np.array_equal(c + c1, (a @ z + a1) @ (b + (np.eye(6, dtype=np.uint64) - z) @ b1))
        a, b, ab = (x + y for x, y in zip(first[at + 3], second[at + 3], strict=True))
        assert np.array_equal(a * b, ab)
    assert len({x[0].tobytes() for x in first[3 :: len(rest)]}) == 3, "no request repeats another's values"


def test_parties_that_ask_for_different_things_are_stopped():
    results, errors = with_dealer(lambda randomness, rank: randomness.provide([([Triples((3 + rank,), Z64)], 1)]))
    assert all(isinstance(r, PeerVanished) and "different correlated randomness" in str(r) for r in results)
    assert isinstance(errors[0], ProtocolDesync)


def test_a_program_that_departs_from_its_plan_is_stopped():
    def job(randomness, rank):
        randomness.provide([([Triples((3,), Z64)], 1)])
        randomness.take(Triples((4,), Z64))

    results, _ = with_dealer(job)
    assert all(isinstance(r, ProtocolDesync) and "the plan has" in str(r) for r in results)


def test_batches_end_with_their_plan(monkeypatch):
    monkeypatch.setattr(dealer, "BATCH", 10)

    def job(randomness, rank):
        out = []
        for _ in range(2):
            randomness.provide([([ZeroShares((1,), GF2), Triples((7,), Z64)], 2)])
            out += [randomness.take(k) for k in (ZeroShares((1,), GF2), Triples((7,), Z64)) * 2]
        return out

    results, errors = with_dealer(job)
    assert not errors and len(results[0]) == 8


def test_no_two_requests_share_a_stream():
    seen = {
        Streams(seed, nonce).of(index).words((4,), U64).tobytes()
        for seed in (b"a" * 16, b"b" * 16)
        for nonce in (b"x" * 48, b"y" * 48)
        for index in range(50)
    }
    assert len(seen) == 200


@pytest.mark.parametrize(
    ("index", "block", "size"), [(0, 0, 0), (0, 0, 1), (5, 3, 16), (7, 1 << 40, 1000), (1, 0, 70_001)]
)
def test_a_stream_is_aes_in_counter_mode(index, block, size):
    streams = Streams(bytes(range(16)), bytes(48))
    drawn = streams.draw(index, block, size)
    assert drawn.size == size and np.array_equal(drawn, streams.draw_portably(index, block, size))


def test_a_stream_is_the_same_however_it_is_drawn():
    def drawn(*sizes):
        stream = Streams(bytes(16), bytes(48)).of(7)
        return np.concatenate([stream.words((size,), U64) for size in sizes])

    assert np.array_equal(drawn(2, 4, 262_144), drawn(262_150)), "whole blocks follow one another"
    assert not np.array_equal(drawn(3, 1)[2:], drawn(4)[2:]), "what is left of a block is not used"
    streams = Streams(bytes(16), bytes(48))
    first, second = streams.of(7), streams.of(8)
    words = np.stack([[first.words((2,), U64), second.words((2,), U64)] for _ in range(3)])
    assert np.array_equal(words[:, 0].reshape(-1), drawn(6)), "drawing from another stream in between changes nothing"
    assert np.array_equal(words[:, 1].reshape(-1), streams.of(8).words((6,), U64))
    stream, whole = streams.of(7), drawn(15, 2)
    rows = stream.rows((5, 3), U64)
    assert np.array_equal(stream.words((2,), U64), whole[15:])
    assert all(
        np.array_equal(rows[a:b], whole[:15].reshape(5, 3)[a:b]) for a, b in ((0, 2), (1, 4), (3, 9), (None, None))
    )


def test_a_nonce_of_every_participant_enters_the_session(monkeypatch):
    monkeypatch.setattr(dealt, "Streams", lambda seed, nonce: (nonce, seed))

    def session(randomness, rank):
        return randomness._streams

    runs = [with_dealer(session)[0] for _ in range(2)]
    for (nonce, seed), (other_nonce, other_seed) in runs:
        assert nonce == other_nonce and len(nonce) == 48 and seed != other_seed
    assert all(runs[0][0][0][i : i + 16] != runs[1][0][0][i : i + 16] for i in (0, 16, 32))


def test_processes_multiply_with_a_real_dealer():
    x = np.arange(-3, 4)

    def job(party):
        demand = rehearse(party, lambda party: multiply(party, ring_half(x, party.rank), ring_half(x, party.rank)))
        provide(party, [replace(demand, times=2)])
        halves = [multiply(party, ring_half(x, party.rank), ring_half(x, party.rank)) for _ in range(2)]
        return [party.reveal(h, to=None, what="squares") for h in halves]

    for result in run_local(job):
        assert np.array_equal(result, [x * x] * 2)


def test_the_error_of_a_party_reaches_the_caller():
    def job(party):
        if party.rank == 1:
            raise MaskReuse("planted")
        party.exchange_public("hello", None)

    with pytest.raises(MaskReuse, match="party_b: planted"):
        run_local(job)


def test_a_dealer_that_vanishes_is_named():
    first, _second = memory_pair(("party_a", "dealer"), timeout=5)
    _second.close()
    with pytest.raises(PeerFailure):
        Party(0, first, FromDealer(0, first))


def test_a_long_delivery_says_how_far_it_is(monkeypatch, caplog):
    monkeypatch.setattr(dealer, "BATCH", 0)
    monkeypatch.setattr(delivery, "_SILENCE", 0.0)
    caplog.set_level("INFO", "sharewood")
    _, problem = with_dealer(lambda randomness, rank: randomness.provide([([Triples((250_000,), Z64)], 4)]))
    said = sorted(record.getMessage() for record in caplog.records)
    assert problem == [] and said == sorted(f"correlated randomness: {mb} MB dealt so far" for mb in (2, 4, 6, 8) * 2)
