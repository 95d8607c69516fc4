"""Monitor a model in use: drift, calibration and fairness of its predictions, of which only what is asked is revealed.

All statistics of one call share the predicted margins, their comparisons and their bins.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mpc.comparison.comparison import below
from mpc.errors import ConfigError, DataError
from mpc.functions.sigmoid import sigmoid
from mpc.host.encryption import FileKey
from mpc.host.ledger import Ledger
from mpc.party import Party
from mpc.planning import planned
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, stack
from secure_tree.data.inputs import ColumnLike, TableLike
from secure_tree.explore.own_rows import OwnRows
from secure_tree.functions.metrics import clip, logloss
from secure_tree.model.shared_model import SharedModel
from secure_tree.model.storage import write_json
from secure_tree.monitor.agreement import agree, settle
from secure_tree.monitor.calibration import calibration_error, class_counts, curves, slope
from secure_tree.monitor.config import FAIRNESS, OF_GROUPS, OF_PROFILE, MonitorConfig, Statistic
from secure_tree.monitor.drift import drift as stability
from secure_tree.monitor.fairness import fairness as between_groups
from secure_tree.monitor.known import PROBABILITY, Known, own_groups, own_labels
from secure_tree.monitor.numbers import Number, reveal_numbers
from secure_tree.monitor.profile import STAGE, Profile
from secure_tree.monitor.scores import COARSE, FINE, Scored, bins, counts, ends, merged, monitored_model, score
from secure_tree.public.exact import ln
from secure_tree.public.numerics import MARGIN_SCALE


@dataclass(frozen=True)
class Monitored:
    """What was revealed to both parties. groups: the names of all groups by rows, of its own at their party by columns,
    otherwise ().

    numbers: each statistic, float64[k], NaN where too few rows have it; with `reveal="alarms"` 1 for an alarm and 0 for
    none. features: the names behind `features`. resolution: that of the numbers. bits: what each may tell, spent here.
    """

    run: str
    config: MonitorConfig
    rows: tuple[int, ...]
    groups: tuple[str, ...]
    features: tuple[str, ...]
    numbers: dict[Statistic, np.ndarray]
    resolution: float
    bits: dict[Statistic, int]
    ledger: int | None
    revealed: list[str]

    def __getitem__(self, name: Statistic) -> float | dict[str, float]:
        """Return a statistic: a number, or of features and groups one by name."""
        values = self.numbers[name]
        if name in ("features", "loss"):
            names = self.features if name == "features" else self.groups or tuple(map(str, range(len(values))))
            return dict(zip(names, values.tolist(), strict=True))
        return float(values[0])

    def document(self) -> dict[str, Any]:
        """Return the statistics as plain values, None where they are not defined."""

        def plain(value: float | dict[str, float]) -> Any:
            if isinstance(value, dict):
                return {name: plain(each) for name, each in value.items()}
            return None if math.isnan(value) else value

        return {name: plain(self[name]) for name in self.numbers}

    def save(self, path: str | Path) -> None:
        """Write the statistics, and what they are of, as JSON. Raises DataError."""
        write_json(
            path,
            {
                "run": self.run,
                "rows": self.rows,
                "statistics": self.document(),
                "alarms": self.alarms,
                "resolution": self.resolution,
                "bits": self.bits,
                "ledger": self.ledger,
                "config": self.config.model_dump(),
            },
        )

    @property
    def alarms(self) -> list[Statistic]:
        """The statistics with an alarm, if alarms were revealed."""
        if self.config.reveal == "numbers":
            return []
        return [name for name, values in self.numbers.items() if (values == 1).any()]


def monitor(
    party: Party,
    model: Any,
    X: TableLike | Scored,
    y: ColumnLike | None = None,
    *,
    group: ColumnLike | None = None,
    profile: Profile | None = None,
    ids: ColumnLike | None = None,
    ledger: str | Path | None = None,
    key: FileKey | None = None,
    **parameters: Any,
) -> Monitored:
    """Reveal statistics of a model's predictions, to both parties, who must call this at the same time.

    Public are also row counts, by rows the names of the groups and by columns how many there are, whether a statistic
    has enough rows, and whether a floor or a budget refuses. Stages of the meter: predict_offline, predict,
    monitor_offline, monitor.

    Parameters
    ----------
    party : Party
        The connection to the other party.
    model : estimator, SharedModel or path
        This party's half of a model of two classes.
    X : array [n, d], DataFrame or Scored
        This party's part of the rows, as in a prediction; or rows that were scored before, by `score`.
    y : array [n], optional
        Labels 0 and 1. By columns at one party.
    group : array [n], optional
        The protected attribute, by columns at one party. A row without a value is in no group. It may be given by rows
        at one party only, and then its rows count.
    profile : Profile, optional
        This party's half of what `make_profile` has counted.
    ids : array [n], optional
        An id for each row, by which the ledger recognises rows; required with a ledger.
    ledger : path, optional
        This party's ledger of releases, which both parties must keep, or neither. With it, rows are monitored at most
        once in `every` days, and not again with a few rows more or less.
    key : FileKey, optional
        Encrypts the hashes of this party's rows beside the ledger.
    parameters
        As of `MonitorConfig`, such as `statistics`, `reveal` and `cut`.

    Raises
    ------
    ConfigError
        If parameters are invalid, or differ between the parties.
    DataError
        If a table is invalid, or if this party refuses the release: below a floor, or beyond its budget.
    PeerFailure
        If the other party refuses, or the connection fails.
    """
    config, half = MonitorConfig.of(**parameters), monitored_model(model)
    scored = X if isinstance(X, Scored) else score(party, half, X, config.method)
    if scored.pairing != half.facts.pairing:
        raise DataError("the rows were scored by another model")
    if config.asks("features") and scored.features is None:
        raise ConfigError("features must be left out of statistics where only scores of rows were kept")
    own = scored.layout.rows[party.rank]
    labels, (places, names) = own_labels(y, own), own_groups(group, own)
    if profile is not None:
        if profile.pairing != half.facts.pairing or profile.rank != party.rank:
            raise DataError("the profile is that of another model, or of the other party")
        if profile.span != config.span and config.asks("scores", "auc", "ks"):
            raise ConfigError(f"span must be that of the profile, {profile.span}, got {config.span}")
        if config.reveal == "alarms" and config.asks("auc", "ks") and not profile.labelled:
            raise DataError("alarms of auc and ks need a profile that was made with labels")
    elif config.reveal == "alarms" and config.asks("auc", "ks"):
        raise ConfigError("profile must be given for alarms of auc and ks, which are those of a decrease")
    kept, rows, hashes = Ledger(ledger) if ledger is not None else None, None, None
    if kept is not None:
        if ids is None or len(np.asarray(ids)) != own:
            raise ConfigError(f"ids must be given with a ledger, one for each of the {own} rows")
        rows = OwnRows(kept.path.with_name(kept.path.name + ".monitor"), key)
        hashes = rows.of_ids(np.asarray(ids))
    classes = [] if labels is None else [int((labels == c).sum()) for c in (0, 1)]
    of_profile, features = profile.id if profile else None, len(half.facts.names)
    with kept.turn(party.rank) if kept else nullcontext():
        facts = agree(party, config, scored, labels is not None, names, of_profile, features, kept)
        number = settle(party, config, facts, scored, classes, kept, rows, hashes)
    if facts.groups is not None and places is not None:
        every = np.array([facts.groups.index(name) for name in names] + [-1])
        places = every[places]
    known = Known.of(party.rank, scored, labels, places, facts.width, facts.together)
    now = None if scored.features is None or profile is None else profile.count(scored.features)
    before = len(party.revealed)

    def program(party: Party) -> dict[Statistic, np.ndarray]:
        found = party.run(computed(party, config, scored, known, profile, now))
        return reveal_numbers(party, found, config.reveal == "alarms", facts.fractions)

    found = planned(party, STAGE, program, offline=f"{STAGE}_offline")
    return Monitored(
        run=facts.run,
        config=config,
        rows=scored.layout.rows[:2],
        groups=facts.groups or tuple(names),
        features=_distinct(half),
        numbers={name: found[name] for name in config.statistics},
        resolution=2.0**-facts.fractions,
        bits=facts.bits,
        ledger=number,
        revealed=list(dict.fromkeys(party.revealed[before:])),
    )


def _distinct(half: SharedModel) -> tuple[str, ...]:
    """Return the names of all features, with the number of their party if both parties have one of the same name."""
    names, layout = half.facts.names, half.facts.layout
    if len(set(names)) == len(names):
        return names
    return tuple(f"{p}: {name}" for p in (0, 1) for name in names[layout.features_of(p)])


def computed(
    party: Party, config: MonitorConfig, scored: Scored, known: Known, profile: Profile | None, now: np.ndarray | None
) -> Steps[list[Number]]:
    """Compute the statistics that are asked for, on shares. now: counts of own features by the bins of the profile."""
    margin, n = scored.margin, scored.layout.row_count
    # The least margin, in units, of a probability of at least the cut.
    cut = math.ceil(ln(config.cut / (1 - config.cut)) * (1 << MARGIN_SCALE))
    first: list[Steps[Any]] = [below.steps(party, margin, [*ends(config.span), cut], scored.bits)]
    of_probabilities = config.asks("ece", "slope", "calibration")
    if of_probabilities:
        first.append(sigmoid.steps(party, margin, PROBABILITY, bits=scored.bits))
    if config.asks("loss"):
        first.append(_losses(party, scored, known))
    low, *others = yield from parallel(*first)
    p = others.pop(0)[0] if of_probabilities else None
    loss = others.pop(0) if others else None
    steps: list[Steps[list[Number]]] = []
    if config.asks(*OF_GROUPS):
        of_groups = p if config.asks("calibration") else None
        steps.append(between_groups(party, config, known, ~low[:, 2], of_groups, loss))
    if config.asks("scores", "auc", "ks", "ece"):
        steps.append(_of_bins(party, config, scored, low[:, :2], known, p, profile))
    if config.asks("slope") and p is not None:
        steps.append(slope(party, config, known.labels, known.positives, p))
    if config.asks("features") and profile is not None and now is not None:
        both = stack([_placed(scored, each, party.rank) for each in (now, profile.features)])
        steps.append(stability(party, config, "features", both[0], both[1], max(n, profile.rows)))
    return [number for found in (yield from parallel(*steps)) for number in found]


def _losses(party: Party, scored: Scored, known: Known) -> Steps[AShare]:
    """Return [logarithmic loss] of each row at MARGIN_SCALE."""
    clipped = yield from clip(party, scored.margin, scored.bits)
    return (yield from logloss(party, clipped, known.numbers))


def _of_bins(
    party: Party,
    config: MonitorConfig,
    scored: Scored,
    below_ends: Any,
    known: Known,
    p: AShare | None,
    profile: Profile | None,
) -> Steps[list[Number]]:
    """Compute the statistics of the bins of margins."""
    n, count = scored.layout.row_count, FINE if config.asks("auc", "ks") else COARSE
    hot = yield from bins(party, scored.margin, below_ends, config.span, count)
    if config.asks("auc", "ks", "ece"):
        counted = yield from class_counts(party, hot, known.labels)
    else:
        every = yield from counts(party, hot)
        counted = stack([every - every, every])
    coarse = counted.reshape(2, COARSE, -1).sum(axis=2)
    steps, most = [], max(n, profile.rows if profile else 0)
    if config.asks("auc", "ks"):
        then = profile.scores if profile is not None and profile.labelled else None
        steps.append(curves(party, config, counted, most, then))
    if config.asks("ece") and p is not None:
        steps.append(calibration_error(party, config, merged(hot, COARSE), coarse, p))
    if config.asks("scores") and profile is not None:
        then = profile.scores[1].reshape(1, COARSE, -1).sum(axis=2)
        steps.append(stability(party, config, "scores", coarse[1:], then, most))
    return [number for found in (yield from parallel(*steps)) for number in found]


def _placed(scored: Scored, own: np.ndarray, rank: int) -> AShare:
    """Return counts of own features, uint64[d, k], as [counts] of the features of both parties."""
    layout = scored.layout
    every = np.zeros((layout.feature_count, own.shape[1]), np.uint64)
    every[layout.features_of(rank)] = own
    return AShare(every, rank)


def fairness(party: Party, model: Any, X: TableLike | Scored, y: ColumnLike | None = None, **given: Any) -> Monitored:
    """Reveal how differently a model treats groups that one party knows: `monitor` of `parity`, `odds`, `calibration`.

    Arguments and errors as of `monitor`.
    """
    return monitor(party, model, X, y, **{"statistics": FAIRNESS, **given})


def drift(party: Party, model: Any, X: TableLike | Scored, profile: Profile | None, **given: Any) -> Monitored:
    """Reveal how far scores and features are from those of the profile: `monitor` of `scores` and `features`.

    Arguments and errors as of `monitor`.
    """
    return monitor(party, model, X, profile=profile, **{"statistics": OF_PROFILE, **given})
