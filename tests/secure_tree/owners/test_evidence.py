"""A coalition of a party and an owner, enumerated; planted leaks; what an owner sends, fixed against random; bytes."""

import contextlib
from itertools import product

import numpy as np
import pytest

from mpc.arithmetic.bits import to_ring
from mpc.matrix.fixed_operand import fix, multiply_fixed
from mpc.protocol.evidence import Bits, bit, public, word
from mpc.rings import Z64
from mpc.rounds import named, open_shares
from mpc.shares import AShare, BShare
from mpc.words import U8
from protocols.testing.exhaustive import check
from protocols.testing.two_parties import run_both
from secure_tree import SecureXGBClassifier
from secure_tree.agreement.messages import VERSION
from secure_tree.owners import admission, halves
from secure_tree.owners.contributing import Owners, contribute
from secure_tree.public.config import TrainConfig
from tests.leakage.welch import Tally, leaking_positions
from tests.secure_tree.opened import contributing
from tests.secure_tree.owners.test_owners import PARAMETERS, tables


def owned(values, seed, rank):
    """Return a party's half of what an owner contributes whose values and seed the coalition knows."""
    kind = BShare if values.dtype == U8 else AShare
    other = values ^ seed if kind is BShare else values - seed
    return kind(seed if rank == 0 else other, rank)


class Test_a_coalition_of_a_party_and_an_owner:
    """Values and seed of the owner are in the view; what the other owner and the other party have is not."""

    def test_the_lift(self):
        def steps(party, x, seed, other):
            ours = yield from to_ring.steps(party, owned(x, seed, party.rank))
            theirs = yield from to_ring.steps(party, other)
            return ours + theirs

        verdict = check(
            steps, public(1, 1, dtype=U8), public(1, 1, dtype=U8), bit(1), ideal=lambda x, s, y: x + y, ring=Bits(2)
        )
        assert verdict.proven and verdict.padded and verdict.fresh, verdict

    def test_the_product_with_a_fixed_operand(self):
        """Over Z_2: the coalition knows the operand, and so its mask, which masks nothing else."""

        def steps(party, x, seed, vector):
            operand = yield from fix.steps(party, owned(x, seed, party.rank))
            return (yield from multiply_fixed.steps(party, vector, operand))

        verdict = check(
            steps, public(2, 1, 1), public(2, 1, 1), word(2, 1, 1), ideal=lambda x, s, v: x * v, batched=True
        )
        assert verdict.proven and verdict.padded, verdict

    def test_one_mask_for_two_owners_is_found(self):
        def steps(party, x, seed, other):
            mask = AShare(party.randomness.take(_Mask(other.shape)), party.rank)
            yield from open_shares(owned(x, seed, party.rank) - mask, other - mask)
            return other.map(np.zeros_like)

        verdict = check(steps, public(2), public(2), word(2), ideal=lambda x, s, y: 0 * x)
        assert verdict.wrong == 0 and min(verdict.leaking) > 0


class _Mask:
    def __init__(self, shape):
        self.shape = shape

    def deal(self, view):
        return view.mask(Z64, self.shape)


@pytest.mark.parametrize(("k", "bins", "features"), [(3, 2, 2), (4, 3, 2), (5, 4, 2)])
def test_the_exact_probability_that_a_row_which_is_no_one_hot_passes(k, bins, features):
    """Over Z_2^k with a coin per feature: at most K / 2^k, for every contribution, and 1 for valid ones only."""
    coins = np.array(list(product(range(1 << k), repeat=features)))
    worst = 0.0
    for hot in product(range(bins + 1), repeat=features):
        excess = np.array(hot) - 1
        passing = float(((coins @ excess) % (1 << k) == 0).mean())
        assert (passing == 1) == (not excess.any())
        worst = max(worst, passing if excess.any() else 0)
    assert 0 < worst <= bins / (1 << k)


def drawn_early(monkeypatch):
    """Plant a leak: the coins are drawn before an owner's bins arrive, which could then be chosen to fit them."""
    at, draw, known = Owners.at, admission.public_coins, {0: [], 1: []}

    def planted(self, edges, missing):
        party = self._party
        known[party.rank] += [party.run(named("owners.coins", draw(party))) for _ in self._owners]
        yield from at(self, edges, missing)

    def look(party):
        yield from ()
        return known[party.rank].pop()

    monkeypatch.setattr(Owners, "at", planted)
    monkeypatch.setattr(admission, "public_coins", look)


