"""`sharewood plan`: correlated randomness, rounds, bytes, and the network time for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, field, replace

from mpc.comparison.comparison_keys import nodes
from mpc.planning import Demand
from protocols.offline.pairwise.client import MOST, PORTION, count_transfers
from protocols.offline.pairwise.cost import TransferCost, transfers_of
from protocols.offline.sizes import dealt_bytes, portions
from protocols.ot.correlated import COT_BITS, OtKind
from protocols.runtime.relay import Lines
from secure_tree.public.config import TrainConfig
from secure_tree.training.cost import Sizes, plan_training
from sharewood.cost.calibration import Computing
from sharewood.report.figures import IN_PLACE, Figures

# Round trip in seconds, bits per second in each direction.
Networks = Mapping[str, tuple[float, float]]
NETWORKS: Networks = {"LAN": (0.5e-3, 1e9), "WAN": (40e-3, 100e6)}
FRAME_BYTES = 90


OWN_LINK = "your line"
# By network and phase.
Seconds = dict[str, dict[str, float]]


@dataclass(frozen=True)
class PlannedTables(Figures):
    """Rows and features of each party."""

    rows: list[int]
    features: list[int]


@dataclass(frozen=True)
class DealtBytes(Figures):
    """Bytes by kind of correlation and party; `key_nodes` are the nodes of all comparison keys."""

    bytes_by_kind: dict[str, dict[str, int]]
    bytes_dealer: int
    key_nodes: int


@dataclass(frozen=True)
class Exchanged(Figures):
    """Rounds, and bytes in both directions, of a training and of its set-up."""

    rounds: int
    bytes: int
    setup_rounds: int
    setup_bytes: int


@dataclass(frozen=True)
class Times(Figures):
    """Seconds of computation by phase, and in total with the network.

    `totals` are those of a whole training, which begins to deal or to make material before it grows trees and continues
    beside it: by network, with one line per host or with a line per pair of hosts (protocols/runtime/relay.py).
    """

    computing_seconds: dict[str, float]
    seconds: Seconds
    totals: dict[str, dict[Lines, float]]


@dataclass(frozen=True)
class Paired(Figures):
    """A training without a dealer: oblivious transfers, rounds and bytes in both directions offline, and the online
    cost.

    Seconds are as in Plan.
    """

    transfers: int
    rounds: int
    bytes: int
    online: Exchanged
    network_seconds: Seconds
    times: Times | None = field(default=None, metadata=IN_PLACE)


@dataclass(frozen=True)
class TrainingPlan(Figures):
    """The cost of a training with a dealer and, in `pairwise`, without one (None if it needs a dealer).

    `times` is present if computation was measured.
    """

    data: PlannedTables
    config: TrainConfig
    offline: DealtBytes
    online: Exchanged
    network_seconds: Seconds
    pairwise: Paired
    times: Times | None = field(default=None, metadata=IN_PLACE)


@dataclass
class _Phase:
    """Rounds, payload bytes in each direction, and bytes from the dealer to both parties."""

    rounds: int = 0
    sent: int = 0
    received: int = 0
    # Of these, the bytes of the busier direction of each round, in sum.
    busiest: int = 0
    dealt: int = 0
    # Bytes from the dealer to the party that is dealt more.
    dealt_to_one: int = 0

    def add(self, demand: Demand, dealt: tuple[int, int] = (0, 0), busiest: int | None = None) -> None:
        self.rounds += demand.times * demand.rounds
        self.sent += demand.times * demand.sent
        self.received += demand.times * demand.received
        self.busiest += demand.times * (max(demand.sent, demand.received) if busiest is None else busiest)
        self.dealt += demand.times * sum(dealt)
        self.dealt_to_one += demand.times * max(dealt)

    @property
    def bytes(self) -> int:
        """Return the bytes on the wire between the parties, in both directions."""
        return self.sent + self.received + 2 * self.rounds * FRAME_BYTES

    def without(self, part: _Phase) -> _Phase:
        return _Phase(*(a - b for a, b in zip(astuple(self), astuple(part), strict=True)))

    def talking(self, round_trip: float, rate: float) -> float:
        """Return seconds. Both parties send at the same time, so a round takes half a round trip."""
        return self.rounds * round_trip / 2 + self.sending(rate)

    def sending(self, rate: float) -> float:
        """Return the seconds of a line for the bytes between the parties."""
        return 8 * (self.busiest + self.rounds * FRAME_BYTES) / rate

    def dealing(self, round_trip: float, rate: float) -> float:
        """Return seconds. The dealer has one uplink, and sends to the parties in turn."""
        return 8 * self.dealt / rate + round_trip


def plan_pairwise(
    config: TrainConfig,
    sizes: Sizes,
    ot: OtKind,
    computing: Computing | None = None,
    networks: Networks = NETWORKS,
) -> Paired:
    """Plan the same training without a dealer."""
    online, offline, first, first_ahead = _Phase(), _Phase(), _Phase(), _Phase()
    transfers, kept = 0, set[int]()
    for demand in _first_apart(plan_training(config, sizes, dealer=False)):
        made = TransferCost()
        for portion in portions([(demand.requests, 1)], PORTION, MOST, count_transfers):
            made = made.after(transfers_of(portion.requests, kept))
        count = sum(made.transfers)
        transfers += demand.times * count
        extension = round(count * COT_BITS[ot] / 16)
        sent, received = (extension + bits // 8 for bits in made.bits)
        busiest = extension + made.busiest // 8
        ahead = replace(demand, rounds=2 * made.waves, sent=sent, received=received)
        if demand.step == "set-up":
            first.add(demand)
            first_ahead.add(ahead, busiest=busiest)
        online.add(demand)
        offline.add(ahead, busiest=busiest)
    seconds = {
        name: {
            "setup": first.talking(*network) + first_ahead.talking(*network),
            "offline": offline.without(first_ahead).talking(*network),
            "online": online.without(first).talking(*network),
        }
        for name, network in networks.items()
    }
    return Paired(
        transfers,
        offline.rounds,
        offline.bytes,
        Exchanged(online.rounds, online.bytes, first.rounds, first.bytes),
        seconds,
        _paired_times(seconds, computing, config.n_estimators) if computing else None,
    )


def _first_apart(demands: list[Demand]) -> Iterator[Demand]:
    """Attribute material that is made once for a fixed matrix to the first of equal rounds."""
    for demand in demands:
        yield replace(demand, times=1)
        if demand.times > 1:
            yield replace(demand, times=demand.times - 1)


def plan(
    config: TrainConfig,
    sizes: Sizes,
    computing: Computing | None = None,
    pairwise: Computing | None = None,
    ot: OtKind = "ferret",
    networks: Networks = NETWORKS,
) -> TrainingPlan:
    """Plan dealt bytes by kind and party, total rounds and wire bytes, and seconds by phase and network.

    Phases are those of the meter: set-up with its dealing, offline, online. `computing` adds computation: online, a
    party waits for every message before it continues, so the times add up; offline, the dealer computes a batch while
    the last one is in transit, so the longer time counts. `key_nodes` are the nodes of all comparison keys. FRAME_BYTES
    is a frame's header, its tag and its TLS record; larger messages have more records, which add 0.15%.
    """
    by_kind: dict[str, Counter[str]] = {}
    total, first, keyed = _Phase(), _Phase(), 0
    for demand in plan_training(config, sizes):
        dealt = [0, 0]
        keyed += demand.times * sum(map(nodes, demand.requests))
        for kind, (to_first, to_second) in dealt_bytes(demand.requests).items():
            both = by_kind.setdefault(kind, Counter())
            both.update(party_0=demand.times * to_first, party_1=demand.times * to_second)
            dealt = [dealt[0] + to_first, dealt[1] + to_second]
        for phase in (total, first) if demand.step == "set-up" else (total,):
            phase.add(demand, (dealt[0], dealt[1]))
    later = total.without(first)
    seconds = {
        name: {
            "setup": first.dealing(*network) + first.talking(*network),
            "offline": later.dealing(*network),
            "online": later.talking(*network),
        }
        for name, network in networks.items()
    }
    return TrainingPlan(
        PlannedTables(list(sizes.rows), [len(names) for names in sizes.names]),
        config,
        DealtBytes({kind: dict(count) for kind, count in by_kind.items()}, total.dealt, keyed),
        Exchanged(total.rounds, total.bytes, first.rounds, first.bytes),
        seconds,
        plan_pairwise(config, sizes, ot, pairwise, networks),
        _dealt_times(seconds, later, computing, config.n_estimators, networks) if computing else None,
    )


def _dealt_times(waiting: Seconds, later: _Phase, computing: Computing, trees: int, networks: Networks) -> Times:
    """Return the times with a dealer, who computes a portion while the last one is in transit.

    With one line per host, the dealer's line carries what it sends to both parties, and the line of the party that is
    dealt more also carries the online messages, which share it with the dealer's stream, spread over the online phase.
    """
    computed = _computed(computing, trees)
    seconds = {
        name: {p: max(spent, computed[p]) if p == "offline" else spent + computed[p] for p, spent in phases.items()}
        for name, phases in waiting.items()
    }
    totals: dict[str, dict[Lines, float]] = {}
    for name, (_, rate) in networks.items():
        setup, online = (seconds[name][phase] for phase in ("setup", "online"))
        dealing, to_one, sending = 8 * later.dealt / rate, 8 * later.dealt_to_one / rate, later.sending(rate)
        shared = online + sending * min(1.0, to_one / online)
        begin = computing.start + setup
        totals[name] = {
            "host": begin + max(shared, computed["offline"], dealing, to_one + sending),
            "pair": begin + max(online, computed["offline"], to_one),
        }
    return Times(computed, seconds, totals)


def _paired_times(waiting: Seconds, computing: Computing, trees: int) -> Times:
    """Return the times of two parties: half of a portion computes while the other half is in transit.

    So two programs use two resources in turns, the line and the processor: by mean value analysis, this takes between
    the longer of the two and their sum. The two hosts are the only pair, so that both kinds of lines are the same.
    """
    computed = _computed(computing, trees)
    seconds = {name: {p: spent + computed[p] for p, spent in phases.items()} for name, phases in waiting.items()}
    totals: dict[str, dict[Lines, float]] = {}
    for name, phases in seconds.items():
        waited, own, both = waiting[name]["offline"], computed["offline"], phases["offline"]
        phases["offline"] = both - waited * own / both if both else 0.0
        total = computing.start + phases["setup"] + max(phases["offline"], phases["online"])
        totals[name] = {"host": total, "pair": total}
    return Times(computed, seconds, totals)


def _computed(computing: Computing, trees: int) -> dict[str, float]:
    times = {"setup": 1, "offline": trees, "online": trees}
    return {phase: count * getattr(computing, phase) for phase, count in times.items()}
