"""The public sizes that a job's configuration gives to a plan, or to material that is made in advance."""

from __future__ import annotations

from mpc.errors import ConfigError
from secure_tree.public.config import TrainConfig
from secure_tree.training.cost import Sizes
from sharewood.job.config import HostsConfig
from sharewood.tables.columns import Columns


def planned(job: HostsConfig) -> tuple[TrainConfig, Sizes]:
    """Return the parameters and sizes to plan, with features and missing values from schema files.

    Raises ConfigError.
    """
    shape = job.plan
    if shape is None:
        raise ConfigError("plan.rows must be set in the configuration for this command")
    schemas = [Columns.read(path) if (path := job.party(name).columns) else None for name in job.names]
    parameters = job.train
    for schema in schemas:
        parameters = schema.with_cuts(parameters) if schema else parameters
    config = TrainConfig.of(**parameters)
    specified = [None, None] if shape.features is None else [_names(features) for features in shape.features]
    declared = [schema.declared_features if schema else None for schema in schemas]
    for name, features, own in zip(job.names, specified, declared, strict=True):
        if features and own and len(features) != len(own):
            raise ConfigError(
                f"plan.features must have {len(own)} of {name}, as its schema file has, got {len(features)}"
            )
    if config.partition == "horizontal":
        united = tuple(dict.fromkeys(name for own in declared if own for name in own))
        declared = [united or None] * 2
    names = [own or features for own, features in zip(declared, specified, strict=True)]
    for name, own in zip(job.names, names, strict=True):
        if own is None:
            raise ConfigError(f"plan.features must be set: this configuration names no schema file of {name}")
    missing = {name for schema in schemas if schema for name in schema.missing}
    if missing and config.missing != "all":
        missing |= set(config.missing) if isinstance(config.missing, tuple) else set()
        config = config.model_copy(update={"missing": tuple(sorted(missing))})
    first, second = names
    assert first is not None and second is not None, "checked above"
    owners = job.owners.names if job.owners else ()
    by_columns = config.partition == "vertical"
    key, given = ("owner_features", shape.owner_features) if by_columns else ("owner_rows", shape.owner_rows)
    if len(owners) != len(given):
        raise ConfigError(f"plan.{key} must have an entry for each of the {len(owners)} owners, got {len(given)}")
    columns = tuple(_names(features) for features in shape.owner_features) if by_columns else ()
    rows, weight = () if by_columns else shape.owner_rows, shape.largest_weight
    sizes = Sizes(shape.rows, (first, second), shape.test_rows, weight, job.audit, rows, columns, job.round_price)
    return config, sizes


def _names(features: int | tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"f{i}" for i in range(features)) if isinstance(features, int) else features
