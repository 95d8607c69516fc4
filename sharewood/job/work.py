"""Jobs of two connected parties: fit on tables, predict rows. Used by operators and commands."""

from __future__ import annotations

import logging
import reprlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from mpc.errors import ConfigError, DataError, PeerFailure
from mpc.host.encryption import FileKey
from mpc.party import Party
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.agreement.messages import Count, Message, Plain, Text, exchange
from secure_tree.agreement.same_rows import check_same_rows, digest_of
from secure_tree.data.contributed import Source
from secure_tree.data.table import held_count
from secure_tree.functions.links import Output
from secure_tree.model.shared_model import SharedModel
from secure_tree.owners.columns import OwnersOfColumns
from secure_tree.owners.contributing import Owners
from secure_tree.owners.lines import Line
from secure_tree.owners.stored import Stored
from secure_tree.prediction.reasons.explaining import Contributions
from secure_tree.prediction.reasons.request import Groups, Show, Toward
from secure_tree.public.bounds import NO_BOUNDS, Bounds
from secure_tree.public.config import Method, TrainConfig
from secure_tree.public.context import OwnerFacts
from secure_tree.training.checkpoint import Checkpoints
from sharewood.job.failures import told_plainly
from sharewood.report.progress import Progress, Watch
from sharewood.tables.sharded import Sharded
from sharewood.tables.tables import TableRows

log = logging.getLogger("sharewood")

# Lines to owners who wait, by name, or a folder of what they have contributed.
Given = Mapping[str, Line] | Source

EXACT_ROWS = 256
BINS_BEYOND = 64
_IN_SHARDS = "whether workers read the rows"


class JobFacts(Message):
    """The job that a party is about to do. The values in `same` must agree."""

    job: Literal["train", "predict", "tune", "collect", "explore", "monitor"]
    same: dict[Text, Plain]
    ids: bool
    rows: Count = 0
    minimum_rows: Count = 1
    missing: Annotated[list[Text], Field(default_factory=list)]


def agree(party: Party, mine: JobFacts) -> JobFacts:
    """Exchange the public facts of a job with the other party. Raises ConfigError if they do not agree."""
    theirs = exchange(party, "job.facts", mine)
    if theirs.job != mine.job:
        raise ConfigError(f"both parties must do the same job: this party must {mine.job}, the other must {theirs.job}")
    for name, value in mine.same.items():
        other = theirs.same.get(name)
        if other != value:
            raise ConfigError(f"the parties disagree on {name}: {value} here, {reprlib.repr(other)} at the other")
    return theirs


def check_minimum(mine: JobFacts, theirs: JobFacts) -> None:
    """Raise DataError if this party has fewer rows than the other demands, PeerFailure if it is the other way round."""
    if mine.rows < theirs.minimum_rows:
        raise DataError(
            f"the other party demands at least {theirs.minimum_rows} rows to train on (its minimum_rows), got "
            f"{mine.rows} at this party: bring more rows, or agree on a lower number"
        )
    if theirs.rows < mine.minimum_rows:
        raise PeerFailure(
            f"the other party must have at least {mine.minimum_rows} rows to train on (minimum_rows of this party), "
            f"got {theirs.rows}"
        )


