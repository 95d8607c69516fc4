"""Parts of reports. A report is a dataclass: JSON has its fields as keys, and pages and tables read them."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from mpc.meter import Stage
from sharewood import __version__
from sharewood.report.digests import keyed_digests

# A metric is undefined (None) if it needs two classes and only one is present.
Measures = dict[str, float | None]
MEASURES = {
    "auc": "AUC",
    "accuracy": "accuracy",
    "logloss": "log loss",
    "error": "error rate",
    "rmse": "root mean squared error",
    "mae": "mean absolute error",
    "poisson_nloglik": "Poisson loss",
    "deviance": "mean deviance",
    "gamma-deviance": "gamma deviance",
    "gamma-nloglik": "gamma loss",
    "tweedie-nloglik": "Tweedie loss",
    "mphe": "pseudo-Huber loss",
    "f1": "F1",
    "auprc": "AUPRC",
    "aucpr": "AUPRC",
    "ks": "KS statistic",
    "gini": "Gini coefficient",
    "calibration": "calibration error",
    "tp": "true positives",
    "fp": "false positives",
    "fn": "false negatives",
    "tn": "true negatives",
}


# For `field(metadata=IN_PLACE)`: in JSON, the keys of the field's value replace its name.
IN_PLACE = {"in place": True}


class Figures:
    """A dataclass of figures."""

    def document(self) -> dict[str, Any]:
        """Return the fields as a JSON object, without those that are None by default."""
        found: dict[str, Any] = {}
        for f in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            value = _plain(getattr(self, f.name))
            if f.metadata == IN_PLACE:
                found |= value or {}
            elif value is not None or f.default is not None:
                found[f.name] = value
        return found


def _plain(value: Any) -> Any:
    if isinstance(value, Figures):
        return value.document()
    if isinstance(value, BaseModel):
        return value.model_dump()
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class InputFiles:
    """Names and keyed digests of the files that a run will read, by role."""

    files: dict[str, str]
    digests: dict[str, str]

    @classmethod
    def of(cls, **files: Path | None) -> InputFiles:
        """Compute them; None means no file of that role. Raises DataError."""
        return cls({role: path.name for role, path in files.items() if path}, keyed_digests(**files))


@dataclass(frozen=True)
class Run(Figures):
    """Date and version of a run, random ids of the run and of the model, and the run's files by role.

    Files have their names, and keyed digests of their contents (sharewood/report/digests.py).
    """

    date: str
    version: str
    id: str
    files: dict[str, str]
    digests: dict[str, str]
    run: str

    @classmethod
    def now(cls, pairing: str, read: InputFiles | None = None, **written: Path | None) -> Run:
        """Describe a run of this minute and version, with the files that it has `read` and written, or None by role."""
        read = read or InputFiles({}, {})
        files = read.files | {role: path.name for role, path in written.items() if path}
        digests = read.digests | keyed_digests(**written)
        date = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(date, __version__, pairing, files, digests, secrets.token_hex(8))


@dataclass(frozen=True)
class Phase(Figures):
    """Seconds of wall clock, rounds, bytes between the parties in both directions, and bytes from the dealer.

    `bytes_dealt` is None if the bytes from the dealer are counted elsewhere.
    """

    seconds: float
    rounds: float
    bytes: float
    bytes_dealt: float | None = None

    @classmethod
    def of_party(cls, stage: Stage) -> Phase:
        """Return the costs as one party measured them."""
        return cls(stage.seconds, stage.rounds, stage.bytes_sent + stage.bytes_received, stage.bytes_dealt)

    def per(self, count: int) -> Phase:
        """Return the mean over `count` units."""
        dealt = None if self.bytes_dealt is None else self.bytes_dealt / count
        return Phase(self.seconds / count, self.rounds / count, self.bytes / count, dealt)


@dataclass(frozen=True)
class OfflinePhase(Phase):
    """Dealing, which is independent of the data and runs beside the training: seconds of work of each thread."""

    def document(self) -> dict[str, Any]:
        return {**super().document(), "bytes_dealer": self.bytes_dealt, "bytes_parties": self.bytes}


@dataclass(frozen=True)
class OnlinePhase(Phase):
    """Training of `trees` rounds of trees, or of an unknown number."""

    trees: int | None = None

    @property
    def per_tree(self) -> Phase:
        """One round of trees."""
        assert self.trees is not None, "their number is known"
        return self.per(self.trees)

    def document(self) -> dict[str, Any]:
        figures = super().document()
        if figures.pop("trees", None):
            each = self.per_tree
            figures |= {"seconds_per_tree": each.seconds, "rounds_per_tree": each.rounds, "bytes_per_tree": each.bytes}
        return figures


@dataclass(frozen=True)
class Prediction(Phase):
    """Prediction of a number of rows."""

    rows: int = 0


@dataclass(frozen=True)
class Quality(Figures):
    """Metrics of a model and of its comparison, which is None if XGBoost is not installed."""

    own: Measures = field(metadata=IN_PLACE)
    xgboost: Measures
    mean_of_margins: Measures | None = None


def merge_texts(texts: list[str]) -> list[str]:
    """Merge equal texts, and texts that differ in one number into one text with all the numbers."""
    groups: dict[str, list[str]] = {}
    for text in dict.fromkeys(texts):
        numbers = re.findall(r"\d+", text)
        form = text.replace(numbers[0], "\0", 1) if len(numbers) == 1 else text
        groups.setdefault(form, []).extend(numbers[:1])
    return [form.replace("\0", ", ".join(numbers)) for form, numbers in groups.items()]
