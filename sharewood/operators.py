"""The operators of PETML: `XGBoostClassifierFit(party).run(config)` and its three siblings.

A configuration has a section `common` and one per party; a party's effective configuration is `common` overlaid by its
own section. Party 0 is the first by name. Parameters, defaults and file types are PETML's; `max_bin`, `edges`,
`offline`, `ot`, `audit`, `dealer` and `tls` (a folder as `sharewood keygen` writes it) are Sharewood's own. If no
dealer is named and `offline` is not set, parties on different hosts make their correlated randomness themselves, and on
one machine a dealer is started for them. `base_score` and `eval_threshold` are margins under `logitraw`, which predicts
margins; under `logistic`, which predicts probabilities, the base margin is 0 and `eval_threshold` a probability.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import Field

from mpc.errors import ConfigError, DataError
from mpc.party import Party
from protocols.ot.correlated import OtKind
from protocols.runtime.hosts import Network, parse_address, run_party
from protocols.runtime.loopback import is_loopback, loopback_credentials, loopback_dealer
from protocols.runtime.settings import Maker, Offline
from protocols.transport.certificates import Credentials
from secure_tree.functions.links import Output
from secure_tree.model.shared_model import SharedModel
from secure_tree.model.storage import from_document, read_sealed_json, reading, to_document, write_sealed_json
from secure_tree.public.config import Edges, TrainConfig, validated
from sharewood.job.apart import check_apart
from sharewood.job.sections import Strict
from sharewood.job.work import fit, predict
from sharewood.tables.columns import Columns
from sharewood.tables.files import writable
from sharewood.tables.tables import check_classes, read_rows, read_table, write_predictions

DEALER = "dealer"
_WHAT = "model file of an operator"
T = TypeVar("T")


class _Place(Strict):
    address: str | list[str] = Field(min_length=1)


class _Common(Strict):
    """Parameters of all four operators."""

    parties: dict[str, _Place]
    network_mode: Literal["petnet"] = "petnet"
    network_scheme: Literal["socket"] = "socket"
    offline: Maker | None = None
    ot: OtKind = "ferret"
    audit: bool = False
    dealer: str | None = None
    tls: Path | None = None


class _FitFiles(Strict):
    train_data: Path


class _FitOutputs(Strict):
    model_path: Path


class _FitConfig(_Common):
    inputs: _FitFiles
    outputs: _FitOutputs
    label_name: str = "label"
    min_split_loss: float = 1e-5
    learning_rate: float = 0.1
    n_estimators: int = 100
    base_score: float = 0.5
    max_depth: int = 3
    reg_alpha: float = 0.0
    reg_lambda: float = 1.0
    min_child_samples: int = 1
    test_size: float = Field(0.3, ge=0, lt=1)
    eval_epochs: int = Field(10, ge=1)
    eval_threshold: float = 0.5
    max_bin: int | Literal["exact"] | None = None
    edges: Edges = "private"


class _ClassifierConfig(_FitConfig):
    min_child_weight: float = 0.5
    objective: Literal["logitraw", "logistic"] = "logitraw"


class _RegressorConfig(_FitConfig):
    min_child_weight: float = 1.0
    objective: Literal["squarederror"] = "squarederror"


class _PredictFiles(Strict):
    predict_data: Path
    model_path: Path


class _PredictOutputs(Strict):
    inference_res_path: Path


class _PredictConfig(_Common):
    inputs: _PredictFiles
    outputs: _PredictOutputs


class _Operator:
    """One party's side of a job."""

    _schema: ClassVar[type[_Common]]

    def __init__(self, party: str) -> None:
        self.party = party

    def run(self, config: dict[str, Any]) -> None:
        """Run the job with the other party. Raises ConfigError, DataError, PeerFailure."""
        self._run(self._effective(config))

    def _effective(self, config: dict[str, Any]) -> Any:
        if self.party not in config:
            raise ConfigError(f"party {self.party!r} is not one of the sections {', '.join(sorted(config))}")
        sections = {"common": config.get("common", {}), self.party: config.get(self.party, {})}
        for name, section in sections.items():
            if not isinstance(section, dict):
                raise ConfigError(f"{name} must be a section of parameters, got {type(section).__name__}")
        mine = validated(self._schema, {**sections["common"], **sections[self.party]})
        if len(mine.parties) != 2:
            raise ConfigError(f"parties must name two parties, got {len(mine.parties)}")
        if self.party not in mine.parties:
            raise ConfigError(f"party {self.party!r} is not one of the parties {', '.join(sorted(mine.parties))}")
        for name in (n for n in config if n != "common" and n not in mine.parties):
            raise ConfigError(f"unknown section {name}")
        return mine

    def _run(self, config: Any) -> None:
        raise NotImplementedError

    def _connected(self, config: _Common, job: Callable[[Party], T]) -> T:
        """Run the job between the parties; on loopback, make certificates and start a dealer if none are named."""
        first, second = sorted(config.parties)
        addresses = {name: parse_address(_one(place.address)) for name, place in config.parties.items()}
        loopback = all(is_loopback(host) for host, _ in addresses.values())
        if config.tls is None and not loopback:
            raise ConfigError("parties on different hosts need common.tls (see sharewood keygen)")
        if DEALER in config.parties:
            raise ConfigError(f"a party may not be called {DEALER}")
        offline: Maker = config.offline or (
            "dealer" if config.dealer or (loopback and config.tls is None) else "pairwise"
        )
        if offline == "pairwise" and config.dealer:
            raise ConfigError("offline pairwise takes no dealer: leave out common.dealer")
        if offline == "dealer" and (config.tls is None) != (config.dealer is None):
            raise ConfigError("name both common.tls and common.dealer, or, on one machine, neither")
        dealer = parse_address(config.dealer) if config.dealer else None
        how = Offline(offline, config.ot)
        network = Network((first, second), addresses[first], dealer, DEALER, offline=how, audit=config.audit)
        if config.tls is not None:
            credentials = Credentials.load(config.tls, self.party)
        else:
            credentials = loopback_credentials((first, second, DEALER), self.party)
        rank = network.parties.index(self.party)
        with contextlib.ExitStack() as stack:
            return run_party(network, rank, credentials, job, lambda: stack.enter_context(loopback_dealer(network)))


