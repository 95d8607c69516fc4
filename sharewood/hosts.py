"""What `sharewood dealer | train | predict | reveal | share` do on a host of their own."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from mpc.errors import ConfigError
from mpc.party import Party
from protocols.runtime.hosts import run_dealer, run_party
from protocols.transport.tcp import listen
from secure_tree.checkpoint import Checkpoints
from secure_tree.config import TrainConfig
from secure_tree.exchange import PlainModel, reveal_model, share_model
from secure_tree.model import SharedModel
from secure_tree.storage import read_json, write_arrays, write_json
from secure_tree.xgboost_json import from_xgboost, to_xgboost
from sharewood.hosts_config import HostsConfig, check_built
from sharewood.jobs import fit, predict
from sharewood.tables import check_classes, read_rows, read_table, writable, write_predictions

T = TypeVar("T")


def connected(config: HostsConfig, name: str, job: Callable[[Party], T]) -> T:
    """Run a job as party `name` of the configuration."""
    config.party(name)
    return run_party(config.network, config.names.index(name), config.credentials(name), job)


def deal(config: HostsConfig, sessions: int | None) -> None:
    """Serve the two parties."""
    address = config.network.dealer
    assert address is not None, "a configuration names the dealer"
    with listen(address, config.credentials("dealer")) as listener:
        run_dealer(listener, config.names, sessions=sessions)


def train(config: HostsConfig, name: str, resume: bool, json: Path | None) -> dict[str, Any]:
    """Train on the party's file, write its half of the model; a report of costs.

    Where a folder for checkpoints is named, every round of trees is kept there; `resume` goes on from them.
    """
    folder = config.needs(name, "checkpoints") if resume else config.party(name).checkpoints
    checkpoints = Checkpoints(folder, resume) if folder else None
    data, out, label = config.needs(name, "train_data"), config.needs(name, "model"), config.party(name).label
    parameters = TrainConfig.of(**config.train).model_dump()
    features, labels = read_table(data, label)
    assert labels is not None, "a label column was asked for"
    if config.logistic:
        check_classes(data, label, labels)
    for path in [out, *([json] if json else [])]:
        writable(path)

    def program(party: Party) -> dict[str, Any]:
        estimator = fit(party, parameters, features, labels, checkpoints)
        assert estimator.model is not None, "fit has set it"
        estimator.model.save(out)
        known = estimator.model.facts
        facts = {"rows": list(known.layout.rows), "held": list(known.held), "features": len(known.names)}
        return {"data": facts, "config": parameters, "curve": estimator.curve, **costs(party)}

    return _reported(connected(config, name, program), json)


def predict_rows(config: HostsConfig, name: str, json: Path | None) -> dict[str, Any]:
    """Predict the party's file with its half of the model, write a CSV; a report of costs."""
    out, label = config.needs(name, "predictions"), config.party(name).label
    model = SharedModel.load(config.needs(name, "model"))
    check_built(model.config)
    features, identities = read_rows(config.needs(name, "predict_data"), label, model.facts.names)
    for path in [out, *([json] if json else [])]:
        writable(path)
    output = config.predict.output if model.config.logistic else "margin"

    def program(party: Party) -> dict[str, Any]:
        write_predictions(out, identities, predict(party, model, features, output, config.predict.method))
        return {"data": {"rows": len(features), "features": len(model.facts.names)}, **costs(party)}

    return _reported(connected(config, name, program), json)


def reveal(config: HostsConfig, name: str, to: str) -> dict[str, Any]:
    """Open the model to the party `to`, if both configurations consent; that one writes it to its file `revealed`."""
    config.party(to)
    if to not in config.party(name).reveal_to:
        raise ConfigError(f"parties.{name}.reveal_to does not name {to}: this party has not consented")
    model = SharedModel.load(config.needs(name, "model"))
    out = config.needs(name, "revealed") if to == name else None
    if out:
        writable(out)

    def program(party: Party) -> dict[str, Any]:
        plain = reveal_model(party, model, config.names.index(to))
        if plain is not None and out is not None:
            write_arrays(out, *plain.pack())
        return costs(party)

    return connected(config, name, program)


def share(config: HostsConfig, name: str, source: Path | None) -> dict[str, Any]:
    """Turn one party's XGBoost model (`source`, the other has None) into a half at either, for `predict`.

    Of `train` it takes `missing`: the features that rows to predict may lack.
    """
    out = config.needs(name, "model")
    writable(out)
    plain = from_xgboost(read_json(source, "XGBoost model in JSON"), str(source)) if source else None

    def program(party: Party) -> dict[str, Any]:
        share_model(party, plain, TrainConfig.of(**config.train).missing).save(out)
        return costs(party)

    return connected(config, name, program)


def export(model: Path, out: Path) -> None:
    """A revealed model's file as XGBoost's JSON."""
    document = to_xgboost(PlainModel.load(model))
    writable(out)
    write_json(out, document)


def costs(party: Party) -> dict[str, Any]:
    """Seconds, rounds and wire bytes in both directions of every stage, peak memory, and what was revealed."""
    stages = {
        name: {
            "seconds": stage.seconds,
            "rounds": stage.rounds,
            "bytes": stage.bytes_sent + stage.bytes_received,
            "bytes_dealt": stage.bytes_dealt,
        }
        for name, stage in party.stages.items()
    }
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {**stages, "revealed": party.revealed, "memory_peak_bytes": peak}


def _reported(report: dict[str, Any], json: Path | None) -> dict[str, Any]:
    if json:
        write_json(json, report)
    return report
