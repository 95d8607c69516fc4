"""Every way to request an audit works, or is refused with one sentence."""

import functools

import numpy as np
import pandas as pd
import pytest

from mpc.arithmetic.beaver import multiply
from mpc.checks.verdict import REVEALED, Auditor
from mpc.errors import AuditFailure, ConfigError
from mpc.protocol.contract import REGISTRY
from protocols.runtime import run_local
from protocols.testing.two_parties import run_both
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from sharewood.job.config import HostsConfig
from sharewood.serving.service import Service
from tests.protocols.runtime.meeting import both, dealing
from tests.sharewood.commands.hosting import both as both_parties
from tests.sharewood.commands.hosting import dealing as hosted_dealer
from tests.sharewood.commands.hosting import write_job
from tests.sharewood.job.test_session import NOTHING, parties

RNG = np.random.default_rng(3)
X = RNG.normal(size=(60, 4))
MISSING = np.where(RNG.random(X.shape) < 0.2, np.nan, X)
CLASSES = np.argmax(X[:, :3] + 0.1 * RNG.normal(size=(60, 3)), axis=1)
COUNTS = np.minimum(RNG.poisson(np.exp(X[:, 0])), 6)
WEIGHTS = RNG.uniform(0.5, 2.0, size=60)
SMALL = {"n_estimators": 2, "max_depth": 2, "max_bin": 8, "learning_rate": 0.3}


def by_rows(rank):
    return slice(0, 25) if rank == 0 else slice(25, 60)


def fitted(party, kind, table, labels, weighted=False, method="bins", **parameters):
    """Return margins for both divisions of the data; `party.rank` selects this party's part."""
    model = kind(**{**SMALL, **parameters})
    if parameters.get("partition") == "vertical":
        rows, y, w = (table[:, :2], table[:, 2:])[party.rank], (labels, None)[party.rank], (WEIGHTS, None)[party.rank]
    else:
        mine = by_rows(party.rank)
        rows, y, w = table[mine], labels[mine], WEIGHTS[mine]
    model.fit(party, rows, y, sample_weight=w if weighted else None)
    return model.predict_margin(party, rows, method)


