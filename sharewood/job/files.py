"""A party's own files for a training or a prediction, read and checked before the parties connect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from mpc.errors import ConfigError, DataError
from mpc.host.frames import pd
from protocols.runtime.workers.ray_cluster import check_shards, ray_cluster
from secure_tree.explore.result import Screened
from secure_tree.model.shared_model import SharedModel
from secure_tree.public.config import TrainConfig
from secure_tree.public.names import covers
from sharewood.job.config import HostsConfig
from sharewood.job.session import bringing
from sharewood.sources.copies import copied
from sharewood.sources.reference import DataSource
from sharewood.tables.alignment import check_folder
from sharewood.tables.files import writable
from sharewood.tables.sharded import Sharded, to_predict, to_train_on, write_shards
from sharewood.tables.tables import TableRows, check_labels, known_labels, read_rows, read_table, write_predictions

P = ParamSpec("P")
T = TypeVar("T")
# Work of a command with the configuration and the name of this party.
Work = Callable[Concatenate[HostsConfig, str, P], T]


@contextmanager
def with_tables(config: HostsConfig, name: str, *fields: str) -> Iterator[HostsConfig]:
    """Yield the configuration with files for these tables of the party, of which `copied` makes some for the block.

    Raises ConfigError, DataError.
    """
    section = config.party(name)
    tables = {field: getattr(section, field) for field in fields}
    for field, table in tables.items():
        # `align` gives rows an order.
        if isinstance(table, DataSource) and field != "align_data":
            table.check_ordered(f"parties.{name}.{field}")
    with copied(tables) as files:
        yield config.model_copy(update={"parties": {**config.parties, name: section.model_copy(update=files)}})


def bringing_tables(*fields: str, supplied: bool = True) -> Callable[[Work[P, T]], Work[P, T]]:
    """Decorate work of a command: tables of this party that are elsewhere are copied for its length, in `bringing`."""

    def decorate(work: Work[P, T]) -> Work[P, T]:
        @wraps(work)
        def with_copies(config: HostsConfig, name: str, /, *arguments: P.args, **more: P.kwargs) -> T:
            with ExitStack() as stack:
                if name in config.names and any(isinstance(getattr(config.party(name), f), DataSource) for f in fields):
                    with bringing(config, name, supplied):
                        config = stack.enter_context(with_tables(config, name, *fields))
                return work(config, name, *arguments, **more)

        return with_copies

    return decorate


@contextmanager
def own_ray(config: HostsConfig, name: str) -> Iterator[None]:
    """Start Ray for the party's shards, if there are any. Raises ConfigError."""
    if not config.shards:
        yield
        return
    check_shards("shards", config.shards)
    own = config.party(name)
    with ray_cluster(own.ray, config.shards, own.ray_without_token):
        yield


def training_tables(
    config: HostsConfig, name: str, screened: Path | None = None
) -> tuple[TrainConfig, TableRows | Sharded, TableRows | None]:
    """Return the parameters, the table to train on, and the rows of a validation file, if any.

    With shards, Ray must be running, and workers will read the table. `screened`: a file of the features to keep.
    Raises ConfigError, DataError.
    """
    data, columns = config.needs(name, "train_data"), config.columns(name)
    parameters = TrainConfig.of(**columns.with_cuts(config.train))
    kept = None if screened is None else Screened.load(screened)
    if kept and config.shards:
        raise ConfigError("--screened must be used without shards: workers read whole tables")
    if parameters.partition == "horizontal" and columns.named("label") is None:
        raise ConfigError(f"parties.{name}.columns must declare a label: by rows, each party has its own labels")
    test_data = config.table(name, "test_data")
    if test_data and parameters.test_size:
        raise ConfigError("test_size and test_data must not both be set: each specifies the rows for validation")

    def table(path: Path) -> TableRows:
        rows = read_table(_one_file(path), columns, parameters.may_miss)
        if rows.labels is not None:
            check_labels(path, columns, rows.labels, parameters)
        if kept is None:
            return rows
        found = _screened(rows, kept)
        dropped.update({*map(str, rows.features)} - {*map(str, found.features)})
        return found

    dropped = set[str]()
    rows = to_train_on(data, columns, config.shards) if config.shards else table(data)
    validation = table(test_data) if test_data else None
    if kept and isinstance(parameters.missing, tuple):
        every = [feature for own in kept.names for feature in own]
        declared = tuple(m for m in parameters.missing if any(covers(m, feature) for feature in every))
        parameters = parameters.model_copy(update={"missing": declared or "none"})
    if cuts := {name: values for name, values in (parameters.cuts or {}).items() if name in dropped}:
        left = {name: values for name, values in (parameters.cuts or {}).items() if name not in cuts}
        parameters = parameters.model_copy(update={"cuts": left or None})
    return parameters, rows, validation


def _screened(rows: TableRows, kept: Screened) -> TableRows:
    features = kept.of(rows.features)
    assert isinstance(features, pd.DataFrame), "as given"
    return replace(rows, features=features, missing=tuple(m for m in rows.missing if m in features))


def own_half(config: HostsConfig, name: str, key: str = "model") -> SharedModel:
    """Load the party's half of the model that `key` names. Raises DataError if it is the other party's."""
    path = config.needs(name, key)
    model = SharedModel.load(path, config.file_key())
    if model.rank != config.names.index(name):
        raise DataError(f"{path}: must be the half of {name}, got that of {config.names[model.rank]}")
    return model


def rows_to_predict(config: HostsConfig, name: str, model: SharedModel) -> TableRows | Sharded:
    """Read the rows to predict, with this party's features of the model. Raises DataError."""
    names = model.facts.names[model.facts.layout.features_of(model.rank)]
    data, columns = config.needs(name, "predict_data"), config.columns(name)
    if config.shards:
        return to_predict(data, columns, names, config.shards)
    return read_rows(_one_file(data), columns, names, model.config.may_miss)


def check_predictions(config: HostsConfig, name: str) -> Path:
    """Return the path for predictions, a folder for rows in a folder. Raises DataError if it is not writable."""
    out = config.needs(name, "predictions")
    if config.needs(name, "predict_data").is_dir():
        check_folder(out)
    else:
        writable(out)
    return out


def write_predicted(
    config: HostsConfig,
    name: str,
    model: SharedModel,
    rows: TableRows | Sharded,
    values: np.ndarray,
    output: str,
    reasons: Sequence[Any] = (),
) -> np.ndarray | None:
    """Write a party's predictions, and their reasons; return the labels of these rows if its table has all of them."""
    out, data = config.needs(name, "predictions"), config.needs(name, "predict_data")
    classes = (model.config.num_class or 2) if model.config.logistic else 0
    if isinstance(rows, Sharded):
        return write_shards(data, rows, values, output, classes, out)
    asked = config.predict
    write_predictions(out, rows.ids, values, output, reasons, asked.reasons, asked.show == "numbers")
    names = model.facts.names[model.facts.layout.features_of(model.rank)]
    return known_labels(data, config.columns(name), names, classes)


def _one_file(path: Path) -> Path:
    if path.is_dir():
        raise DataError(f"{path}: must be a file without shards, got a folder")
    return path
