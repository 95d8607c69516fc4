"""Randomness that two parties make: every request compared with a dealer's values, and every protocol run on it."""

import numpy as np
import pytest

from mpc.offline.correlation import View, in_shape
from mpc.protocol.catalogue import correlations, entries
from mpc.rings import GF2, Z8, Z16, Z32, Z64, Z2k
from mpc.shares import AShare, BShare, PShare
from mpc.words import U64, decode_signed, low_bits
from protocols.offline.pairwise.cost import request_transfers
from protocols.offline.pairwise.operands import Operands
from protocols.offline.pairwise.view import LocalPair, NeedsDealer, PairView, fulfil
from protocols.offline.streams import Streams
from protocols.testing.cases import cases
from protocols.testing.two_parties import SEEDS, Dealt, Recorder, dealt, made_by_both, run_both
from tests.mpc.offline.ideal_transfers import DELTAS, Ideal

AUTHENTIC = {"MacKeys", "AuthenticMask", "RowMask", "RowProducts", "ChoiceTables", "SignTables"}
DEALT_ONLY = {"SignKeys", "FloorKeys", "MaximumKeys", "TrigonometricMasks", "WideningDotMasks"}
KEPT = {"InputMask", "MatrixMask", "MatrixVectors", "MatrixRelease", "OperandMask", "OperandProduct"}


class WholeView(View):
    """The whole values that two parties draw, and the values that recipes derive from them."""

    def __init__(self, streams):
        self._streams, self.derived_values = streams, []

    def mask(self, ring, shape):
        return ring.add(*(ring.draw(stream, shape) for stream in self._streams))

    def private(self, owner, ring, shape):
        return ring.draw(self._streams[owner], shape)

    def half(self, ring, shape, to):
        return np.empty(shape, ring.dtype)

    def made(self, recipe, halves, to):
        values = in_shape(recipe(), halves)
        self.derived_values += [(ring, whole) for whole, (ring, _) in zip(values, halves, strict=True)]
        return values

    def computed(self, owner, ring, shape, recipe):
        return None


def streams(rank, index=0):
    return Streams(SEEDS[rank], bytes(32)).of(index)


def make(request, ideal):
    """Return both parties' halves of the derived values of a request."""
    views = [PairView(rank, streams(rank), request) for rank in (0, 1)]
    for view in views:
        request.deal(view)
    pairs = [LocalPair(rank, Streams(bytes(16), bytes(32)), Operands(rank, bytes(16), DELTAS[rank])) for rank in (0, 1)]
    ideal.run([fulfil(pair, view.due) for pair, view in zip(pairs, views, strict=True)])
    return list(zip(*([out for derived in view.due for _, out in derived.values] for view in views), strict=True))


def agree(request, ideal):
    """Return, for each derived value, whether the halves add up to what a dealer derives from the same masks."""
    whole = WholeView([streams(0), streams(1)])
    request.deal(whole)
    halves = make(request, ideal)
    assert len(halves) == len(whole.derived_values)
    same = []
    for (ring, wanted), pair in zip(whole.derived_values, halves, strict=True):
        found = ring.add(*pair)
        bits = ring.bits if isinstance(ring, Z2k) else 8 * ring.dtype.itemsize
        same.append(np.array_equal(low_bits(found, bits), low_bits(wanted, bits)))
    return same


def _requests_of_the_catalogue():
    """Return one of each request in the protocols' samples."""
    requests = {}
    for case in cases(entries()):

        def job(party, case=case):
            party.randomness = Dealt(party.randomness)
            case.protocol(party, *case.arguments(party, np.random.default_rng(1), 5), **case.named)
            return party.randomness.given

        for request, _ in run_both(job)[0][0]:
            requests.setdefault(repr(request), request)
    return list(requests.values())