CASES = {
    "several classes": (SecureXGBClassifier, X, CLASSES, {"objective": "multi:ova", "num_class": 3, "n_estimators": 1}),
    "missing values": (SecureXGBClassifier, MISSING, CLASSES == 0, {"missing": "all", "method": "thresholds"}),
    "weights": (SecureXGBClassifier, X, CLASSES == 0, {"weighted": True, "base_score": None}),
    "by columns": (SecureXGBClassifier, X, CLASSES == 0, {"partition": "vertical"}),
    "by columns, all of it": (
        SecureXGBClassifier,
        MISSING,
        CLASSES,
        {
            "partition": "vertical",
            "missing": "all",
            "weighted": True,
            "objective": "multi:ova",
            "num_class": 3,
            "n_estimators": 1,
        },
    ),
    "counts": (SecureXGBRegressor, X, COUNTS, {"objective": "count:poisson"}),
    "held-out rows": (SecureXGBClassifier, X, CLASSES == 0, {"test_size": 0.3, "eval_epochs": 1}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_training_and_a_prediction_of_each_kind(case):
    kind, table, labels, more = CASES[case]

    def job(audit):
        def play(party):
            if audit:
                party.audit = Auditor()
            return fitted(party, kind, table, labels, **more)

        return play

    plain, _ = run_both(job(False))
    audited, audits = run_both(job(True))
    assert all(REVEALED in party.revealed for party in audits)
    # The coins of the run decide between nearly equal splits.
    a, b = (np.concatenate([margins.ravel() for margins in ends if margins.size]) for ends in (plain, audited))
    assert a.shape == b.shape and np.corrcoef(a, b)[0, 1] > 0.7


def operators(party):
    """Every operator on shares, revealed."""
    x = party.share([2.5, -3.0] if party.rank == 0 else None, owner=0, scale=16)
    y = party.share([4.0, -3.0] if party.rank == 1 else None, owner=1, scale=16)
    shown = [x * y, x + y, x < y, x == y, x.map(lambda w: w[None]) @ y.map(lambda w: w[:, None])]
    return [party.reveal(each, what="a result of an operator").ravel().tolist() for each in shown]


EXPECTED = [[10.0, 9.0], [6.5, -6.0], [1, 0], [0, 1], [19.0]]


def test_operators():
    assert run_local(operators, audit=True) == (EXPECTED, EXPECTED)


def faulty(party, name):
    """Change the result of a protocol's first evaluation at party 0."""
    contract, count = REGISTRY[name], [0]
    honest = contract.body

    @functools.wraps(honest)
    def steps(end, *args, **kwargs):
        result = yield from honest(end, *args, **kwargs)
        count[0] += 1
        return result.map(lambda w: w + np.uint64(5)) if count[0] == 1 and party.rank == 0 else result

    contract.body = steps


def test_a_fault_in_a_program_of_the_users_own_leaves_no_result():
    """A program that calls nothing afterwards that would request a verdict."""

    def job(party):
        faulty(party, "beaver.multiply")
        return operators(party)

    with pytest.raises(AuditFailure, match=r"found inconsistent values in: set-up: beaver\.multiply"):
        run_local(job, audit=True)


def test_a_fault_between_hosts_leaves_no_result(tmp_path, monkeypatch):
    contract = REGISTRY["beaver.multiply"]
    monkeypatch.setattr(contract, "body", contract.body)  # restored at the end

    def job(party):
        if party.rank == 0:
            faulty(party, "beaver.multiply")
        x = party.share([2] if party.rank == 0 else None, owner=0)
        y = party.share([3] if party.rank == 1 else None, owner=1)
        return party.reveal(multiply(party, x, y), what="the product")

    with dealing(tmp_path) as dealer:
        ends = both(dealer.network(audit=True), job)
    assert [type(end) for end in ends] == [AuditFailure] * 2


def test_a_block_of_connect(tmp_path):
    write_job(tmp_path, NOTHING)
    for name in NOTHING:
        path = tmp_path / f"{name}.toml"
        path.write_text("audit = true\n" + path.read_text())
    with hosted_dealer(1, cwd=tmp_path):
        for status, out, log in parties(tmp_path):
            assert status == 0, log
            product, right = map(float, out.split())
            assert abs(product - 10) < 1e-3 and right > 0.8


def table_files(folder):
    for k, p in enumerate("ab"):
        rows = slice(30 * k, 30 * k + 30)
        frame = pd.DataFrame(MISSING[rows], columns=list("uvwx")).assign(y=CLASSES[rows], weight=WEIGHTS[rows])
        frame.insert(0, "colour", np.where(X[rows, 3] > 0, "red", "blue"))
        frame.to_csv(folder / f"{p}.csv", index=False)
    numeric = "\n".join(f'{name} = {{ type = "numeric", missing = true }}' for name in "uvwx")
    (folder / "schema.toml").write_text(
        'y = "label"\nweight = "weight"\ncolour = { type = "categorical", categories = ["red", "blue"] }\n' + numeric
    )


@pytest.mark.long
def test_the_commands_with_several_classes_weights_categories_and_missing_values(tmp_path):
    names = {"train_data": "{}.csv", "columns": "schema.toml", "model": "model_{}.npz", "predict_data": "{}.csv"}
    sections = {
        f"party_{p}": {k: v.format(p) for k, v in (names | {"predictions": "out_{}.csv"}).items()} for p in "ab"
    }
    write_job(tmp_path, sections, train={**SMALL, "objective": "multi:ova", "num_class": 3, "n_estimators": 1})
    table_files(tmp_path)
    with hosted_dealer(2, cwd=tmp_path):
        both_parties("train", "--audit", cwd=tmp_path)
        both_parties("predict", "--audit", cwd=tmp_path)
    assert all(len((tmp_path / f"out_{p}.csv").read_text().splitlines()) == 31 for p in "ab")


def written(folder, *lines):
    write_job(folder, NOTHING)
    path = folder / "party_a.toml"
    path.write_text("".join(f"{line}\n" for line in lines) + path.read_text())
    return path


def test_what_an_audit_does_not_go_with_is_refused(tmp_path, monkeypatch):
    config = HostsConfig.read(written(tmp_path, "audit = true"))
    model = type("Half", (), {"rank": 0})
    monkeypatch.setattr("sharewood.serving.service.SharedModel.load", lambda *_: model)
    monkeypatch.setattr(HostsConfig, "needs", lambda *_: tmp_path)
    with pytest.raises(ConfigError, match="audit must be false for sharewood serve"):
        Service(config, "party_a")
    with pytest.raises(ConfigError, match="leave out shards"):
        config.on_cluster("party_a", 2, None)
    plain = HostsConfig.read(written(tmp_path / "more", "shards = 2"))
    with pytest.raises(ConfigError, match="leave out shards"):
        plain.audited(True)
