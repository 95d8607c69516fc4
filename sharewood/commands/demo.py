"""The demo: two party processes, with or without a dealer, train and predict, beside XGBoost if it is installed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from mpc.host.files import make_folder, write_bytes
from mpc.meter import Stage
from mpc.party import Party
from protocols.ot.correlated import OtKind
from protocols.runtime.hosts import Offline
from protocols.runtime.local import PARTIES, run_session
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.model.storage import write_json
from secure_tree.public.config import TrainConfig
from sharewood.page import demo_page
from sharewood.report.demo import Curve, DemoCosts, DemoReport, DemoTables
from sharewood.report.figures import Inputs, Quality, Run
from sharewood.report.learning_curve import points, staged_margins
from sharewood.report.progress import Progress
from sharewood.report.quality import quality
from sharewood.report.reference import Reference, without_xgboost
from sharewood.report.shards import by_shard, peaks, with_workers
from sharewood.tables.demo_data import DemoData
from sharewood.warm_up import warm_up

log = logging.getLogger("sharewood")

_HALVES = tuple(f"{name}.npz" for name in PARTIES)
_FIGURES, _PAGE = "result.json", "report.html"
# The files that the demo writes.
RESULTS = (*_HALVES, _FIGURES, _PAGE)


def run_demo(
    data: DemoData,
    parameters: dict[str, Any],
    out: Path,
    progress: bool = True,
    offline: Offline = "dealer",
    ot: OtKind = "ferret",
    audit: bool = False,
    shards: int = 0,
    files: Mapping[str, Path | None] = MappingProxyType({}),
) -> DemoReport:
    """Train and predict between processes; return the report, and write it to `out` as JSON and as a page.

    With `shards`, each party divides its rows among that many workers. `files` are those that the data was read from,
    by role.
    """
    read = Inputs.of(**files)
    missing = data.missing or "none"
    config = TrainConfig.of(**parameters, partition=data.partition, missing=missing)
    if why := without_xgboost():
        log.warning("%s. The demo continues without it", why)
    make_folder(out)
    warm_up(offline, ot)
    estimator = SecureXGBClassifier if config.logistic else SecureXGBRegressor
    few = data.few()

    def job(party: Party) -> dict[str, Any]:
        if party.rank or not progress:
            log.setLevel(logging.WARNING)
        began = perf_counter()
        with Progress(party, config) as shown:
            model = estimator(**config.model_dump()).fit(party, *data.train[party.rank], observer=shown)
        seconds = perf_counter() - began
        model.save(out / _HALVES[party.rank])
        margins = model.predict_margin(party, data.test[party.rank][0], data.method)
        costs = {
            name: {k: asdict(v) for k, v in c.items()} for name, c in (("stages", party.stages), ("parts", party.parts))
        }
        revealed = list(party.revealed)
        drawn = pd.concat([tables[party.rank][0] for tables in few.values()], ignore_index=True)
        staged = staged_margins(party, model, drawn, data.method)
        again = dict.fromkeys(party.revealed[len(revealed) :])
        revealed += [f"{what} after every step of the learning curve" for what in again]
        assert model.model is not None, "fit has set it"
        learned = {"seconds": seconds, "margins": margins, "staged": staged, "revealed": revealed}
        return {"pairing": model.model.facts.pairing, **learned, **costs}

    outcome = run_session(job, offline=offline, ot=ot, audit=audit, shards=shards)
    results = [outcome[name]["result"] for name in PARTIES]
    stages, parts = (
        [{name: Stage(**spent) for name, spent in r[kind].items()} for r in results] for kind in ("stages", "parts")
    )
    workers = [outcome[name].get("workers", []) for name in PARTIES]
    stages = [with_workers(own, each) for own, each in zip(stages, workers, strict=True)]
    memory = {name: peaks(outcome[name]["memory_peak_bytes"], outcome[name].get("workers", [])) for name in outcome}
    X, labels = data.pooled(data.test)
    margins = {"Sharewood": np.concatenate([r["margins"] for r in results])}
    reference = None if why else Reference.alike(config, *data.pooled(data.train))
    if reference:
        margins["XGBoost"] = reference.margins(X)
    measures = {name: quality(labels, each, config) for name, each in margins.items()}
    report = DemoReport(
        run=Run.now(results[0]["pairing"], read),
        data=DemoTables(
            rows=[len(features) for features, _ in data.train],
            features=X.shape[1],
            partition=data.partition,
            title=data.title,
            judged_on="training rows" if data.test is data.train else f"{len(labels)} held-out rows",
        ),
        config=config,
        quality=Quality(measures["Sharewood"], measures.get("XGBoost", {})),
        curve=_curve(data, config, [r["staged"] for r in results], reference),
        costs=DemoCosts.of(max(r["seconds"] for r in results), stages, parts, config.n_estimators, len(labels)),
        revealed=[r["revealed"] for r in results],
        memory_peak_bytes=memory,
        pid={name: outcome[name]["pid"] for name in outcome},
        generator=offline,
        shards=shards,
        by_shard={name: by_shard(each) for name, each in zip(PARTIES, workers, strict=True)} if shards else None,
    )
    write_json(out / _FIGURES, report.document())
    write_bytes(out / _PAGE, demo_page(report, labels, margins).encode())
    return report


def _curve(data: DemoData, config: TrainConfig, staged: list[np.ndarray], reference: Reference | None) -> Curve:
    """Return the learning curve, beside XGBoost's: this process has both parties' labels and predictions."""
    curve = Curve(config.metric, points(config.n_estimators))
    start = [0, 0]
    for name, tables in data.few().items():
        features, labels = data.pooled(tables)
        counts = [len(x) if r.shape[1] else 0 for (x, _), r in zip(tables, staged, strict=True)]
        mine = np.concatenate([r[:, s : s + n] for r, s, n in zip(staged, start, counts, strict=True)], axis=1)
        start = [s + n for s, n in zip(start, counts, strict=True)]
        curve.rows[name] = len(labels)
        curve.sharewood[name] = [_metric(labels, m, config) for m in mine]
        if reference:
            theirs = (reference.margins(features, count) for count in curve.trees)
            curve.xgboost[name] = [_metric(labels, m, config) for m in theirs]
    return curve


def _metric(labels: np.ndarray, margins: np.ndarray, config: TrainConfig) -> float:
    value = quality(labels, margins, config)[config.metric]
    assert value is not None, "the demo's metrics are defined for one class, too"
    return value