SAMPLED = [request for request in _requests_of_the_catalogue() if type(request).__name__ not in KEPT | AUTHENTIC]
K = correlations()
MORE = [
    *(K["SignMasks"]((7,), thresholds, bits) for thresholds in (1, 3, 9) for bits in (2, 3, 4, 9, 23, 42, 63, 64)),
    *(K["FloorMasks"]((7,), shift) for shift in (1, 2, 4, 13, 23, 37, 42, 61, 62)),
    *(K["EqualityMasks"]((2, 3), bits) for bits in range(1, 9)),
    *(
        K["GroupMasks"](3, size, bits, ring, members)
        for size in (2, 3, 4, 5, 8, 17, 33)
        for bits, ring in ((3, Z8), (15, Z16), (20, Z64))
        for members in (0, 1, 2, 9)
    ),
    *(
        K["MatrixMasks"](n, k, m, ring)
        for n in (1, 5)
        for k in (1, 2, 3)
        for m in (1, 7)
        for ring in (Z64, Z8, Z2k(U64, 13))
    ),
    *(K["OneHotMasks"](9, bits) for bits in range(1, 8)),
    *(K["PrefixMasks"](9, bits) for bits in range(1, 10)),
    *(
        K["WindowMasks"]((4, 2), place, step, count, width)
        for place, step, count, width in ((0, 1, 1, 10), (4, 3, 5, 6))
    ),
    *(K["LogarithmMasks"]((2, 3), place, count, sides) for place, count, sides in ((24, 8, 2), (8, 3, 1))),
    K["SelectMasks"]((3, 1, 9), (1, 2, 9), Z32),
    K["SelectMasks"]((0,), (0,), Z64),
    K["SelectMasks"]((7, 9), (7, 1), Z2k(U64, 29)),
    K["DotMasks"]((4, 20, 2), (4, 1, 2), Z64),
    K["RingBits"]((4,), Z2k(U64, 13)),
    K["ZeroShares"]((4,), Z64),
    K["ZeroShares"]((4,), GF2),
    K["FloorMasks"]((0,), 5),
    K["SignMasks"]((0,), 2, 9),
]


@pytest.mark.parametrize("request_", SAMPLED + MORE, ids=repr)
def test_halves_add_up_to_what_a_dealer_derives(request_):
    if type(request_).__name__ in DEALT_ONLY:
        with pytest.raises(NeedsDealer, match="must come from a dealer"):
            make(request_, Ideal())
        return
    ideal = Ideal()
    assert all(agree(request_, ideal))
    assert ideal.waves == request_transfers(request_).waves


FAULTY = [
    K["EqualityMasks"]((1,), 3),
    K["MatrixMasks"](1, 2, 1, Z8),
    K["Triples"]((1,), Z16),
    K["WindowMasks"]((1,), 2, 1, 1, 3),
    K["SelectMasks"]((2,), (2,), Z8),
]
# These recipes use only some entries of a window's sum or of an outer product of one-hots.
PARTLY = [K["SignMasks"]((5,), 1, 9), K["GroupMasks"](2, 3, 7, Z16, 2)]


@pytest.mark.parametrize("request_", FAULTY, ids=repr)
def test_every_wrong_bit_is_detected(request_):
    right = Ideal()
    assert all(agree(request_, right)) and right.elements
    assert not any(all(agree(request_, Ideal(fault=fault))) for fault in range(right.elements))


@pytest.mark.parametrize("request_", PARTLY, ids=repr)
def test_a_wrong_bit_is_detected_in_every_wave(request_):
    right = Ideal()
    assert all(agree(request_, right))
    waves = zip(right.starts, [*right.starts[1:], right.elements], strict=True)
    for wave in waves:
        faults = (Ideal(fault=fault, bit=bit) for fault in range(*wave) for bit in (0, 1))
        assert not all(all(agree(request_, fault)) for fault in faults), wave


COUNTED = [
    K["SignMasks"]((80,), 3, 24),
    K["FloorMasks"]((80,), 13),
    K["GroupMasks"](16, 4, 15, Z16, 2),
    K["NewtonMasks"]((8,)),
    K["SelectMasks"]((8, 1), (8, 3), Z2k(U64, 17)),
    K["LogarithmMasks"]((8,), 8, 3, 2),
    K["ZeroShares"]((4,), Z64),
]


