"""What both parties agree on before a monitoring: parameters, groups, floors, budgets, and the ledger's line.

Nothing is opened before the line is on disk at both parties, so a run that ends early costs budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from mpc.errors import ConfigError, DataError
from mpc.host.ledger import Ledger
from mpc.party import Party
from secure_tree.agreement.messages import Count, Hexadecimal, Message, Names, Text, exchange
from secure_tree.agreement.releases import Refusal, ReleaseFacts, consent, exchange_facts, releases, write_release
from secure_tree.agreement.training import pairing_id
from secure_tree.explore.own_rows import OwnRows
from secure_tree.explore.precision import entropy, plain_fraction
from secure_tree.monitor.config import OF_LABELS, OF_PROFILE, MonitorConfig, Statistic
from secure_tree.monitor.scores import Scored

MOST_GROUPS = 64
# Fewest rows of a party whose quantiles become public.
LEAST_BY_ROWS = 500
_DAY = 86_400
_PSI_BITS = 3


class MonitorFacts(ReleaseFacts):
    """A party's part of the public facts. groups: the names of its groups by rows, how many it has by columns."""

    pairing: Hexadecimal
    rows: tuple[Count, Count]
    labelled: bool
    groups: Names | Annotated[int, Field(ge=0, le=MOST_GROUPS)]
    profile: Hexadecimal | None


class ProfileFacts(Message):
    """A party's part of the public facts of a profile. span: as text."""

    pairing: Hexadecimal
    rows: tuple[Count, Count]
    labelled: bool
    span: tuple[Text, Text]
    token: Hexadecimal


@dataclass(frozen=True)
class Monitoring:
    """The public facts of a monitoring. groups: the names of all groups by rows, None by columns; width: how many.

    together: whether one party knows the label and the group of each row. fractions: bits behind the point of each
    number. bits: what each statistic may tell.
    """

    run: str
    groups: tuple[str, ...] | None
    width: int
    together: bool
    fractions: int
    bits: dict[Statistic, int]
    seconds: int


def agree(
    party: Party,
    config: MonitorConfig,
    scored: Scored,
    labelled: bool,
    groups: list[str],
    profile: str | None,
    features: int,
    ledger: Ledger | None,
) -> Monitoring:
    """Exchange the facts of both parties. Raises ConfigError, DataError at both."""
    vertical, layout = scored.layout.vertical, scored.layout
    if len(groups) > MOST_GROUPS:
        raise DataError(f"group must have at most {MOST_GROUPS} values, got {len(groups)}")
    mine = MonitorFacts.before(
        party,
        config,
        ledger,
        pairing=scored.pairing,
        rows=layout.rows[:2],
        labelled=labelled,
        groups=len(groups) if vertical else groups,
        profile=profile,
    )
    theirs = exchange_facts(party, "monitor.facts", mine, ledger)
    if (theirs.pairing, theirs.rows) != (mine.pairing, mine.rows):
        raise DataError("the parties monitor different models or numbers of rows")
    if theirs.profile != mine.profile:
        raise DataError("the parties have different profiles: both must bring the halves that one training has left")
    if config.asks(*OF_PROFILE) and profile is None:
        raise DataError("profile must be given for drift")
    first, second = (mine, theirs) if party.rank == 0 else (theirs, mine)
    _check_rows(config, scored, (first.labelled, second.labelled))
    names, holder = _groups(config, first.groups, second.groups)
    together = names is not None or [first, second][holder or 0].labelled
    width = len(names) if names is not None else max(len_of(first.groups), len_of(second.groups))
    n = layout.row_count
    f = plain_fraction(config.floors.digits, n)
    sizes = {name: {"features": features, "loss": width}.get(name, 1) for name in config.statistics}
    whole = {"scores": _PSI_BITS, "features": _PSI_BITS, "slope": _PSI_BITS, "loss": 10}
    bits = {name: k * (1 if config.reveal == "alarms" else f + whole.get(name, 0)) + k for name, k in sizes.items()}
    run = pairing_id(first.token, second.token)
    return Monitoring(run, names, width, together, f, bits, first.seconds)


