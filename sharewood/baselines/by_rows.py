"""FedXGBllr and virtual samples on this machine: one client per file, beside XGBoost on the pooled rows."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from mpc.errors import DataError
from mpc.host.files import make_folder, write_bytes
from mpc.host.frames import pd
from protocols.baselines.federated.fedxgbllr.config import FedXGBllrConfig
from protocols.baselines.federated.keys import write_key_pair
from protocols.baselines.federated.launch import FlowerJob, deploy, simulate
from protocols.baselines.federated.virtual_samples.config import VirtualSamplesConfig
from sharewood.baselines.division import Division, divide
from sharewood.baselines.files import read_file
from sharewood.baselines.report import Data, FedReport, Trained, bytes_of, leaks_of, measures, say
from sharewood.report.figures import Quality
from sharewood.report.quality import log_odds
from sharewood.report.reference import Reference
from sharewood.tables.datasets import breast_cancer, check_same_columns, hold_out, shuffled
from sharewood.tables.files import write_frame

LABEL = "label"
# The entries of the report that come from the server's arrays.
SERVER_FIGURES = ("smallest_group", "joined", "update_trees", "kept")
FEWER_CLUSTERS = (
    "everybody learns the number of rows of the smallest client: there are {} clusters, as many as these rows, instead "
    "of {}"
)

Rows: TypeAlias = "tuple[pd.DataFrame, np.ndarray]"


@dataclass(frozen=True)
class ClientTables:
    """The training rows of each client, and the rows to evaluate on."""

    training: list[Rows]
    test: Rows
    title: str
    judged_on: str


def built_in(clients: int, test_size: float, divided: Division = "equal") -> ClientTables:
    """Shuffle scikit-learn's breast cancer set and divide it among `clients` clients."""
    features, labels, title = breast_cancer()
    order = shuffled(len(labels))
    parts = divide(features.to_numpy()[order], labels[order], clients, divided, 0)
    return _held_out([(features.iloc[order[rows]], labels[order[rows]]) for rows in parts], test_size, title)


def from_files(paths: Sequence[Path], label: str, test: Path | None, test_size: float, objective: str) -> ClientTables:
    """Read one file per client, and evaluate on `test` or on `test_size` of each client's rows. Raises DataError."""
    tables: list[Rows] = []
    for path in [*paths, *([test] if test else [])]:
        rows = read_file(path, label, objective)
        features, labels = rows.features, rows.labels
        assert labels is not None, "read_file gives labels where it is asked for them"
        tables.append((features, labels))
        check_same_columns((paths[0], tables[0][0]), (path, features))
    title = ", ".join(path.name for path in paths)
    if test:
        return ClientTables(tables[:-1], tables[-1], title, f"{len(tables[-1][1])} rows of {test.name}")
    return _held_out(tables, test_size, title)


def _held_out(tables: list[Rows], test_size: float, title: str) -> ClientTables:
    """Use `test_size` of each client's rows for validation; 0 means all rows, for both training and validation."""
    training, validation = [], []
    for features, labels in tables:
        kept, aside = hold_out(len(labels), test_size)
        if not len(kept):
            raise DataError(f"{title}: {len(labels)} rows are too few for test_size {test_size:g}")
        training.append((features.iloc[kept], labels[kept]))
        validation.append((features.iloc[aside], labels[aside]))
    test = _pooled(validation if test_size else training)
    return ClientTables(training, test, title, f"{len(test[1])} {'held-out' if test_size else 'training'} rows")


def _pooled(tables: list[Rows]) -> Rows:
    return pd.concat([x for x, _ in tables], ignore_index=True), np.concatenate([y for _, y in tables])


