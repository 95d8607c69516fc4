"""A dealer that deals wrong values is caught: for every kind that is proved, and every kind of error."""

import numpy as np
import pytest

from mpc.audit import Audit
from mpc.catalogue import correlations
from mpc.errors import AuditFailure
from mpc.known_matrix import BinColumns, BinRows
from mpc.linear_map import SACRIFICED, apply_matrix, share_masked_matrix
from mpc.rehearsal import TraceView
from mpc.ring import U64
from mpc.rings import GF2, Z32, Z64, Z2k
from mpc.shares import AShare, BShare
from mpc.verdict import settle
from protocols.runtime import run_local
from protocols.testing.two_parties import run_both
from secure_tree import SecureXGBClassifier
from tests.attacks.dealing import checked, lying

KINDS = {
    name: correlations()[name.rstrip("2")](*shapes)
    for name, shapes in {
        "Triples": ((9,), Z64),
        "Triples2": ((9,), Z2k(U64, 20)),
        "Squares": ((9,), Z2k(U64, 20)),
        "DotMasks": ((5, 3), (5, 3), Z64),
        "NewtonMasks": ((8,),),
        "BitTriples": ((40,), U64),
        "RowTriples": ((8, 4),),
        "RingBits": ((9,), Z64),
        "SelectMasks": ((9, 1), (9, 3), Z64),
        "WrapMasks": ((9,), 12),
        "OneHotMasks": (9, 5),
        "EqualityMasks": ((9,), 4),
        "PrefixMasks": (9, 8),
        "WindowMasks": ((9,), 2, 4, 5, 6),
        "LogarithmMasks": ((4,), 10, 4, 2),
        "SignMasks": ((9,), 3, 40),
        "SignMasks2": ((9,), 1, 9),
        "ZeroShares": ((9,), Z64),
        "ZeroShares2": ((40,), GF2),
    }.items()
}
TRUSTED = {
    "FloorKeys",
    "FloorMasks",
    "GroupMasks",
    "MatrixMasks",
    "MaximumKeys",
    "OperandProduct",
    "SignKeys",
    "TrigonometricMasks",
}
# Predictions with MACs bind the parties; their dealer is trusted.
OF_MACS = {
    "AuthenticMask",
    "ChoiceTables",
    "MacKeys",
    "Nonces",
    "ReceiverMask",
    "RowMask",
    "RowProducts",
    "SignTables",
    "WideMask",
}
CHECKED_AT_USE = {"MatrixVectors"}
NOTHING_DERIVED = {"InputMask", "MatrixMask", "MatrixRelease", "OperandMask"}
REPETITIONS = 3


def test_every_kind_is_proved_trusted_or_random():
    assert (
        set(correlations())
        == {name.rstrip("2") for name in KINDS} | TRUSTED | OF_MACS | CHECKED_AT_USE | NOTHING_DERIVED
    )


class Recipes(TraceView):
    """Lists the recipes of derived values."""

    def __init__(self):
        super().__init__(1)
        self.found = []

    def derived(self, ring, shape, recipe, to=1):
        self.found.append(recipe)
        return super().derived(ring, shape, recipe, to)


@pytest.mark.parametrize("name", KINDS)
def test_every_derived_value_has_relations(name):
    view = Recipes()
    KINDS[name].deal(view)
    assert view.found and all(hasattr(recipe, "check") for recipe in view.found)


def derived_values(request):
    view = Recipes()
    request.deal(view)
    return len(view.found)


def error_at(ring, shape, places, bit):
    error = np.zeros(shape, np.uint64)
    error.reshape(-1)[places] = 1 << bit % ring.bits
    return error


def single(rng, count):
    which, bit, place = rng.integers(count), int(rng.integers(64)), rng.random()
    return lambda i, ring, shape: (
        error_at(ring, shape, [int(place * np.prod(shape))], bit) if i % count == which and i < count else None
    )


def highest(rng, count):
    """Make one value wrong in the highest bit, which is zero in half of all sums of multiples."""
    which, place = rng.integers(count), rng.random()
    return lambda i, ring, shape: (
        error_at(ring, shape, [int(place * np.prod(shape))], ring.bits - 1) if i == which else None
    )


def two_alike(rng, count):
    which, bit = rng.integers(count), int(rng.integers(64))

    def wrong(i, ring, shape):
        places = rng.choice(np.prod(shape), min(2, np.prod(shape)), replace=False)
        return error_at(ring, shape, places, bit) if i == which else None

    return wrong


def both_copies(rng, count):
    """Make the same error in a request and in its copy after it, as both evaluations of an audit would take them."""
    which, bit, place = rng.integers(count), int(rng.integers(64)), rng.random()
    return lambda i, ring, shape: (
        error_at(ring, shape, [int(place * np.prod(shape))], bit) if i % count == which else None
    )


def whole_batch(rng, count):
    bit = int(rng.integers(64))
    return lambda i, ring, shape: error_at(ring, shape, slice(None), bit)