def _one(address: str | list[str]) -> str:
    return address if isinstance(address, str) else address[0]


class _Fit(_Operator):
    def _run(self, config: _ClassifierConfig | _RegressorConfig) -> None:
        path, model_path = config.inputs.train_data, config.outputs.model_path
        check_apart({"model_path": model_path}, {"train_data": path})
        columns = Columns.inferred(config.label_name)
        rows = read_table(path, columns)
        assert rows.labels is not None, "a label column was asked for"
        if config.objective != "squarederror":
            check_classes(path, columns, rows.labels)
        writable(model_path)
        parameters = _parameters(config)
        estimator = self._connected(config, lambda party: fit(party, parameters, rows))
        assert estimator.model is not None, "fit has set it"
        facts = {"objective": config.objective, "label_name": config.label_name}
        write_sealed_json(model_path, {**facts, "half": to_document(*estimator.model.pack())})


def _parameters(config: _ClassifierConfig | _RegressorConfig) -> dict[str, Any]:
    """Convert PETML's parameters to TrainConfig's, except that `max_bin` may be None. Raises ConfigError."""
    names = (
        "min_split_loss learning_rate n_estimators max_depth reg_alpha reg_lambda min_child_samples min_child_weight "
        "test_size eval_epochs edges"
    )
    parameters = {name: getattr(config, name) for name in names.split()}
    if config.objective == "squarederror":
        parameters |= {"objective": "reg:squarederror", "base_score": config.base_score}
    else:
        raw = config.objective == "logitraw"
        parameters |= {
            "objective": "binary:logistic",
            "eval_metric": "error",
            "base_score": _probability("base_score", config.base_score) if raw else 0.5,
            "eval_threshold": _probability("eval_threshold", config.eval_threshold) if raw else config.eval_threshold,
        }
    TrainConfig.of(**parameters)
    return {**parameters, "max_bin": config.max_bin}


def _probability(name: str, margin: float) -> float:
    if not abs(margin) <= 30:
        raise ConfigError(f"{name} must be a margin between -30 and 30, got {margin:g}")
    return 1 / (1 + math.exp(-margin))


class _Predict(_Operator):
    _schema = _PredictConfig
    _objectives: ClassVar[tuple[str, ...]]

    def _run(self, config: _PredictConfig) -> None:
        path, out = config.inputs.model_path, config.outputs.inference_res_path
        check_apart({"inference_res_path": out}, {"model_path": path, "predict_data": config.inputs.predict_data})
        objective, label, model = self._read_model(path)
        rows = read_rows(config.inputs.predict_data, Columns.inferred(label), model.facts.names)
        writable(out)
        output: Output = "probability" if objective == "logistic" else "margin"
        values = self._connected(config, lambda party: predict(party, model, rows, output))
        write_predictions(out, rows.ids, values)

    def _read_model(self, path: Path) -> tuple[str, str, SharedModel]:
        document = read_sealed_json(path, _WHAT)
        with reading(path, _WHAT):
            objective, label, half = str(document["objective"]), str(document["label_name"]), document["half"]
            facts, arrays = from_document(half)
        if objective not in self._objectives:
            raise DataError(f"{path}: a model with objective {objective} is not for {type(self).__name__}")
        return objective, label, SharedModel.unpack(facts, arrays, path)


class XGBoostClassifierFit(_Fit):
    """Train a binary classifier: CSV in, this party's half of the model as JSON out."""

    _schema = _ClassifierConfig


class XGBoostRegressorFit(_Fit):
    """Train a regressor: CSV in, this party's half of the model as JSON out."""

    _schema = _RegressorConfig


class XGBoostClassifierPredict(_Predict):
    """Predict own rows: CSV and model half in, a CSV of margins (logitraw) or probabilities (logistic) out."""

    _objectives = ("logitraw", "logistic")


class XGBoostRegressorPredict(_Predict):
    """Predict own rows: CSV and model half in, a CSV of values out."""

    _objectives = ("squarederror",)