def run(
    config: FedXGBllrConfig | VirtualSamplesConfig,
    data: ClientTables,
    secure: bool,
    processes: bool,
    out: Path,
    update_share: float = 0.0,
) -> FedReport:
    """Train through Flower and evaluate the model; return the report. The model's files go to `out`.

    `update_share` of each client's rows are the new rows of an update of virtual samples. Clusters are at most as many
    as the smallest client has other rows, which the report then says.
    """
    llr = isinstance(config, FedXGBllrConfig)
    system = "fedxgbllr" if llr else "virtual-samples"
    leaks = leaks_of(system, len(data.training), objective=config.objective)
    set_aside = [round(update_share * len(labels)) for _, labels in data.training]
    if isinstance(config, VirtualSamplesConfig):
        fewest = min(len(labels) - aside for (_, labels), aside in zip(data.training, set_aside, strict=True))
        if 1 < fewest < config.clusters:
            leaks = [*leaks, FEWER_CLUSTERS.format(fewest, config.clusters)]
            say(leaks[-1])
            config = config.model_copy(update={"clusters": fewest})
    say(f"leaks: {leaks[0]}")
    make_folder(out)
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        nodes = _nodes(data, config, secure, folder, out.absolute(), set_aside)
        settings = {
            "system": system,
            "parameters": config.model_dump_json(),
            "clients": len(data.training),
            "minimum": len(data.training),
            "features": data.test[0].shape[1],
            "secure": secure,
            "timeout": 600,
            "out": str(out.absolute() / "server.npz"),
        }
        job = FlowerJob(settings, nodes)
        facts = deploy(job, folder, say) if processes else simulate(job, say)

    X, y, pooled = data.test[0].to_numpy(np.float32), data.test[1], _pooled(data.training)
    moved = sum(sum(facts[way].values()) for way in ("sent", "received"))
    by_server, rates, without = _arrays(out), None, None
    if isinstance(config, FedXGBllrConfig):
        without = measures(y, _margins(config, out, X, network=False), config.objective)
        rates, files = _rates(config, out, X)
    else:
        files = [f"client-{i}.npz" for i in range(len(data.training))]
    figures = [int(by_server[name]) if name in by_server else None for name in SERVER_FIGURES]
    return FedReport(
        system=system,
        leaks=leaks,
        engine="superlink and supernodes" if processes else "Flower's simulation",
        data=Data(
            title=data.title,
            rows=[len(labels) for _, labels in data.training],
            features=X.shape[1],
            judged_on=data.judged_on,
            parties=f"{len(data.training)} clients and a server, {'secure' if secure else 'open'} sums",
            bytes=bytes_of(len(pooled[1]), X.shape[1]),
        ),
        config=config,
        quality=Quality(
            measures(y, _margins(config, out, X), config.objective),
            measures(y, _reference(config, *pooled).margins(data.test[0]), config.objective),
            without,
        ),
        online=Trained(facts["seconds"], moved, bytes_from_server=facts["sent"], bytes_to_server=facts["received"]),
        files=[str(out / name) for name in ("server.npz", *files)],
        set_aside=None if llr else sum(set_aside),
        smallest_group=figures[0],
        joined=figures[1],
        update_trees=figures[2],
        kept=figures[3],
        factor=float(by_server["factor"]) if llr else None,
        rates=rates,
    )


def _rates(config: FedXGBllrConfig, out: Path, X: np.ndarray) -> tuple[list[list[float]], list[str]]:
    """Return the effective rate of every tree of every client; write W and Z, if there are any, and name the files."""
    from protocols.baselines.federated.fedxgbllr.model import FedXGBllrModel

    model = FedXGBllrModel.unpack(_arrays(out), config)
    effective = model.effective_rates(X).round(6).tolist()
    if config.architecture != "interpretable":
        return effective, []
    learned = model.learned_rates()
    channels = [f"channel_{c}" for c in range(config.channels)]
    tables = {"tree": learned.trees.T, "client": learned.clients}
    for name, rates in tables.items():
        table = pd.DataFrame(rates, columns=channels)
        table.insert(0, name, np.arange(len(table)))
        write_frame(out / f"rates_by_{name}.csv", table)
    return effective, [f"rates_by_{name}.csv" for name in tables]