LIES = single, highest, two_alike, both_copies, whole_batch


@pytest.mark.parametrize("name", KINDS)
def test_an_honest_dealer_is_accepted(name):
    assert all(checked([KINDS[name]] * 2) for _ in range(REPETITIONS))


@pytest.mark.parametrize("proving_right", [False, True], ids=["proving what it dealt", "proving what is right"])
@pytest.mark.parametrize("name", KINDS)
def test_lies_are_found(monkeypatch, name, proving_right):
    request, rng = KINDS[name], np.random.default_rng(len(name))
    for kind in LIES:
        for _ in range(REPETITIONS):
            with lying(monkeypatch, kind(rng, derived_values(request)), proving_right=proving_right):
                assert not checked([request] * 2), kind.__name__


@pytest.mark.parametrize("name", [name for name in KINDS if "Zero" not in name and name != "WrapMasks"])
def test_values_of_other_masks_are_found(monkeypatch, name):
    """All masks of the dealer differ from the parties' in the lowest bit."""
    with lying(monkeypatch, wrong_mask=lambda ring, shape: np.ones(shape, np.uint64)):
        assert not checked([KINDS[name]] * 2)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_hundred_honest_runs_and_lies(monkeypatch):
    """All kinds in one plan, 100 times each way; the lie is one bit of one value of the plan."""
    requests = list(KINDS.values())
    count = sum(map(derived_values, requests))
    assert all(checked(requests) for _ in range(100))
    rng = np.random.default_rng(5)
    for _ in range(100):
        with lying(monkeypatch, single(rng, count)):
            assert not checked(requests)


class Misdealt:
    """Randomness of one party, whose half of the products of known matrices has the highest bit of words flipped."""

    def __init__(self, randomness, places):
        self._randomness, self._places = randomness, places

    def take(self, request):
        part = self._randomness.take(request)
        if type(request).__name__ != "MatrixVectors":
            return part
        r, half = part[0], part[1].copy()
        half[self._places(*half.shape)] ^= half.dtype.type(1 << (request.ring.bits - 1))
        return r, half

    def __getattr__(self, name):
        return getattr(self._randomness, name)


VECTORS = {
    "a word": lambda count, n: (0, n - 1),
    "a word of all that are used": lambda count, n: (slice(count - SACRIFICED), 0),
    "a word of all": lambda count, n: (slice(None), 0),
    "everything": lambda count, n: slice(None),
}


@pytest.mark.parametrize("owner", [0, 1])
@pytest.mark.parametrize("ring", [Z32, GF2], ids=str)
@pytest.mark.parametrize("places", [None, *VECTORS.values()], ids=["honest", *VECTORS])
def test_vectors_of_a_known_matrix(places, ring, owner):
    """Each lie is the same in both evaluations, or in as many vectors as may be."""
    bins = np.arange(24, dtype=np.uint8).reshape(8, 3) % 5
    sizes = (8, 15) if ring is Z32 else (15, 8)

    def job(party):
        party.audit = Audit(b"a seed that the dealer does not know", proving=True)
        if places and party.rank == 0:
            party.randomness = Misdealt(party.randomness, places)
        known = (BinColumns if ring is Z32 else BinRows)(bins, 5) if party.rank == owner else None
        shared = share_masked_matrix(party, owner, known, *sizes, ring, 5)
        words = np.ones((2, sizes[0]), ring.dtype)
        x = AShare(words, party.rank) if ring is Z32 else BShare(words, party.rank)
        apply_matrix(party, shared.supply(party, 2), x)
        settle(party)

    if places is None:
        run_both(job)
    else:
        with pytest.raises(AuditFailure, match="what was dealt for a known matrix fits it"):
            run_both(job)


RNG = np.random.default_rng(3)
X = RNG.normal(size=(60, 4))
Y = (X[:, 0] + X[:, 1] > 0).astype(int)


def train(party):
    rows = slice(0, 30) if party.rank == 0 else slice(30, 60)
    model = SecureXGBClassifier(n_estimators=2, max_depth=2, max_bin=8)
    model.fit(party, X[rows], Y[rows])
    return model.predict_margin(party, X[rows], "thresholds")


def test_training_accepts_an_honest_dealer():
    audited, checks = (run_local(train, **how) for how in ({"audit": True}, {"check_dealer": True}))
    assert all(np.allclose(a, b, atol=1e-2) for a, b in zip(audited, checks, strict=True))


def test_training_stops_after_a_lie(monkeypatch):
    """All elements of every product of bits have the same error, so the second evaluation repeats it."""

    def wrong(i, ring, shape):
        return np.ones(shape, np.uint64) if isinstance(ring, Z2k) and ring.bits == 64 else None

    with lying(monkeypatch, wrong), pytest.raises(AuditFailure, match="wrong values from the dealer"):
        run_local(train, check_dealer=True)
