"""What a party brings to a training or a prediction, read from its own files and checked before anybody connects."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from mpc.errors import ConfigError, DataError
from protocols.runtime.ray_cluster import check_shards, ray_cluster
from secure_tree.config import TrainConfig
from secure_tree.model import SharedModel
from sharewood.hosts_config import HostsConfig
from sharewood.shard_alignment import check_folder
from sharewood.sharded import Sharded, to_predict, to_train_on, write_shards
from sharewood.table_files import writable
from sharewood.tables import Rows, check_labels, known_labels, read_rows, read_table, write_predictions


@contextmanager
def own_ray(config: HostsConfig, name: str) -> Iterator[None]:
    """Ray for the party's shards, if the configuration has some. Raises ConfigError."""
    if not config.shards:
        yield
        return
    check_shards("shards", config.shards)
    with ray_cluster(config.party(name).ray, config.shards):
        yield


def training_tables(config: HostsConfig, name: str) -> tuple[TrainConfig, Rows | Sharded, Rows | None]:
    """The parameters, the table to train on, and rows for validation where a file has any. With shards Ray is running,
    and workers are to read the table.

    Raises ConfigError, DataError.
    """
    data, columns = config.needs(name, "train_data"), config.columns(name)
    parameters = TrainConfig.of(**config.train)
    parameters.check_trainable()
    if parameters.partition == "horizontal" and columns.named("label") is None:
        raise ConfigError(f"parties.{name}.columns names no label, but by rows each party has its own")
    test_data = config.party(name).test_data
    if test_data and parameters.test_size:
        raise ConfigError("test_size and test_data must not both be set: each specifies the rows for validation")

    def table(path: Path) -> Rows:
        rows = read_table(_one_file(path), columns, parameters.may_miss)
        if rows.labels is not None:
            check_labels(path, columns, rows.labels, parameters)
        return rows

    rows = to_train_on(data, columns, config.shards) if config.shards else table(data)
    return parameters, rows, table(test_data) if test_data else None


def own_half(config: HostsConfig, name: str) -> SharedModel:
    """The party's half of the model. Raises DataError for that of the other party."""
    model = SharedModel.load(config.needs(name, "model"), config.file_key())
    if model.rank != config.names.index(name):
        raise DataError(
            f"{config.party(name).model}: must be the half of {name}, got that of {config.names[model.rank]}"
        )
    return model


def rows_to_predict(config: HostsConfig, name: str, model: SharedModel) -> Rows | Sharded:
    """The rows to predict, with the features that the model has of this party. Raises DataError."""
    names = model.facts.names[model.facts.layout.features_of(model.rank)]
    data, columns = config.needs(name, "predict_data"), config.columns(name)
    if config.shards:
        return to_predict(data, columns, names, config.shards)
    return read_rows(_one_file(data), columns, names, model.config.may_miss)


def check_predictions(config: HostsConfig, name: str) -> Path:
    """Where predictions are to be written: of a folder into a folder. Raises DataError where they cannot."""
    out = config.needs(name, "predictions")
    if config.needs(name, "predict_data").is_dir():
        check_folder(out)
    else:
        writable(out)
    return out


def write_predicted(
    config: HostsConfig, name: str, model: SharedModel, rows: Rows | Sharded, values: np.ndarray, output: str
) -> np.ndarray | None:
    """Write the predictions of a party, and return the labels of their rows where its table has them all."""
    out, data = config.needs(name, "predictions"), config.needs(name, "predict_data")
    classes = (model.config.num_class or 2) if model.config.logistic else 0
    if isinstance(rows, Sharded):
        return write_shards(data, rows, values, output, classes, out)
    write_predictions(out, rows.ids, values, output)
    names = model.facts.names[model.facts.layout.features_of(model.rank)]
    return known_labels(data, config.columns(name), names, classes)


def _one_file(path: Path) -> Path:
    if path.is_dir():
        raise DataError(f"{path}: must be a file where there are no shards, got a folder")
    return path