def fit(
    party: Party,
    parameters: dict[str, Any],
    rows: TableRows | Sharded,
    validation: TableRows | None = None,
    checkpoints: Checkpoints | None = None,
    watch: Watch | None = None,
    minimum_rows: int = 1,
    before: SharedModel | None = None,
    contributed: Given | None = None,
) -> SecureXGBClassifier | SecureXGBRegressor:
    """Train on own rows with the peer, who must have `minimum_rows`, and on those of owners, if any.

    `parameters` are those of TrainConfig, public and the same at both parties.

    If `max_bin` is None, it becomes "exact" if no party trains on more than EXACT_ROWS rows and edges are private, and
    BINS_BEYOND otherwise. Features that one party's schema declares as possibly missing may be missing at both parties.
    `validation` are rows to validate the trees on, instead of a fraction of `rows`. `watch` receives the progress.
    `before`: a model to continue with `n_estimators` more rounds.
    """
    same: dict[str, Plain] = {
        "checkpoints": checkpoints is not None,
        _IN_SHARDS: isinstance(rows, Sharded),
        **of_owners(contributed or {}),
    }
    known, theirs = _agreed_parameters(party, "train", parameters, same, rows, validation, minimum_rows)
    config = TrainConfig.of(**known)
    if config.partition == "vertical":
        ids = check_ids(party, theirs, rows, validation)
        contributed = contributed and with_ids(contributed, ids)
    estimator = _kind(config)(**known)
    whole = {**known, "n_estimators": config.n_estimators + (before.rounds if before else 0)}
    progress = Progress(party, TrainConfig.of(**whole), watch, estimator.curves)
    with progress, told_plainly(lambda: progress.doing):
        estimator.fit(
            party,
            rows.features,
            rows.labels,
            rows.weights,
            eval_set=(validation.features, validation.labels) if validation else None,
            observer=progress,
            checkpoints=checkpoints,
            xgb_model=before,
            contributed=contributed,
        )
    progress.end()
    assert estimator.model is not None, "fit has set it"
    kept, best = estimator.model.rounds, dict(estimator.curve)
    if config.early_stopping_rounds:
        log.info("the model keeps %d of %d rounds, with the best %s: %.6g", kept, max(best), config.metric, best[kept])
    return estimator


def _agreed_parameters(
    party: Party,
    job: Literal["train", "collect"],
    parameters: dict[str, Any],
    same: dict[str, Plain],
    rows: TableRows | Sharded,
    validation: TableRows | None = None,
    minimum_rows: int = 1,
) -> tuple[dict[str, Any], JobFacts]:
    """Agree with the peer on a job on training rows; return its parameters, and the peer's facts.

    Raises ConfigError, DataError, PeerFailure.
    """
    known = {name: value for name, value in parameters.items() if value is not None}
    config = TrainConfig.of(**known)
    held = 0 if validation else held_count(config, len(rows.features))
    mine = len(rows.features) - held
    facts = JobFacts.of(
        job=job,
        same={**parameters, **same},
        ids=rows.has_ids,
        rows=mine,
        minimum_rows=minimum_rows,
        missing=list(rows.missing),
    )
    theirs = agree(party, facts)
    check_minimum(facts, theirs)
    if held:
        log.warning("test_size %g: %d of %d rows are held out of training", config.test_size, held, mine + held)
    if parameters.get("max_bin") is None:
        few = max(mine, theirs.rows) <= EXACT_ROWS
        known["max_bin"] = "exact" if few and config.edges == "private" else BINS_BEYOND
    if config.missing != "all" and (rows.missing or theirs.missing):
        declared = () if config.missing == "none" else config.missing
        known["missing"] = tuple(sorted({*declared, *rows.missing, *theirs.missing}))
    return known, theirs


def _kind(config: TrainConfig) -> type[SecureXGBClassifier] | type[SecureXGBRegressor]:
    return SecureXGBClassifier if config.logistic else SecureXGBRegressor


def collect(
    party: Party,
    parameters: dict[str, Any],
    rows: TableRows,
    lines: Given,
    folder: Path,
    key: FileKey | None = None,
    bounds: Bounds = NO_BOUNDS,
) -> tuple[OwnerFacts, ...]:
    """Keep what owners contribute to trainings with these parameters, as `SecureXGBClassifier.collect`."""
    same = of_owners(lines, bounds)
    known, theirs = _agreed_parameters(party, "collect", parameters, same, rows)
    config, source = TrainConfig.of(**known), lines
    if config.partition == "vertical":
        source = with_ids(lines, check_ids(party, theirs, rows))
    return _kind(config)(**known).collect(party, rows.features, rows.labels, source, folder, key, rows.weights, bounds)


