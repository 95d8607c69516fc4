"""What both parties agree on before an exploration: its parameters and facts, floors, budgets, and the ledger's line.

Nothing is computed on shares before the line is on disk at both parties, so a run that ends early costs budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mpc.errors import DataError
from mpc.host.ledger import Ledger
from mpc.party import Party
from secure_tree.agreement.messages import Count, Names, Power, Text, exchange
from secure_tree.agreement.releases import (
    Consent,
    Refusal,
    ReleaseFacts,
    consent,
    exchange_facts,
    releases,
    write_release,
)
from secure_tree.agreement.training import pairing_id, same_names, same_rows
from secure_tree.data.bins import Counted
from secure_tree.data.categories import Dictionary, unite
from secure_tree.explore.config import ExploreConfig
from secure_tree.explore.noise import LARGEST
from secure_tree.explore.own_table import WEIGHT_BITS, OwnTable, class_of
from secure_tree.explore.precision import entropy, released_bits
from secure_tree.public.context import OwnerFacts
from secure_tree.public.exact import ceil_log2, digest


class ExploreFacts(ReleaseFacts):
    """A party's part of the public facts. exponent: of a power of two above the largest weight."""

    names: Names
    categories: dict[Text, list[Text]]
    rows: Count
    labelled: bool
    missing: bool
    periods: bool
    exponent: Power | None


@dataclass(frozen=True)
class Explored:
    """The public facts of an exploration. names: of each party, by rows those of both under party 0.

    bins: with that of missing values, if there is one. exponent: None without weights. bits: of each part that is
    released. spent: bits of earlier releases about the same labels. owners: of further rows, which `rows` also counts.
    """

    config: ExploreConfig
    run: str
    names: tuple[tuple[str, ...], tuple[str, ...]]
    categories: Dictionary
    rows: tuple[int, ...]
    label_holder: int | None
    bins: int
    periods: bool
    exponent: int | None
    bits: Mapping[str, int]
    spent: int
    rho_spent: float
    seconds: int
    owners: tuple[OwnerFacts, ...] = ()

    @property
    def every(self) -> list[tuple[int, str]]:
        """Each feature as its party and name."""
        return [(p, name) for p, own in enumerate(self.names) for name in own]

    @property
    def ordered(self) -> np.ndarray:
        """Whether the bins of each feature have an order, bool[d]."""
        return np.array([name not in self.categories for _, name in self.every], bool)

    @property
    def row_count(self) -> int:
        return sum(self.rows) if self.label_holder is None else self.rows[0]

    @property
    def bits_of_counts(self) -> int:
        """Return b such that counts, in units of weights if there are any, add up to less than 2^b."""
        noise = 0 if self.config.privacy is None else 2 * self.bins * LARGEST
        return (self.row_count + noise << (0 if self.exponent is None else WEIGHT_BITS)).bit_length()


def agree(
    party: Party,
    config: ExploreConfig,
    own: OwnTable,
    missing: bool,
    ledger: Ledger | None,
    owners: tuple[OwnerFacts, ...] = (),
) -> Explored:
    """Exchange the facts of both tables; owners have been agreed on. Raises ConfigError, DataError at both parties."""
    weights = own.labels.weights
    mine = ExploreFacts.before(
        party,
        config,
        ledger,
        names=own.names,
        categories=own.categories,
        rows=own.rows,
        labelled=own.labels.labels is not None,
        missing=missing,
        periods=own.period is not None,
        exponent=None if weights is None or not weights.size else ceil_log2(float(max(weights.max(), 1e-300))),
    )
    theirs = exchange_facts(party, "explore.facts", mine, ledger)
    return _joined(config, party.rank, mine, theirs, ledger, owners)


