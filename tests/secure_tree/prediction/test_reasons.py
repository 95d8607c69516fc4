"""Contributions and names of reasons against XGBoost's `pred_contribs` of the exported model."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from mpc.checks.verdict import REVEALED
from mpc.errors import ConfigError, DataError
from mpc.matrix.linear_map import MatrixVectors
from protocols.offline.pairwise.cost import request_transfers
from protocols.testing.two_parties import dealt, made_by_both, run_both
from secure_tree.agreement.messages import VERSION
from secure_tree.exchange.plain_model import reveal_model, share_model
from secure_tree.exchange.xgboost import to_xgboost
from secure_tree.model.shared_model import SharedModel
from secure_tree.prediction.reasons.cost import plan_reasons
from secure_tree.prediction.reasons.explaining import Contributions
from secure_tree.public.config import TrainConfig
from secure_tree.public.context import TrainingContext
from secure_tree.training.cost import Sizes
from tests.secure_tree.exchange.test_share import X as DATA
from tests.secure_tree.exchange.test_share import estimator_of, plain_of, train
from tests.secure_tree.opened import train_both
from tests.secure_tree.public.test_sampling import three_classes
from tests.secure_tree.test_layouts import columns, with_holes
from tests.secure_tree.test_twin import halves, table
from tests.secure_tree.training.test_audit import audited

xgboost = pytest.importorskip("xgboost")

KINDS = {
    "depth 1": {"max_depth": 1},
    "depth 2": {"max_depth": 2},
    "depth 4": {"max_depth": 4},
    "joint edges": {"edges": "joint"},
    "depth 6, null splits": {"max_depth": 6, "min_split_loss": 1.0},
    "stumps without splits": {"max_depth": 2, "min_split_loss": 1000.0},
    "numbers": {"objective": "reg:squarederror"},
    "counts": {"objective": "count:poisson"},
    "classes": {"objective": "multi:ova", "num_class": 3},
    "missing": {"missing": "all"},
}
OTHERS = {"columns": {"partition": "vertical", "missing": "all", "max_depth": 4}, "depth 7": {"max_depth": 7}}


def exported(models):
    (plain, _), _ = run_both(lambda party: reveal_model(party, models[party.rank].model, 0))
    return xgboost.Booster(model_file=bytearray(json.dumps(to_xgboost(plain)).encode()))


def contribs(booster, rows):
    return booster.predict(xgboost.DMatrix(rows, feature_names=booster.feature_names), pred_contribs=True)


def trained(kind):
    """Train a model of a kind; return both estimators, the tables to predict, and all of their rows."""
    parameters = dict(n_estimators=4, max_depth=3, max_bin=8, learning_rate=0.5) | (KINDS | OTHERS)[kind]
    X, y = table(90, 4, seed=71)
    if kind == "classes":
        X, y = three_classes(90, seed=71)
    elif kind == "numbers":
        y = (X[:, 0] - X[:, 2]) * 30 - 7
    elif kind == "counts":
        y = np.floor(np.exp(X[:, 0] / 2))
    if "missing" in parameters:
        X = with_holes(X, 0.2)
    tables, labels = columns(X, y, 2) if kind == "columns" else halves(X, y, 40)
    if kind == "columns":
        tables = pd.DataFrame(X[:, :2], columns=["a", "b"]), pd.DataFrame(X[:, 2:], columns=["c", "d"])
    return train_both(tables, labels, **parameters).models, tables, X


def explained(models, tables, source=None, **asked):
    """Return what each party learns, and the parties."""
    job = lambda party: models[party.rank].contributions(  # noqa: E731
        party, tables[party.rank], **{"method": "thresholds", **asked}
    )
    return run_both(job, **({"source": source} if source else {}))


def in_order(contributions, names, top, sign=1):
    """Return the names of the strongest contributions in one direction, as reasons list them."""
    strongest = np.argsort(-sign * contributions, kind="stable")[:top]
    return tuple(names[f] for f in strongest if sign * contributions[f] > 2e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_those_of_the_exported_model(kind):
    models, tables, _ = trained(kind)
    booster, unit = exported(models), models[0].model.facts.margin_unit
    found, parties = explained(models, tables, show="numbers")
    for own, rows in zip(found, tables, strict=True):
        theirs = contribs(booster, rows)
        assert own.names == models[0].model.facts.names
        assert np.abs(own.values - theirs[..., :-1]).max() < 2e-6 * unit
        assert np.abs(own.mean - theirs[0, ..., -1]).max() < 1e-5 * unit
        data = xgboost.DMatrix(rows, feature_names=booster.feature_names)
        margins = booster.predict(data, output_margin=True)
        assert np.abs(own.values.sum(axis=-1) + own.mean - margins).max() < 1e-5 * unit
    assert [party.revealed for party in parties] == [["contributions of its own rows, and the mean margin"]] * 2


@pytest.mark.parametrize("kind", ["depth 4", "numbers", "classes", "missing"])
@pytest.mark.parametrize("toward", ["higher", "lower"])
def test_names_are_the_strongest_in_order(kind, toward):
    models, tables, _ = trained(kind)
    booster, names = exported(models), models[0].model.facts.names
    found, parties = explained(models, tables, top=3, toward=toward)
    for own, rows in zip(found, tables, strict=True):
        theirs = contribs(booster, rows)[..., :-1]
        sign = 1 if toward == "higher" else -1
        for row, reasons in zip(theirs, own, strict=True):
            if kind == "classes":
                assert reasons == [in_order(of_class, names, 3, sign) for of_class in row]
            else:
                assert reasons == in_order(row, names, 3, sign)
    assert [party.revealed for party in parties] == [["the strongest reasons of its own rows"]] * 2


def test_a_feature_that_no_tree_uses_has_no_part():
    models, tables, _ = trained("depth 1")
    booster = exported(models)
    unused = [f for f, name in enumerate(models[0].model.facts.names) if name not in booster.get_score()]
    (own, _), _ = explained(models, tables, show="numbers")
    assert unused and np.abs(own.values[:, unused]).max() < 1e-6
    (reasons, _), _ = explained(models, tables)
    assert not {name for row in reasons for name in row} & {f"f{f}" for f in unused}


def test_groups_add_up_before_the_ranking():
    models, tables, _ = trained("depth 4")
    groups, booster = {"even": ["f0", "f2"]}, exported(models)
    (numbers, _), _ = explained(models, tables, show="numbers", groups=groups)
    (reasons, _), _ = explained(models, tables, groups=groups)
    theirs = contribs(booster, tables[0])
    joined = np.stack([theirs[:, 0] + theirs[:, 2], theirs[:, 1], theirs[:, 3]], axis=1)
    assert numbers.names == ("even", "f1", "f3") and np.abs(numbers.values - joined).max() < 2e-6
    assert reasons == [in_order(row, numbers.names, 4) for row in joined]


@pytest.mark.parametrize("receiver", [None, 1])
def test_by_columns_the_other_partys_data_are_one_reason(receiver):
    models, tables, X = trained("columns")
    theirs, mine = contribs(exported(models), X)[:, :-1], receiver or 0  # who has the labels
    found, parties = explained(models, tables, to=receiver)
    names = ["data of party_a", "c", "d"] if mine else ["a", "b", "data of party_b"]
    joined = [theirs[:, :2].sum(axis=1), *theirs[:, 2:].T] if mine else [*theirs[:, :2].T, theirs[:, 2:].sum(axis=1)]
    assert found[mine] == [in_order(row, names, 4) for row in np.stack(joined, axis=1)]
    assert found[1 - mine] == [] and parties[1 - mine].revealed == []
    by_name = {name: [name] for name in "abcd"}
    found, _ = explained(models, tables, to=receiver, groups=by_name, show="numbers")
    assert np.abs(found[mine].values - theirs).max() < 2e-6 and found[1 - mine].values.shape == (0, 4)


def test_bins_route_as_thresholds_do():
    models, tables, _ = trained("joint edges")
    (by_bins, _), (by_thresholds, _) = (
        explained(models, tables, show="numbers", method=method)[0] for method in ("bins", "thresholds")
    )
    assert np.abs(by_bins.values - by_thresholds.values).max() < 1e-6


@pytest.mark.parametrize("kind", ["depth 1", "depth 4", "classes"])
def test_without_a_dealer(kind):
    models, tables, _ = trained(kind)
    booster, tables = exported(models), [X[:6] for X in tables]
    (numbers, _), _ = explained(models, tables, show="numbers", source=made_by_both)
    (reasons, _), _ = explained(models, tables, groups={"even": ["f0", "f2"]}, top=2, source=made_by_both)
    theirs = contribs(booster, tables[0])[..., :-1]
    assert np.abs(numbers.values - theirs).max() < 1e-5
    if kind != "classes":
        joined = np.stack([theirs[:, 0] + theirs[:, 2], theirs[:, 1], theirs[:, 3]], axis=1)
        assert reasons == [in_order(row, ("even", "f1", "f3"), 2) for row in joined]


SHARED = ["binary:logistic", "reg:squarederror", "count:poisson", "multi:softprob"]


@pytest.mark.parametrize("objective", SHARED)
@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_a_shared_model_is_explained(tmp_path, objective, holes):
    booster = train(objective, holes, rounds=5, max_depth=5, gamma=0.5)
    plain, rows = plain_of(booster), with_holes(DATA[:40], holes, seed=3)

    def job(party):
        path = tmp_path / f"{party.rank}.npz"
        share_model(party, plain if party.rank == 0 else None, "all" if holes else "none").save(path)
        model = estimator_of(SharedModel.load(path))
        own = rows if party.rank == 1 else rows[:0]
        numbers = model.contributions(party, own, method="thresholds", show="numbers")
        return numbers, model.contributions(party, own, method="thresholds", top=3)

    (_, (numbers, reasons)), _ = run_both(job)
    theirs = booster.predict(xgboost.DMatrix(rows), pred_contribs=True)
    assert np.abs(numbers.values - theirs[..., :-1]).max() < 2e-6 * max(1, np.abs(theirs).max())
    assert np.abs(numbers.mean - theirs[0, ..., -1]).max() < 1e-5 * max(1, np.abs(theirs).max())
    if objective != "multi:softprob":
        assert reasons == [in_order(row[:-1], numbers.names, 3) for row in theirs]


def test_a_shared_model_without_sums_of_hessians_is_refused():
    plain = plain_of(train("binary:logistic", rounds=2, max_depth=2))
    wrong = plain.covers.copy()
    wrong[1, 1] *= 2
    for covers in (np.zeros_like(plain.covers), wrong):

        def job(party, covers=covers):
            model = estimator_of(share_model(party, replace(plain, covers=covers) if party.rank == 0 else None))
            return model.contributions(party, DATA[:2], method="thresholds")

        with pytest.raises(DataError, match="no sums of hessians"):
            run_both(job)


def test_the_table_is_made_once():
    models, tables, _ = trained("depth 4")

    def job(party):
        model, own = models[party.rank], tables[party.rank]
        model.predict_margin(party, own, "thresholds")
        first = model.contributions(party, own, method="thresholds")
        made = party.stages["reasons_table"].rounds
        assert model.contributions(party, own, method="thresholds", top=2) == [row[:2] for row in first]
        assert made and party.stages["reasons_table"].rounds == made
        model.contributions(party, own, method="thresholds", show="numbers")
        return [party.stages[name].rounds for name in ("predict", "reasons")]

    ((predict, reasons), _), _ = run_both(job)
    # For each party's rows, numbers take a round less than a prediction; names, which two of the three calls ask for,
    # three more than numbers for the ranks.
    assert reasons == 3 * (predict - 2) + 2 * 3 * 2


@pytest.mark.parametrize("source", [dealt, made_by_both])
def test_an_audit_passes(source):
    models, tables, _ = trained("depth 2")
    booster = exported(models)

    def job(party):
        model, own = models[party.rank], tables[party.rank][:3]
        numbers = model.contributions(party, own, method="thresholds", show="numbers")
        return numbers.values, model.contributions(party, own, method="thresholds")

    ((numbers, reasons), _), parties = audited(job, source)
    theirs = contribs(booster, tables[0][:3])[:, :-1]
    assert np.abs(numbers - theirs).max() < 1e-5 and len(reasons) == 3
    assert REVEALED in parties[0].revealed


def test_what_is_refused():
    assert VERSION >= 14
    models, tables, _ = trained("depth 4")
    wrong = {
        "top must be 1 .. 64, got 0": {"top": 0},
        "top must be 1 .. 64, got 65": {"top": 65},
        'show must be "names" or "numbers"': {"show": "all"},
        "in one group at most, got 'f7'": {"groups": {"a": ["f7"]}},
        "must have a column, got none for 'a'": {"groups": {"a": []}},
        "in one group at most, got 'f1'": {"groups": {"a": ["f1"], "b": ["f1"]}},
        "must not have the name of a column outside of the groups, got 'f0'": {"groups": {"f0": ["f1"]}},
        "must be 0 or 1 for vertical data": {"to": 1},
    }
    for message, asked in wrong.items():
        with pytest.raises(ConfigError, match=message):
            explained(models, tables, **asked)

    def disagree(**asked):
        def job(party):
            mine = {name: pair[party.rank] for name, pair in asked.items()}
            return models[party.rank].contributions(party, tables[party.rank], method="thresholds", **mine)

        return run_both(job)

    for name, pair in {"show": ("names", "numbers"), "top": (3, 4), "toward": ("higher", "lower")}.items():
        with pytest.raises(ConfigError, match=f"disagree on {name}"):
            disagree(**{name: pair})
    with pytest.raises(ConfigError, match="disagree on groups"):
        disagree(groups=({"a": ["f0"]}, {"a": ["f1"]}))


def test_deep_trees_are_refused():
    models, tables, _ = trained("depth 7")
    with pytest.raises(ConfigError, match="depth 6 at most, got 7"):
        explained(models, tables)


def test_columns_of_owners_are_refused():
    X, y = table(80, 3, seed=5)
    frame = pd.DataFrame(X, columns=list("uvw"))
    training = train_both(
        (frame[["u"]], frame[["v"]]),
        (y, None),
        owners={"bank": (frame[["w"]], None)},
        partition="vertical",
        n_estimators=1,
        max_depth=2,
        max_bin=4,
    )
    with pytest.raises(ConfigError, match="reasons need a model without columns of owners who are no party"):
        explained(training.models, (frame[["u"]], frame[["v"]]))


@pytest.mark.parametrize("source", [dealt, made_by_both])
@pytest.mark.parametrize("parameters", [{"max_depth": 1}, {"max_depth": 3}, {"max_depth": 2, "gamma": 1e6}])
def test_one_row_of_one_column_and_more_names_than_columns(parameters, source):
    booster = train("binary:logistic", rounds=2, features=DATA[:, :1], **parameters)
    plain, rows = plain_of(booster), DATA[:1, :1]

    def job(party):
        model = estimator_of(share_model(party, plain if party.rank == 0 else None))
        own = rows if party.rank == 1 else rows[:0]
        return [model.contributions(party, own, 64, method="thresholds", toward=way) for way in ("higher", "lower")]

    (_, found), _ = run_both(job, source=source)
    theirs = booster.predict(xgboost.DMatrix(rows), pred_contribs=True)[:, :-1]
    assert found == [[in_order(theirs[0], ("f0",), 64, sign)] for sign in (1, -1)]
    assert ([names for (names,) in found] == [(), ()]) == ("gamma" in parameters)


def test_results_of_no_rows():
    models, _, _ = trained("depth 2")
    empty = [np.zeros((0, 4), np.float32)] * 2
    (reasons, _), _ = explained(models, empty)
    (numbers, _), _ = explained(models, empty, show="numbers")
    assert reasons == [] and isinstance(numbers, Contributions) and numbers.values.shape == (0, 4)


@pytest.mark.parametrize("source", [dealt, made_by_both])
@pytest.mark.parametrize("show", ["names", "numbers"])
@pytest.mark.parametrize(("kind", "method"), [("depth 4", "thresholds"), ("joint edges", "bins"), ("classes", "bins")])
def test_as_planned(source, show, kind, method):
    models, tables, _ = trained(kind)
    tables = [tables[0][:5], tables[1][:0]]
    _, parties = explained(models, tables, source, show=show, method=method)
    model = models[0].model
    planned = plan_reasons(
        TrainingContext(model.config, model.facts),
        5,
        show=show,
        method=method,
        dealer=source is dealt,
        round_price=0,
    )
    total = parties[0].meter.total
    # The two messages of the agreement are in the clear, and are not counted.
    assert total.rounds - 2 == sum(demand.rounds for demand in planned)
    assert total.sent // 8 == sum(demand.sent for demand in planned)
    assert total.received // 8 == sum(demand.received for demand in planned)


def test_what_a_table_and_100_rows_cost():
    names = tuple(f"f{i}" for i in range(100))
    config = TrainConfig.of(n_estimators=60, max_depth=4, learning_rate=0.3)
    context = Sizes((2000, 2000), (names, names)).context(config)
    table, rows = plan_reasons(context, 100, show="numbers")
    assert (table.rounds, table.sent + table.received) == (37, 17_732_480)
    assert (rows.rounds, rows.sent + rows.received) == (7, 8_308_800)
    for count, rounds, sent in ((1, 10, 819_018), (100, 15, 9_169_800)):
        _, ranked = plan_reasons(context, count)
        assert (ranked.rounds, ranked.sent + ranked.received) == (rounds, sent)
    _, paired = plan_reasons(context, 100, method="bins", dealer=False)
    _, numbers = plan_reasons(context, 100, method="bins", show="numbers", dealer=False)
    assert (per_row(paired), per_row(numbers)) == (1_200_766, 376_227)


def per_row(demand, rows=100):
    """Return the bytes of a row without a dealer, of which those of its routing are a prediction's."""
    offline = [request_transfers(one) for one in demand.requests if not isinstance(one, MatrixVectors)]
    return (8 * (demand.sent + demand.received) + sum(sum(one.bits) for one in offline)) // (8 * rows)
