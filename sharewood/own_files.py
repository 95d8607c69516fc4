"""What a party brings to a training or a prediction, read from its own files and checked before anybody connects."""

from __future__ import annotations

from pathlib import Path

from mpc.errors import ConfigError, DataError
from secure_tree.config import TrainConfig
from secure_tree.model import SharedModel
from sharewood.hosts_config import HostsConfig
from sharewood.tables import Rows, check_classes, check_counts, read_rows, read_table


def training_tables(config: HostsConfig, name: str) -> tuple[TrainConfig, Rows, Rows | None]:
    """The parameters, the table to train on, and rows for validation where a file has any.

    Raises ConfigError, DataError.
    """
    data, columns = config.needs(name, "train_data"), config.columns(name)
    parameters = TrainConfig.of(**config.train)
    parameters.check_trainable()
    if parameters.partition == "horizontal" and columns.named("label") is None:
        raise ConfigError(f"parties.{name}.columns names no label, and by rows each party has its own")
    test_data = config.party(name).test_data
    if test_data and parameters.test_size:
        raise ConfigError("test_size and test_data both specify the rows for validation: use one of the two")

    def table(path: Path) -> Rows:
        rows = read_table(path, columns, parameters.may_miss)
        if parameters.logistic and rows.labels is not None:
            check_classes(path, columns, rows.labels, parameters.num_class or 2)
        if parameters.counts and rows.labels is not None:
            check_counts(path, columns, rows.labels)
        return rows

    return parameters, table(data), table(test_data) if test_data else None


def own_half(config: HostsConfig, name: str) -> SharedModel:
    """The party's half of the model. Raises DataError for that of the other party."""
    model = SharedModel.load(config.needs(name, "model"), config.file_key())
    if model.rank != config.names.index(name):
        raise DataError(
            f"{config.party(name).model}: must be the half of {name}, got that of {config.names[model.rank]}"
        )
    return model


def rows_to_predict(config: HostsConfig, name: str, model: SharedModel) -> Rows:
    """The rows to predict, with the features that the model has of this party. Raises DataError."""
    names = model.facts.names[model.facts.layout.features_of(model.rank)]
    return read_rows(config.needs(name, "predict_data"), config.columns(name), names, model.config.may_miss)
