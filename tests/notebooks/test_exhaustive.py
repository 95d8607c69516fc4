"""The proof harness can fail: it catches planted leaks and wrong results, and refuses what it cannot check."""

from dataclasses import dataclass

import numpy as np
import pytest

from mpc import sharing
from mpc.arithmetic import beaver
from mpc.arithmetic.beaver import Triples
from mpc.comparison import conversion
from mpc.offline.correlation import View
from mpc.protocol.evidence import Bits, word
from mpc.rings import Z64
from mpc.rounding import truncation
from mpc.rounds import open_shares
from mpc.shares import AShare, stack
from protocols.testing.exhaustive import check


def nothing(party, x):
    """A result that is always right: shares of zero."""
    return AShare(x.words * np.uint64(0), party.rank)


def test_a_reused_mask_is_caught():
    def steps(party, x, y):
        a, _, _ = party.randomness.take(Triples(x.shape, x.ring))
        yield from open_shares(x.map(lambda w: w - a), y.map(lambda w: w - a))
        return nothing(party, x)

    verdict = check(steps, word(2), word(2), ideal=lambda x, y: 0 * x)
    assert verdict.wrong == 0 and min(verdict.leaking) > 0 and not verdict.padded


def test_an_unmasked_opening_is_caught():
    def steps(party, x, y):
        yield from open_shares(x)
        return (yield from beaver.multiply.steps(party, x, y))

    verdict = check(steps, word(2), word(2), ideal=lambda x, y: x * y)
    assert verdict.wrong == 0 and min(verdict.leaking) > 0


def test_a_leak_to_only_one_party_is_attributed_to_it():
    def steps(party, x, y):
        mask = party.randomness.take(Triples(x.shape, x.ring))[0]
        yield from open_shares(x.map(lambda w: w - mask if party.rank == 0 else w))
        return nothing(party, x)

    leaking = check(steps, word(2), word(2), ideal=lambda x, y: 0 * x).leaking
    assert leaking[0] > 0 and leaking[1] == 0


def test_a_biased_generator_is_caught():
    @dataclass(frozen=True)
    class Biased:
        shape: tuple[int, ...]

        def deal(self, view: View):
            # Two of the four values of a half never occur.
            return view.mask(Z64, self.shape) & np.uint64(1)

    def steps(party, x):
        a = party.randomness.take(Biased(x.shape))
        yield from open_shares(x.map(lambda w: w - a))
        return nothing(party, x)

    assert min(check(steps, word(2), ideal=lambda x: 0 * x).leaking) > 0


def test_a_wrong_protocol_is_caught():
    def steps(party, x, y):
        return (yield from beaver.multiply.steps(party, x, x + y))

    assert check(steps, word(2), word(2), ideal=lambda x, y: x * y).wrong > 0


def test_only_the_revealed_result_is_simulated():
    def steps(party, x):
        both = yield from sharing.reveal.steps(party, x)
        return both & np.uint64(1)

    # Only the lowest bit is meant to be revealed, but the message reveals all of x.
    steps.reveals = ("the parity",)
    verdict = check(steps, word(2), ideal=lambda x: x & 1)
    assert verdict.wrong == 0 and min(verdict.leaking) > 0


def test_an_output_in_the_clear_must_be_declared():
    def steps(party, x):
        return (yield from sharing.reveal.steps(party, x))

    with pytest.raises(ValueError, match="declares no revealed value"):
        check(steps, word(2), ideal=lambda x: x)


def test_a_share_that_is_not_fresh_is_reported():
    # The shares of a sum's lowest bit are the lowest bits of its terms.
    verdict = check(conversion.to_bits, word(2), 2, ideal=lambda x: x[:, None] >> np.arange(2) & 1)
    assert verdict.proven and not verdict.fresh


@pytest.mark.parametrize(
    ("rounds_up", "right"),
    [(lambda x, coin: coin < x, True), (lambda x, coin: coin <= x, False), (lambda x, coin: coin < 0, False)],
    ids=["the coin", "another coin", "none"],
)
def test_the_coin_of_a_truncation_is_party_1s_share(rounds_up, right):
    verdict = check(
        truncation.truncate,
        word(4, low=60),
        62,
        ideal=lambda x, coin: (x >> 2) + rounds_up(x & 3, coin & 3),
        draws=[Bits(1), Bits(1), Bits(2)],
        output=Bits(4),
        promise=lambda x: x < 4,
        halves=True,
    )
    assert (verdict.wrong == 0) == right and verdict.leaking == (0, 0)


def test_values_that_the_windows_would_hide_are_refused():
    def steps(party, x):
        yield from open_shares(x.map(lambda w: w << np.uint64(32)))
        return nothing(party, x)

    with pytest.raises(ValueError, match="not of the ring"):
        check(steps, word(2), ideal=lambda x: 0 * x)


def test_too_many_cases_are_refused():
    with pytest.raises(ValueError, match="too many to enumerate"):
        check(beaver.multiply, word(3), word(3), ideal=lambda x, y: x * y)


def test_messages_that_mix_cases_are_refused():
    def steps(party, x, y):
        a, b, _ = party.randomness.take(Triples(x.shape, x.ring))
        # The cases are the second axis on the wire.
        yield from open_shares(stack([x.map(lambda w: w - a), y.map(lambda w: w - b)]))
        return nothing(party, x)

    with pytest.raises(ValueError, match="one by one"):
        check(steps, word(2), word(2), ideal=lambda x, y: 0 * x)


def test_cases_along_another_axis_are_found():
    assert check(
        lambda party, x: beaver.square.steps(party, x.map(lambda w: w[None])), word(2), ideal=lambda x: x * x
    ).proven


def test_dealt_arrays_without_an_axis_of_cases_are_refused():
    def steps(party, x):
        party.randomness.take(Triples((1,), x.ring))
        yield from open_shares(x)
        return nothing(party, x)

    with pytest.raises(ValueError, match="one by one"):
        check(steps, word(2), ideal=lambda x: 0 * x)