def agree_on_profile(party: Party, scored: Scored, labelled: bool, span: tuple[float, float]) -> tuple[str, bool]:
    """Return the id of a new profile, and whether there are labels. Raises ConfigError, DataError at both."""
    mine = ProfileFacts.of(
        pairing=scored.pairing,
        rows=scored.layout.rows[:2],
        labelled=labelled,
        span=tuple(map(str, span)),
        token=party.draw(16).hex(),
    )
    theirs = exchange(party, "monitor.profile", mine)
    if theirs.span != mine.span:
        raise ConfigError(f"the parties disagree on span: {span} here, {' and '.join(theirs.span):.60} at the other")
    labels = [mine.labelled, theirs.labelled]
    if scored.layout.vertical and all(labels):
        raise DataError("y: both parties have labels")
    if not scored.layout.vertical and labels[0] != labels[1]:
        raise DataError("y: only one party has labels")
    if not scored.layout.vertical and min(scored.layout.rows) < LEAST_BY_ROWS:
        raise DataError(
            f"a profile by rows needs at least {LEAST_BY_ROWS} rows of each party, since its quantiles become public, "
            f"got {' and '.join(map(str, scored.layout.rows))}"
        )
    return pairing_id(*((mine.token, theirs.token) if party.rank == 0 else (theirs.token, mine.token))), any(labels)


def _check_rows(config: MonitorConfig, scored: Scored, labelled: tuple[bool, bool]) -> None:
    layout, least = scored.layout, config.floors.rows
    if min(layout.rows[:2]) < least:
        raise DataError(
            f"each party must have at least {least} rows (floors.rows), got {' and '.join(map(str, layout.rows[:2]))}"
        )
    if config.of_labels and not (any(labelled) if layout.vertical else all(labelled)):
        which = next(s for s in config.statistics if s in OF_LABELS)
        raise DataError(f"y must be given {'at one party' if layout.vertical else 'at both parties'} for {which}")
    if layout.vertical and all(labelled):
        raise DataError("y: both parties have labels")


def len_of(groups: list[str] | int) -> int:
    return groups if isinstance(groups, int) else len(groups)


def _groups(
    config: MonitorConfig, first: list[str] | int, second: list[str] | int
) -> tuple[tuple[str, ...] | None, int | None]:
    """Return the names of all groups by rows, or by columns the party that has them."""
    both = len_of(first), len_of(second)
    if isinstance(first, int) or isinstance(second, int):
        if any(both) and all(both):
            raise DataError("group: by columns only one party must have the groups, got both")
        names, count = None, max(both)
    else:
        names = tuple(sorted({*first, *second}))
        count = len(names)
    if config.asks("parity", "odds", "calibration", "loss") and count < 2:
        raise DataError(f"group must be given, with at least two values, got {count}")
    if count > MOST_GROUPS:
        raise DataError(f"group must have at most {MOST_GROUPS} values, got {count}")
    return names, None if names is not None else int(both[1] > 0)


def settle(
    party: Party,
    config: MonitorConfig,
    facts: Monitoring,
    scored: Scored,
    classes: list[int],
    ledger: Ledger | None,
    rows: OwnRows | None,
    hashes: np.ndarray | None,
) -> int | None:
    """Let both parties consent to the release, and write its line; return the line's number.

    classes: this party's rows of each class, [] without labels. Raises DataError at a party that refuses, and
    PeerFailure at the other.
    """
    floors, total, spent, recent = config.floors, sum(facts.bits.values()), 0, False
    nearest = None
    if ledger and rows and hashes is not None:
        past = {str(line.number): line for line in releases(ledger, "monitor")}
        for name in rows.overlapping(hashes):
            if (line := past.get(name)) is None:
                continue
            spent += line.bits if line.label == config.label else 0
            recent |= facts.seconds < line.seconds + config.every * _DAY
        nearest = rows.nearest(hashes)
    told = {
        "class_rows": f"a class has fewer than {floors.class_rows} rows (floors.class_rows)",
        "every": f"some of its rows were monitored less than {config.every:g} days ago (every)",
        "cell_rows": f"its rows differ from those of an earlier monitoring in fewer than {floors.cell_rows} rows "
        "(floors.cell_rows)",
        "bits": "its budget of released bits would be exceeded (floors.bits)",
    }
    mine: Refusal = ""
    if classes and config.of_labels and min(classes) < floors.class_rows:
        mine = "class_rows"
    elif recent:
        mine = "every"
    elif nearest is not None and nearest < floors.cell_rows:
        mine = "cell_rows"
    elif classes and config.of_labels and spent + total > floors.bits * entropy(classes):
        mine = "bits"
    consent(party, "monitor.consent", mine, told, "monitoring")
    if ledger is None:
        return None
    if rows and hashes is not None:
        rows.add(hashes, str(len(ledger.lines)))
    more = {"label": config.label, "rho": 0.0, "model": scored.pairing, "rows": scored.layout.rows[:2]}
    return write_release(ledger, "monitor", facts.run, facts.seconds, config, facts.bits, **more)