@pytest.mark.parametrize("request_", COUNTED, ids=repr)
def test_the_counted_bits_are_the_bits_sent(request_):
    ideal, cost = Ideal(), request_transfers(request_)
    make(request_, ideal)
    chosen = [sum(one.count for one in ideal.asked if one.chooser == rank) for rank in (0, 1)]
    assert (cost.waves, cost.transfers) == (ideal.waves, tuple(chosen))
    _, parties = run_both(lambda party: party.randomness.take(request_), source=made_by_both)
    for rank, party in enumerate(parties):
        sent = party.randomness._source._maker.endpoint.meter.total.sent
        # Choices, and single bits of each kind of words, are padded to whole bytes.
        assert 0 <= sent - cost.bits[rank] < 8 * 6 * (cost.waves + 1)


def whole(a, b):
    """Combine the results of both parties to the values that they stand for."""
    if isinstance(a, AShare):
        words = low_bits(a.words + b.words, a.ring.bits)
        return decode_signed(words) if a.ring.bits == 8 * words.dtype.itemsize else words
    if isinstance(a, BShare):
        return a.bits ^ b.bits
    if isinstance(a, PShare):
        return a.words ^ b.words
    if isinstance(a, tuple | list):
        return [whole(*pair) for pair in zip(a, b, strict=True)]
    return None


def run_case(case, source):
    def job(party):
        arguments = case.arguments(party, np.random.default_rng(3), 5)
        before = party.meter.total.rounds, party.meter.total.sent
        party.link = Recorder(party.link)
        result = case.protocol(party, *arguments, **case.named)
        total = party.meter.total
        return result, (total.rounds - before[0], total.sent - before[1]), [(t, len(d)) for t, d in party.link.rounds]

    return run_both(job, source=source)[0]


# Units by which two runs may differ because of coins, and the number of low bits that count.
COINS = {"sigmoid.sigmoid": 300, "sigmoid_table.sigmoid_table": 300, "reciprocal.reciprocal": 1}
LOW_BITS = {"beaver.dot-1": 40, "bits.select-1": 40, "one_hot.one_hot_words-1": 40, "logarithm.read_window-0": 10}
LOW_BITS |= {f"fixed_operand.multiply_fixed-{number}": 48 for number in (2, 4, 7)}
# Without a dealer, operands are not opened, few numbers are ranked in blocks, and the sigmoid is another protocol.
OTHER_WIRE = {"fixed_operand.fix", "linear_map.share_masked_matrix", "sigmoid.sigmoid", "sums_by_bin.sums_by_bin"}
OTHER_WIRE |= {"ranks.ranks"}


def flat(results):
    """Return the arrays in order."""
    return [array for part in results for array in flat(part)] if isinstance(results, list) else [results]


@pytest.mark.parametrize("case", cases(entries()), ids=lambda case: case.name)
def test_every_protocol_gives_the_same_result_on_either_source(case):
    name = case.name
    if "keys" in name or case.protocol.name.startswith(("macs.", "authenticated_", "widening_dot.")):
        with pytest.raises(NeedsDealer):
            run_case(case, made_by_both)
        return
    first, second = run_case(case, dealt), run_case(case, made_by_both)
    if case.protocol.name not in OTHER_WIRE:
        assert [wire[1:] for wire in first] == [wire[1:] for wire in second]
    one, other = (flat(whole(runs[0][0], runs[1][0])) for runs in (first, second))
    for a, b in zip(one, other, strict=True):
        if a is not None and name in LOW_BITS:
            assert np.array_equal(low_bits(a.astype(U64), LOW_BITS[name]), low_bits(b.astype(U64), LOW_BITS[name]))
        elif a is not None:
            assert np.abs(a.astype(object) - b.astype(object)).max(initial=0) <= COINS.get(case.protocol.name, 0)


def test_requests_that_need_a_dealer_are_refused_with_the_plan():
    def plan_keys(party):
        with pytest.raises(NeedsDealer, match="SignKeys must come from a dealer"):
            party.randomness.provide([([K["Triples"]((3,), Z64), K["SignKeys"]((3,), 9)], 2)])

    run_both(plan_keys, source=made_by_both)