def _nodes(
    data: ClientTables,
    config: FedXGBllrConfig | VirtualSamplesConfig,
    secure: bool,
    folder: Path,
    out: Path,
    set_aside: Sequence[int],
) -> list[dict[str, Any]]:
    """Write files and keys of every supernode to `folder`, and return its configuration.

    `set_aside` are the numbers of each client's rows that become its new rows, drawn at random.
    """
    write_bytes(folder / "group", secrets.token_bytes(32))
    helper = X25519PrivateKey.generate()
    write_bytes(folder / "helper-private", helper.private_bytes_raw())
    write_bytes(folder / "helper-public", helper.public_key().public_bytes_raw())
    nodes: list[dict[str, Any]] = []
    for i, ((features, labels), update) in enumerate(zip(data.training, set_aside, strict=True)):
        node: dict[str, Any] = {"client-id": i, "label": LABEL}
        if secure:
            node |= {"helper-key": str(folder / "helper-public"), "client-key": str(folder / f"client-{i}")}
            write_key_pair(folder / f"client-{i}", folder / "clients")
        if isinstance(config, VirtualSamplesConfig):
            node |= {"group-key": str(folder / "group"), "out": str(out / f"client-{i}.npz")}
        # Names are not sent: after renaming, no column of the user's can be mistaken for the label or an id.
        table = pd.DataFrame(features.to_numpy(), columns=[f"f{j}" for j in range(features.shape[1])])
        table[LABEL] = labels
        table = table.iloc[np.random.default_rng((2026, i)).permutation(len(table))]
        if update:
            node["update"] = str(folder / f"update-{i}.csv")
            write_frame(Path(node["update"]), table[:update])
        node["data"] = str(folder / f"rows-{i}.csv")
        write_frame(Path(node["data"]), table[update:])
        nodes.append(node)
    helper_keys = {"helper-private-key": str(folder / "helper-private"), "client-keys": str(folder / "clients")}
    return nodes + ([helper_keys] if secure else [])


def _margins(
    config: FedXGBllrConfig | VirtualSamplesConfig, out: Path, X: np.ndarray, network: bool = True
) -> np.ndarray:
    """Return margins, or labels in their own unit, of the model in `out`; for FedXGBllr also without its network."""
    if isinstance(config, FedXGBllrConfig):
        from protocols.baselines.federated.fedxgbllr.model import FedXGBllrModel

        model = FedXGBllrModel.unpack(_arrays(out), config)
        predicted = model.predict(X) if network else model.predict_by_mean(X)
    else:
        from protocols.baselines.federated.virtual_samples.node import predict

        predicted = predict(out / "client-0.npz", X)
    if config.objective == "reg:squarederror":
        return predicted
    return log_odds(predicted) if config.objective == "binary:logistic" else np.log(np.maximum(predicted, 1e-15))


def _reference(config: FedXGBllrConfig | VirtualSamplesConfig, features: pd.DataFrame, labels: np.ndarray) -> Reference:
    """Train plain XGBoost with the same parameters and number of trees on the pooled rows."""
    shared: dict[str, object] = {
        "objective": config.objective,
        "max_depth": config.max_depth,
        "gamma": config.min_split_loss,
    }
    if isinstance(config, FedXGBllrConfig):
        trees = config.total_trees
        # Clients grow their trees by histograms as well; many trees by "exact" on a wide table take minutes.
        shared |= {"eta": config.eta, "alpha": config.reg_alpha, "tree_method": "hist"}
        shared |= {"subsample": config.subsample, "seed": config.seed}
    else:
        trees = config.n_estimators + config.update_estimators
        shared |= {"eta": config.learning_rate, "lambda": config.reg_lambda}
        shared |= {"min_child_weight": config.min_child_weight, "tree_method": "exact"}
    return Reference.trained(shared, trees, features, labels)


def _arrays(out: Path) -> dict[str, np.ndarray]:
    """Read the arrays that the server wrote."""
    with np.load(out / "server.npz", allow_pickle=False) as arrays:
        return dict(arrays)