@pytest.mark.parametrize("early", [False, True])
def test_coins_are_drawn_after_the_bins_that_they_check(monkeypatch, early):
    seen, bits, exchange = {0: [], 1: []}, Owners._bits, admission.exchange_words

    def arrived(self, line, name, tag, shape):
        seen[self._party.rank] += [tag] if tag == "owner.bins" else []
        return bits(self, line, name, tag, shape)

    def drawn(words, sizes):
        seen["coins"] = [*seen.get("coins", []), [len(seen[rank]) for rank in (0, 1)]]
        return (yield from exchange(words, sizes))

    monkeypatch.setattr(Owners, "_bits", arrived)
    monkeypatch.setattr(admission, "exchange_words", drawn)
    if early:
        drawn_early(monkeypatch)
    train()
    at_both = [max(arrived) for arrived in seen["coins"]]
    assert (at_both == [1, 1, 2, 2]) == (not early), seen


def train():
    made = tables((20, 20, 15, 10), d=2)
    lines, _ = contributing({"bank_a": made[2], "bank_b": made[3]})
    run_both(lambda p: SecureXGBClassifier(**PARAMETERS).fit(p, *made[p.rank], contributed=lines[p.rank]))


def received(X, y, d=2):
    """Return all bytes of halves that each party receives from an owner."""
    got = {"party_a": b"", "party_b": b""}
    edges = np.sort(np.random.default_rng(3).normal(size=(d, 8))).astype(np.float32)
    edges[:, 0] = np.finfo(np.float32).min

    class Line:
        wire_sent, timeout = 0, None

        def __init__(self, peer):
            self.peer = peer

        def receive(self, tag, limit=None):
            config = TrainConfig.of(**{**PARAMETERS, "edge_bits": 12}).model_dump()
            terms = {
                "version": VERSION,
                "config": config,
                "purpose": "training",
                "names": [f"f{i}" for i in range(d)],
                "categories": {},
            }
            return {"owner.terms": terms, "owner.edges": edges, "owner.receipt": ""}[tag]

        def send(self, tag, tree):
            if tag != "owner.facts":
                (content,) = tree.values()
                got[self.peer] += content if isinstance(content, bytes) else content.tobytes()

    contribute([Line("party_a"), Line("party_b")], X, y)
    return got


def assess(runs, rows=12):
    """Return tallies of what each party receives, of contributions of the same table and of fresh ones."""
    rng = np.random.default_rng(0)

    def fresh():
        return rng.normal(size=(rows, 2)), rng.integers(0, 2, rows).astype(float)

    fixed = fresh()
    groups = [[received(*fixed) for _ in range(runs)], [received(*fresh()) for _ in range(runs)]]
    return [[Tally.by_run([each[name] for each in group]) for group in groups] for name in ("party_a", "party_b")]


def test_what_a_party_receives_of_an_owner_does_not_depend_on_its_table():
    assert all(leaking_positions(*pair).size == 0 for pair in assess(60))


def test_one_seed_for_two_arrays_is_found(monkeypatch):
    """Planted: all masks are equal, so that party 1 gets differences of tables."""
    monkeypatch.setattr(halves.os, "urandom", lambda size: bytes(size))
    first, second = assess(60)
    assert leaking_positions(*first).size == 0 and leaking_positions(*second).size > 0


def test_every_array_of_a_contribution_has_a_seed_of_its_own():
    data = received(*tables((30,), d=2)[0])["party_a"]
    seeds = {data[at : at + halves.SEED_BYTES] for at in range(0, len(data), halves.SEED_BYTES)}
    assert len(data) == 3 * halves.SEED_BYTES and len(seeds) == 3


@pytest.mark.parametrize(("rows", "d", "bins"), [(16, 2, 8), (40, 3, 4)])
def test_rounds_and_bytes_of_checking_an_owner(monkeypatch, rows, d, bins):
    """As the header of admission.py says: n d K / 8 bytes for the bins and n / 8 for the labels, then coins, and a word
    for each of four sums, for each bin, and for each feature that may have no missing values.
    """
    meters = []
    lifted, checked = admission._lifted, admission._check

    @contextlib.contextmanager
    def metered(party, what):
        rounds, sent = party.meter.total.rounds, party.link.payload_sent if party.live else 0
        yield
        if party.live and party.rank == 0:
            meters.append((what, party.meter.total.rounds - rounds, party.link.payload_sent - sent))

    def lifting(party, *given, **more):
        with metered(party, "lift"):
            return (yield from lifted(party, *given, **more))

    def checking(party, *given):
        with metered(party, "check"):
            checked(party, *given)

    monkeypatch.setattr(admission, "_lifted", lifting)
    monkeypatch.setattr(admission, "_check", checking)
    made = tables((40, 40, rows), d=d)
    lines, _ = contributing({"bank": made[2]})
    parameters = {**PARAMETERS, "max_bin": bins}
    run_both(lambda p: SecureXGBClassifier(**parameters).fit(p, *made[p.rank], contributed=lines[p.rank]))
    assert meters == [("lift", 1, rows * d * bins // 8 + rows // 8), ("check", 2, 16 + 4 * (4 + d * bins))]