def of_owners(contributed: Given, bounds: Bounds = NO_BOUNDS) -> dict[str, Plain]:
    """Return what both parties must say of owners: their names, unless some may be left out, and the bounds."""
    names: list[str] = []
    if isinstance(contributed, Owners | Stored):
        names, bounds = contributed.names, contributed.bounds
    elif isinstance(contributed, Mapping) and bounds.least is None:
        names = sorted(contributed)
    values = bounds.model_dump(mode="json", include=set(Bounds.model_fields))
    return {"owners": names, **{f"owners.{name}": value for name, value in values.items()}}


def with_ids(contributed: Given, ids: bytes | None) -> Given:
    """Return where columns of owners come from, who must have the parties' ids of rows."""
    if isinstance(contributed, Mapping):
        return OwnersOfColumns(contributed, ids)
    if isinstance(contributed, Stored):
        contributed.ids = ids
    return contributed


def predict(
    party: Party,
    model: SharedModel,
    rows: TableRows | Sharded,
    output: Output,
    method: Method = "thresholds",
    to: int | None = None,
    mac: bool = False,
    lines: Mapping[str, Line] = MappingProxyType({}),
    reasons: int = 0,
) -> np.ndarray:
    """Return margins or probabilities, float64[n], or [n, classes] for several classes; expected values for numbers.

    Horizontal: predictions of own rows. Vertical: of all rows at party `to`, by default the one with the labels, and
    none at the other party. Columns that are not features of the model are refused. With `mac`, every opened value is
    checked. `lines`: to the owners of further columns of the model. `reasons`: how many `explain` gives
    afterwards.
    """
    same = {"output": output, _IN_SHARDS: isinstance(rows, Sharded), "reasons": reasons}
    theirs = agree(party, JobFacts.of(job="predict", same=same, ids=rows.has_ids))
    contributed = None
    if model.config.partition == "vertical":
        digest = check_ids(party, theirs, rows)
        contributed = OwnersOfColumns(lines, digest) if lines else None
    estimator = _of(model)
    if not isinstance(estimator, SecureXGBClassifier):
        return estimator.predict(party, rows.features, method, to, mac=mac, contributed=contributed)
    if output == "margin":
        return estimator.predict_margin(party, rows.features, method, to, mac=mac, contributed=contributed)
    probabilities = estimator.predict_proba(party, rows.features, method, to, mac=mac, contributed=contributed)
    return probabilities if model.config.num_class else probabilities[:, 1]


def explain(
    party: Party,
    model: SharedModel,
    rows: TableRows,
    top: int,
    toward: Toward,
    groups: Groups,
    show: Show,
    method: Method,
    to: int | None,
) -> list[Any]:
    """Return the reasons of each row that `predict` has just predicted: names, as `contributions` does, or pairs of a
    name and a number.
    """
    asked: dict[str, Any] = {"groups": groups, "show": show, "toward": toward, "method": method, "to": to}
    found = _of(model).contributions(party, rows.features, top, **asked)
    return found.strongest(top, toward) if isinstance(found, Contributions) else found


def _of(model: SharedModel) -> SecureXGBClassifier | SecureXGBRegressor:
    """Return the estimator of a model."""
    estimator = _kind(model.config)(**model.config.model_dump())
    estimator.model = model
    return estimator


def check_ids(party: Party, theirs: JobFacts, *tables: TableRows | Sharded | None) -> bytes | None:
    """Check that data by columns has the same ids at both parties; workers check rows in shards when they open them.

    Return the digest of the ids, if there are any in this process.

    Raises DataError at both parties if ids differ, or if only one party has ids.
    """
    own = [table for table in tables if table is not None]
    here, there = own[0].has_ids, theirs.ids
    if here != there:
        raise DataError(
            f"{'this party' if here else 'the other'}'s table has an id column, and "
            f"{'the other' if here else 'this party'}'s has none: by columns both tables must have one, or neither"
        )
    ids = [table.ids for table in own if isinstance(table, TableRows) and table.ids is not None]
    if not ids:
        return None
    digest = digest_of(one for some in ids for one in some)
    check_same_rows(party, digest)
    return digest
