"""Agreement of the nodes on the cluster boundaries of every feature; the server, which adds, learns no value.

Functionality  D nodes with columns of float32 -> every node has the same boundaries float32[d, v - 1]: b_c is the
               smallest value with at least ceil(c N / v) of all N values at or below it
Messages       "rank" rounds 0 to 9. Round 0: node -> server masked row count and a fresh nonce. Rounds 1 to 8: server
               -> nodes the masked total of the previous round; node -> server masked counts of its values at or below
               15 candidates for each boundary. Round 9: server -> nodes the last total.
Cost           8 rounds of 120 d (v - 1) bytes each way per node, and two short ones
Security       semi-honest. Masks are derived from a key that the nodes share and the server does not have, and
               from the features' names, so nodes whose columns differ get random totals and stop. The server
               sees uniform words. The nodes see the totals, which are ranks of the candidates among all rows. A node
               can subtract its own counts: with two nodes this leaves all counts of the other, with more, the sums of
               the others' counts; D - 1 colluding nodes see all counts of the last. A node that colludes with the
               server learns every node's counts.
Drop-out       a node that drops out here ends the training: its values are needed; start again without it
Source         radix descent on the order-preserving integer image of float32; masking by a common stream
"""

from __future__ import annotations

import numpy as np

from mpc.errors import PeerVanished
from mpc.words import U64
from protocols.baselines.federated.engine import Federation, Message, field
from protocols.offline.streams import Streams

DIGIT_BITS = 4
DIGITS = 32 // DIGIT_BITS
CANDIDATES = (1 << DIGIT_BITS) - 1
NONCE_BYTES = 16
TWO_NODES = "with two clients each learns all counts of the other while the clusters are agreed"


def ordered_keys(values: np.ndarray) -> np.ndarray:
    """float32 -> uint32 in the same order; -0.0 and 0.0 are one value."""
    bits = (values + np.float32(0)).view(np.uint32)
    return np.where(bits >> 31 == 1, ~bits, bits | np.uint32(1 << 31))


def values_of_keys(keys: np.ndarray) -> np.ndarray:
    """Invert `ordered_keys`."""
    bits = np.where(keys >> 31 == 1, keys & np.uint32((1 << 31) - 1), ~keys)
    return bits.astype(np.uint32).view(np.float32)


def pooled_boundaries(X: np.ndarray, clusters: int) -> np.ndarray:
    """Compute the functionality on pooled rows float32[n, d], the reference of the protocol's tests."""
    ranks = target_ranks(len(X), clusters)
    return np.sort(X + np.float32(0), axis=0)[ranks - 1].T.copy()


def every_value(X: np.ndarray) -> np.ndarray:
    """Return boundaries of one cluster per distinct value, float32[d, v - 1]; shorter columns repeat their last."""
    distinct = [np.unique(column) for column in X.T]
    v = max(map(len, distinct))
    return np.stack([np.pad(values[:-1], (0, v - len(values)), mode="edge") for values in distinct])


def target_ranks(rows: int, clusters: int) -> np.ndarray:
    """Return ceil(c rows / v) for c = 1 .. v - 1, int64."""
    return -(-np.arange(1, clusters, dtype=np.int64) * rows // clusters)


def candidate_counts(keys: np.ndarray, prefixes: np.ndarray, digit: int) -> np.ndarray:
    """Count values at or below each candidate: sorted keys uint32[n, d], prefixes uint32[d, b] -> int64[d, b, 15].

    Candidate t of a boundary is its prefix, then digit t, then ones.
    """
    shift = 32 - DIGIT_BITS * (digit + 1)
    digits = np.arange(CANDIDATES, dtype=np.uint64) << np.uint64(shift)
    candidates = prefixes[..., None].astype(np.uint64) + digits + np.uint64((1 << shift) - 1)
    columns = [np.searchsorted(keys[:, j], candidates[j].astype(np.uint32), "right") for j in range(keys.shape[1])]
    return np.stack(columns).astype(np.int64)


def next_prefixes(prefixes: np.ndarray, totals: np.ndarray, ranks: np.ndarray, digit: int) -> np.ndarray:
    """Append a digit to each prefix, that of the first candidate that reaches its rank: uint32[d, b]."""
    shift = np.uint32(32 - DIGIT_BITS * (digit + 1))
    chosen = (totals < ranks[None, :, None]).sum(axis=-1).astype(np.uint32)
    return prefixes + (chosen << shift)


def mask(group_key: bytes, nonce: bytes, round_number: int, size: int) -> np.ndarray:
    """Return the words that one node adds in one round, uint64[size]; all nodes can compute them, the server cannot."""
    return Streams(group_key, nonce).of(round_number).words((size,), U64)


def agree(federation: Federation, new: bool = False) -> None:
    """Run the server's part: add the masked words of each round and return the total. Raises PeerVanished.

    The boundaries are those of the base rows or, with `new`, of the rows of the update.
    """
    message: Message = {"new": np.array(new)}
    for number in range(DIGITS + 2):
        replies = federation.broadcast("rank", {"round": np.array(number)} | message)
        missing = sorted(set(federation.clients) - set(replies))
        if missing:
            raise PeerVanished(
                f"node {missing[0]} dropped out while cluster boundaries were being agreed on: start again without it"
            )
        if number <= DIGITS:
            words = [field(reply, "masked", np.uint64, (-1,)) for reply in replies.values()]
            message["total"] = np.asarray(np.sum(words, axis=0, dtype=np.uint64))
        if number == 0:
            nonces = [field(reply, "nonce", np.uint8, (NONCE_BYTES,)) for reply in replies.values()]
            message["nonces"] = np.stack(nonces)
        else:
            message.pop("nonces", None)
