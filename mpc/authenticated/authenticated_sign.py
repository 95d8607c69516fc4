"""Signs of authentic values: [x] -> [x < 0] with MACs, by dealt tables.

Functionality  authentic [x] -> authentic [x < 0], exact while -2^(B-1) <= x < 2^(B-1)
Messages       round 1: y = x + r;  round 2: the masked comparison of each group of three chunks;  round 3: that of the
               groups. All are opened with MACs (mpc/authenticated/macs.py)
Cost           8 (2 + g) bytes per element each way for g groups of chunks, in three rounds; from the dealer
               40 + 8 g + 16 (48 g + 16 g + 2^(g + 1)) bytes. B = 35: g = 3, 40 bytes and 3,392
How            x < 0 is bit B - 1 of y - r. The low B - 1 bits of y and r are cut into m chunks of four bits. The sign
               of y_j - r_j, which is -1, 0 or 1, is read from a table of 16 entries at the public y_j. The sum
               s_0 + 2 s_1 + 4 s_2 has the sign of the highest chunk that differs; it is opened under a mask rho modulo
               16, and its sign is read from the next table. The last table holds bit 3 of the weighted sum of the
               groups' signs and of 8 times bit B - 1 of r and of y. Everything between openings is linear, and so are
               the MACs
Security       as mpc/authenticated/macs.py: openings are one-time pads, and a false opening is caught
Source         see mpc/comparison/thermometer.py; MACs beside tables: TinyTable, Damgard et al., CRYPTO 2017
"""

from __future__ import annotations

import numpy as np

from mpc.authenticated.macs import PADS, AuthenticatedShare, authenticated_words, deal_macs, open_authenticated
from mpc.endpoint import Endpoint
from mpc.offline.correlation import Recipe, View, correlation
from mpc.protocol.catalogue import calls, describe
from mpc.protocol.contract import protocol
from mpc.rings import Z64
from mpc.rounds import Steps
from mpc.words import U64, Shape, low_bits

CHUNK = 4
# Chunks per group: with the bit for the sign, a table has the size of those for chunks.
GROUP = 3
# Four groups: the last table has 32 entries.
MOST_BITS = 49
_SIZE = 1 << CHUNK
_TOP = np.uint64(CHUNK - 1)


def group_count(bits: int) -> int:
    """Return the number of groups of chunks in the low bits of a value."""
    return -(-(bits - 1) // (CHUNK * GROUP))


def _chunks(words: np.ndarray, bits: int) -> np.ndarray:
    """The low bits - 1 bits in chunks, lowest first, [n, chunks]."""
    places = np.arange(group_count(bits) * GROUP, dtype=U64) * np.uint64(CHUNK)
    return low_bits(low_bits(words, bits - 1)[:, None] >> places, CHUNK)


def _bit(words: np.ndarray, place: int) -> np.ndarray:
    return words >> np.uint64(place) & np.uint64(1)


def _signs(number: np.ndarray) -> np.ndarray:
    """Signs -1, 0, 1 of four-bit integers in two's complement, as words."""
    low = low_bits(number, CHUNK)
    return (low != 0).astype(U64) - np.uint64(2) * (low >> _TOP)


@correlation
class SignTables:
    """Authentic [r] and its bit B - 1; for each chunk, the signs of 0 .. 15 minus the chunk; masks rho of the groups
    and of their sum; and for each of these masks, the table of what it hides: the sign, and finally the top bit.
    """

    count: int
    bits: int

    def deal(self, view: View) -> list[tuple[np.ndarray, np.ndarray]]:
        if not 2 <= self.bits <= MOST_BITS:
            raise ValueError(f"bits must be 2 to {MOST_BITS}, got {self.bits}")
        n, groups = self.count, group_count(self.bits)
        entries = np.arange(_SIZE, dtype=U64)

        def derived(shape: Shape, recipe: Recipe) -> tuple[np.ndarray, np.ndarray]:
            words = view.derived(Z64, shape, recipe)
            return words, deal_macs(view, words, shape, 1)

        def mask(shape: Shape, keys: int) -> tuple[np.ndarray, np.ndarray]:
            words = view.mask(Z64, shape)
            return words, deal_macs(view, words, shape, keys)

        r, rho, last = mask((n,), 2), mask((n, groups), 1), mask((n,), 1)

        def compared() -> np.ndarray:
            chunks = _chunks(r[0], self.bits)[..., None]
            return (entries > chunks).astype(U64) - (entries < chunks).astype(U64)

        return [
            r,
            derived((n,), lambda: _bit(r[0], self.bits - 1)),
            derived((n, groups * GROUP, _SIZE), compared),
            rho,
            derived((n, groups, _SIZE), lambda: _signs(entries - rho[0][..., None])),
            last,
            derived(
                (n, 1 << groups + 1), lambda: _bit(np.arange(1 << groups + 1, dtype=U64) - last[0][:, None], groups)
            ),
        ]


def look_up(table: AuthenticatedShare, places: np.ndarray) -> AuthenticatedShare:
    """Look up one public place in each table; tables lie along the last axis."""
    at = places.astype(np.int64)[..., None]
    return table.each(lambda w: np.take_along_axis(w, at, axis=-1)[..., 0])


@protocol()
def below_zero(party: Endpoint, x: AuthenticatedShare, bits: int) -> Steps[AuthenticatedShare]:
    """Authentic [x], flat, with both keys -> authentic [x < 0], with one; `bits` is B of the header, 2 .. 49."""
    groups = group_count(bits)
    dealt = party.randomness.take(SignTables(x.size, bits))
    r, top, compared, rho, signs, last, result = (AuthenticatedShare(*part, x.keyring) for part in dealt)
    y = yield from open_authenticated.steps(party, x + r)
    each = look_up(compared, _chunks(y, bits)).reshape(x.size, groups, GROUP)
    powers = np.uint64(1) << np.arange(max(GROUP, groups), dtype=U64)
    hidden = yield from open_authenticated.steps(party, each.times(powers[:GROUP]).sum() + rho)
    of_groups = look_up(signs, low_bits(hidden, CHUNK)).times(powers[:groups]).sum()
    flips = top.plus(_bit(y, bits - 1)).times(np.uint64(1 << groups))
    hidden = yield from open_authenticated.steps(party, of_groups + flips + last)
    return look_up(result, low_bits(hidden, groups + 1))


describe(
    below_zero,
    samples=calls(lambda i, n: [authenticated_words(i, -(1 << 33), 1 << 33, n), 35]),
    priced=calls(lambda i, n: [authenticated_words(i, 0, 1, n), 35], element="x < 0, 35 bits, with MACs"),
    evidence=PADS,
)
