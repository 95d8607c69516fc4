"""Two parties as threads of one process over the in-memory transport, with a dealer computed in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from mpc.endpoint import Endpoint, Like, Peer, Randomness
from mpc.errors import PeerVanished
from mpc.host.streaming import Pieces
from mpc.offline.correlation import Correlation
from mpc.party import Party
from mpc.shares import AShare, BShare, Share
from mpc.words import U64, decode_signed, encode_signed
from protocols.offline.dealer.local_dealer import LocalDealer
from protocols.offline.pairwise.known_transfers import local_pair
from protocols.offline.streams import shard_domain
from protocols.runtime.workers.worker_party import Site
from protocols.transport.channel import Channel
from protocols.transport.memory import memory_pair

T = TypeVar("T")
Seeds = tuple[bytes, bytes]
# source(rank, second channel, seeds, domain of the shard)
Source = Callable[..., Any]
SEEDS: Seeds = (b"a" * 16, b"b" * 16)


class Recorder:
    """A link that records what is sent: the tag and bytes of every round, and the bytes of every array."""

    def __init__(self, link: Peer) -> None:
        self._link = link
        self.rounds: list[tuple[str, bytes]] = []
        self.arrays: list[bytes] = []

    def exchange(
        self, tag: str, arrays: Sequence[np.ndarray | Pieces], like: Sequence[Like] | None = None
    ) -> list[Any]:
        self.arrays += [a.tobytes() for a in arrays]
        self.rounds.append((tag, b"".join(a.tobytes() for a in arrays)))
        return self._link.exchange(tag, arrays, like)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)


class Dealt:
    """A source of randomness that records its requests and this party's parts, in order."""

    def __init__(self, randomness: Randomness) -> None:
        self._randomness = randomness
        self.given: list[tuple[Correlation[Any], Any]] = []

    def take(self, request: Correlation[T]) -> T:
        part = self._randomness.take(request)
        self.given.append((request, part))
        return part

    def __getattr__(self, name: str) -> Any:
        return getattr(self._randomness, name)


def dealt(rank: int, second: Channel, seeds: Seeds = SEEDS, domain: bytes = b"") -> LocalDealer:
    """Return the randomness that a dealer would make."""
    return LocalDealer(rank, seeds, bytes(16) + domain)


def made_by_both(rank: int, second: Channel, seeds: Seeds = SEEDS, domain: bytes = b"") -> Any:
    """Return the randomness that two parties make without a dealer, over the second channel."""
    return local_pair(rank, second, domain or bytes(32), seeds[rank])


def run_both(job: Callable[[Party], T], seeds: Seeds = SEEDS, source: Source = dealt) -> tuple[list[T], list[Party]]:
    """Run job(party) at both ranks; return the two results and the two parties. Raises what a job raises."""
    channels, second = memory_pair(), memory_pair()
    parties = [Party(rank, channels[rank], source(rank, second[rank], seeds)) for rank in (0, 1)]

    def play(party: Party) -> T:
        try:
            result = job(party)
            if close := getattr(party.randomness, "close", None):
                close()
            return result
        except BaseException:
            for channel in (channels[party.rank], second[party.rank]):
                channel.close()
            raise

    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(play, party) for party in parties]
        causes = [future.exception(timeout=60) for future in futures]
        for cause in sorted((c for c in causes if c), key=lambda c: isinstance(c, PeerVanished)):
            raise cause
        return [future.result() for future in futures], parties


def ring_half(values: ArrayLike, rank: int, dtype: np.dtype = U64, scale: int = 0) -> AShare:
    """Return one party's half of a fixed random sharing of integers."""
    words = encode_signed(np.asarray(values), dtype)
    mask = np.random.default_rng(7).integers(0, np.iinfo(dtype).max, words.shape, dtype, endpoint=True)
    return AShare(words - mask if rank == 0 else mask, rank, scale)


def bit_half(bits: ArrayLike, rank: int) -> BShare:
    """Return one party's half of a fixed random sharing of bits."""
    bits = np.asarray(bits, np.uint8)
    mask = np.random.default_rng(8).integers(0, 2, bits.shape).astype(np.uint8)
    return BShare(bits ^ mask if rank == 0 else mask, rank)


def opened(halves: Sequence[Share]) -> np.ndarray:
    """Open two halves: return the secret as signed integers or bits."""
    first, second = halves
    if isinstance(first, AShare) and isinstance(second, AShare):
        return decode_signed(first.words + second.words)
    assert isinstance(first, BShare) and isinstance(second, BShare)
    return first.bits ^ second.bits


class DirectWorkers:
    """Implements `mpc.endpoint.Workers` in the party's own thread: one worker after another, in memory."""

    def __init__(self, sites: Sequence[Site]) -> None:
        self.sites = sites
        self.count = len(sites)

    def each(
        self, program: Any, given: tuple[Any, ...], own: Sequence[tuple[Any, ...]], planned: str, keep: bool
    ) -> list[Any]:
        owned = own or [()] * self.count
        return [site.perform(program, [*given, *mine], planned) for site, mine in zip(self.sites, owned, strict=True)]

    def fetch(self, kept: Sequence[Any]) -> list[Any]:
        return list(kept)

    def provide(self, plan: Any) -> None:
        for site in self.sites:
            site.provide(plan)

    def costs(self) -> list[dict[str, Any]]:
        return [site.costs() for site in self.sites]

    def restart(self, party: Endpoint) -> None:
        raise AssertionError("threads cannot be lost")


def with_workers(job: Callable[[Party], T], count: int, source: Source = dealt) -> Callable[[Party], T]:
    """Return the same job for a party that has `count` workers."""
    channels, second = [memory_pair() for _ in range(count)], [memory_pair() for _ in range(count)]

    def divided(party: Party) -> T:
        rank = party.rank
        sites = []
        for i in range(count):
            seeds, domain = (bytes([i + 1]) * 16, bytes([101 + i]) * 16), shard_domain(i, count, "the test")
            sites.append(Site(Party(rank, channels[i][rank], source(rank, second[i][rank], seeds, domain))))
        party.workers = DirectWorkers(sites)
        try:
            result = job(party)
        except BaseException:
            for pair in (*channels, *second):
                pair[rank].close()
            raise
        for site in sites:
            if close := getattr(site.party.randomness, "close", None):
                close()
        return result

    return divided