def _joined(
    config: ExploreConfig,
    rank: int,
    mine: ExploreFacts,
    theirs: ExploreFacts,
    ledger: Ledger | None,
    owners: tuple[OwnerFacts, ...],
) -> Explored:
    first, second = ordered = (mine, theirs) if rank == 0 else (theirs, mine)
    holder = None
    names = tuple(first.names), tuple(second.names)
    if config.partition == "horizontal":
        same_names(tuple(mine.names), tuple(theirs.names))
        names, categories = (names[0], ()), unite(first.categories, second.categories)
        if config.of_labels and not (mine.labelled and theirs.labelled):
            raise DataError("y: by rows both parties must have labels for these statistics")
    else:
        same_rows(mine.rows, theirs.rows)
        categories = {**first.categories, **second.categories}
        if (mine.labelled and theirs.labelled) or (config.of_labels and not (mine.labelled or theirs.labelled)):
            raise DataError(f"y: {'both parties have' if mine.labelled else 'neither party has'} labels")
        holder = int(second.labelled)
    if not any(names):
        raise DataError("X: there are no features")
    if mine.periods != theirs.periods and config.partition == "horizontal":
        raise DataError("period: only one party has periods")
    periods = mine.periods and theirs.periods
    if "psi" in config.statistics and config.partition == "vertical" and not periods:
        raise DataError("period must be given at both parties for psi by columns")
    counts = [n for n in (mine.rows, theirs.rows, *(owner.rows for owner in owners)) if n or not owners]
    if min(counts) < config.floors.rows:
        of_owners = "".join(f", {owner.rows} of {owner.name}" for owner in owners)
        raise DataError(
            f"each party must have at least {config.floors.rows} rows (floors.rows), got {mine.rows} here and "
            f"{theirs.rows} at the other{of_owners}"
        )
    if owners and "psi" in config.statistics and not (mine.rows or theirs.rows):
        raise DataError("psi compares the rows of the parties with those of owners, and the parties have none")
    rows = first.rows, second.rows, *(owner.rows for owner in owners)
    bins = config.bins + (mine.missing or theirs.missing)
    features = len(names[0]) + len(names[1])
    # A row of a party without weights counts 1.
    given = [f.exponent for f in ordered if f.labelled] + [owner.weight for owner in owners]
    exponent = None if given == [None] * len(given) else max(e or 0 for e in given)
    bits = released_bits(config, rows, features, bins)
    run = pairing_id(first.token, second.token)
    earlier = [each for each in releases(ledger, "explore") if each.label == config.label] if ledger else []
    spent, rho = sum(each.bits for each in earlier), sum(each.rho for each in earlier)
    return Explored(
        config, run, names, categories, rows, holder, bins, periods, exponent, bits, spent, rho, first.seconds, owners
    )


def settle(party: Party, facts: Explored, own: OwnTable, ledger: Ledger | None, nearest: int | None) -> int | None:
    """Let both parties consent to the release, and write its line; return the line's number.

    `nearest`: the fewest own rows in which an earlier release differs. Raises DataError at a party that refuses, and
    PeerFailure at the other.
    """
    config, floors, total = facts.config, facts.config.floors, sum(facts.bits.values())
    counts = class_counts(own, config) if config.of_labels else []
    budget = floors.bits * entropy(counts)
    told = {
        "class_rows": f"a class has fewer than {floors.class_rows} rows (floors.class_rows)",
        "rho": "its budget of rho would be exceeded (privacy.most)",
        "bits": "its budget of released bits would be exceeded (floors.bits)",
        "cell_rows": f"its rows differ from those of an earlier release in fewer than {floors.cell_rows} rows "
        "(floors.cell_rows)",
    }
    mine: Refusal = ""
    if counts and min(counts) < floors.class_rows:
        mine = "class_rows"
    elif counts and facts.spent + total > budget:
        mine = "bits"
        told[mine] = (
            f"the release tells up to {total} bits about the label {config.label!r} and earlier ones told "
            f"{facts.spent}, of at most {budget:.0f} (floors.bits): ask for fewer numbers"
        )
    elif counts and config.privacy and facts.rho_spent + config.privacy.rho > config.privacy.most:
        mine = "rho"
    elif nearest is not None and nearest < floors.cell_rows:
        mine = "cell_rows"
    consent(party, "explore.consent", mine, told, "release")
    if ledger is None:
        return None
    owners = {"owners": {owner.name: owner.id for owner in facts.owners}} if facts.owners else {}
    rho = config.privacy.rho if config.privacy else 0.0
    more = {"label": config.label, "rho": rho, "schema": digest(facts.names, facts.categories), "rows": facts.rows}
    return write_release(ledger, "explore", facts.run, facts.seconds, config, facts.bits, **more, **owners)


def class_counts(own: OwnTable, config: ExploreConfig) -> list[int]:
    """Return the number of a party's own rows of each class, [] without any; numbers are cut at its own quantiles.

    Raises DataError.
    """
    labels = own.labels.labels
    if labels is None or not labels.size:
        return []
    edges = cut_labels(labels, config) if config.numbers else None
    found: list[int] = np.bincount(class_of(own, edges), minlength=config.classes).tolist()
    return found


def cut_labels(labels: np.ndarray, config: ExploreConfig) -> np.ndarray:
    """Return where the classes of labels that are numbers begin at own quantiles, float32[classes]."""
    return Counted.of(labels.astype(np.float32)).spread(config.classes)


def check_classes(party: Party, config: ExploreConfig, counts: np.ndarray) -> None:
    """Raise DataError at both parties if a class of joint numbers has too few rows at one of them."""
    few = min(counts) < config.floors.class_rows
    theirs = exchange(party, "explore.classes", Consent.of(refusal="class_rows" if few else "")).refusal
    if few or theirs:
        raise DataError(
            f"{'this party' if few else 'the other party'} has fewer than {config.floors.class_rows} rows of a class "
            "(floors.class_rows) when labels are cut at joint quantiles"
        )
