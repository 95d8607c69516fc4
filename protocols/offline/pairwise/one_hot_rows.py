"""Shared words times a matrix of shared bits, each of whose rows has a single 1 or none.

Functionality  <M>, n rows of m bits, kept; [rho], a word for each row and vector -> [sum over the rows of rho M]
Messages       once: for each bit of M, and one more per row, two correlated transfers, in which a party's half of the
               bit is its choice. Each use: a product of a word with a bit, by two transfers, and an opened word
Cost           for each row and vector, 4 words; an AES block per bit of M and two vectors
Security       semi-honest. The pads of the 1 differ, and each party's is pseudorandom to the other, which lacks the
               delta of one of its two blocks: so the opened word is masked. Blocks are hashed as the leaves of seed
               trees (seed_trees.py), with a new permutation for each use and portion of rows
How            the sender of a transfer adds its bit times delta to its random block: both parties' blocks of a bit
               agree iff their halves do, that is, iff the bit is 0. Pads are hashed from them, so the difference D of
               the parties' sums of the pads of a row is that at its 1. With t the halves of the bits, and
               s = t_0 - t_1 at the 1, they open c = s (rho - D); pads plus t c, and minus that, are shares of 0, and
               of D + s c = rho at the 1. The sums of t differ by s: its sign follows from their second bits and the
               parity of party 0's, without a message. One more bit makes up for rows without a 1
Source         the last layer of a distributed point function: Boyle, Gilboa and Ishai, CCS 2016, made by two parties:
               Doerner and shelat, CCS 2017. Blocks from transfers of the bits themselves, in place of trees: ours
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpc.offline import transfers
from mpc.offline.transfers import Correlated, MaskedMessage, OfflineSteps
from mpc.rings import Z2k
from mpc.words import U8, U64, low_bits
from protocols.ot.kernels import aes_blocks
from protocols.ot.trees import permutation_key

# Pads that are expanded at a time: they fit into the second-level cache.
_CACHED = 1 << 16


@dataclass(frozen=True)
class OneHotRows:
    """A party's half of the bits, uint8[n, m + 1], and its block of each, uint64[2, n, m + 1, 2]: of the transfers in
    which party 0 chooses, and party 1.
    """

    rank: int
    bits: np.ndarray
    blocks: np.ndarray

    def multiply(self, rho: np.ndarray, groups: int, ring: Z2k, key: bytes) -> OfflineSteps[np.ndarray]:
        """[rho], [n, v] -> [rho M], [groups, v, m], summed over the rows of each of as many groups.

        `key` is public, and used once.
        """
        n, count = rho.shape
        of_rows, of_bits = self._pads(count, groups, key)
        apart = of_rows if self.rank == 0 else -of_rows
        x = low_bits(rho - apart, ring.bits)
        product = yield from transfers.choose(self.rank, self._signs[:, None], x, ring)
        half = low_bits(product + product - x, ring.bits).reshape(-1)
        own = [half if self.rank == sender else None for sender in (0, 1)]
        first, second = yield [MaskedMessage(sender, half.size, ring, own[sender]) for sender in (0, 1)]
        opened = (first + second).reshape(groups, n // groups, count)
        bits = self.bits[:, :-1].reshape(groups, n // groups, -1).astype(U64).transpose(0, 2, 1)
        out = (of_bits + bits @ opened).transpose(0, 2, 1)
        return low_bits(out if self.rank == 0 else -out, ring.bits)

    @property
    def _signs(self) -> np.ndarray:
        """<party 0 has the 1>, uint8[n]."""
        ones = self.bits.sum(axis=1, dtype=np.int64)
        return ((ones >> 1) + (ones if self.rank == 0 else 0) & 1).astype(U8)

    def _pads(self, count: int, groups: int, key: bytes) -> tuple[np.ndarray, np.ndarray]:
        """Return the sums of the pads over the bits of each row, [n, count], and over the rows, [groups, m, count]."""
        n, width, _ = self.blocks.shape[1:]
        by_row, blocks = np.empty((n, count), U64), -(-count // 2)
        by_bit = np.zeros((groups, width, count), U64)
        size, step = n // groups, max(1, _CACHED // (width * blocks))
        for group in range(groups):
            for start in range(group * size, (group + 1) * size, step):
                rows = slice(start, min(start + step, (group + 1) * size))
                keys = np.bitwise_xor(*(self._hashed(rows, chooser, key) for chooser in (0, 1)))
                words = np.empty((len(keys), blocks, 2), U64)
                aes_blocks.counters(aes_blocks.schedules(keys), 0, words)
                pads = words.reshape(-1, width, 2 * blocks)[..., :count]
                by_row[rows] = pads.sum(axis=1)
                by_bit[group] += pads.sum(axis=0)
        return by_row, by_bit[:, :-1]

    def _hashed(self, rows: slice, chooser: int, key: bytes) -> np.ndarray:
        permutation = permutation_key(key, f"rows from {rows.start}, {chooser}")
        (schedule,) = aes_blocks.schedules(np.frombuffer(permutation, U64)[None])
        return aes_blocks.tweaked_hashes(self.blocks[chooser, rows].reshape(-1, 2), 0, 2, schedule)


def asked_for(n: int, m: int) -> list[Correlated]:
    """Return the requests of `agree`, as seen by a party without input."""
    return [Correlated(chooser, n * (m + 1), None) for chooser in (0, 1)]


def agree(rank: int, bits: np.ndarray, delta: np.ndarray) -> OfflineSteps[OneHotRows]:
    """<M>, uint8[n, m] -> OneHotRows. `delta` is that of the transfers in which this party is the sender."""
    rest = np.bitwise_xor.reduce(bits, axis=1, keepdims=True) ^ U8.type(rank == 0)
    whole = np.concatenate([bits, rest], axis=1)
    flat = whole.reshape(-1)
    blocks = yield [Correlated(chooser, flat.size, flat if rank == chooser else None) for chooser in (0, 1)]
    blocks[1 - rank] = blocks[1 - rank] ^ flat[:, None].astype(U64) * delta
    return OneHotRows(rank, whole, np.stack(blocks).reshape(2, *whole.shape, 2))
