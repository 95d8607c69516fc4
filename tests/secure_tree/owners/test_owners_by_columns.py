"""Owners of columns who are no party: every split is the twin's on the joined table, and cheats are named."""

import datetime as dt
import math
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from mpc.errors import ConfigError, DataError, PeerFailure, ProtocolDesync, RangeError, WorkersLost
from protocols.runtime import run_local
from protocols.testing.two_parties import DirectWorkers, made_by_both, opened, run_both, with_workers
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.agreement.messages import VERSION
from secure_tree.agreement.same_rows import digest_of, joined_digest
from secure_tree.cross_validation import _folds, cross_validate
from secure_tree.data.table import Table, held_rows, rows_of
from secure_tree.exchange.plain_model import reveal_model
from secure_tree.owners import column_admission, columns
from secure_tree.owners.columns import OwnersOfColumns, shapes, training_bits
from secure_tree.owners.contributing import contribute
from secure_tree.owners.halves import divide_bits
from secure_tree.owners.lines import send_halves
from secure_tree.owners.stored import Stored
from secure_tree.prediction.client import ask
from secure_tree.public import bounds
from secure_tree.public.config import TrainConfig
from secure_tree.public.context import OwnerColumns
from secure_tree.training.checkpoint import Checkpoints
from secure_tree.training.cost import Sizes, plan_training
from secure_tree.twin.boost import PlainEnsemble
from secure_tree.workers.sources import Loaded, Shards
from tests.secure_tree.opened import contributing, train_both
from tests.secure_tree.test_twin import check, table

PARAMETERS = {"n_estimators": 2, "max_depth": 3, "max_bin": 8, "partition": "vertical", "learning_rate": 0.3}
WIDTHS = (2, 3, 2, 1)
FACTS = {
    "version": VERSION,
    "id": "a" * 32,
    "rows": 20,
    "exponent": None,
    "weight": None,
    "names": ["a"],
    "labelled": False,
    "ids": False,
}


def parts_of(n, widths=WIDTHS, seed=3, missing=False, classes=2):
    """A table cut by columns, and labels that depend on all parts."""
    X, _ = table(n, sum(widths), seed)
    score = X.sum(axis=1) + np.random.default_rng(seed).normal(size=n)
    y = np.digitize(score, np.quantile(score, np.arange(1, classes) / classes)).astype(float)
    if missing:
        X[::3, -1] = np.nan
        X[1::4, 0] = np.nan
    return np.split(X, np.cumsum(widths)[:-1], axis=1), y


def owners_of(parts, y=None, holder=None):
    return {f"bank_{k:02}": (part, y if k + 2 == holder else None) for k, part in enumerate(parts[2:])}


def trained(parts, y, holder=2, then=None, **parameters):
    """Train on two parties' parts and those of owners; part `holder` has the labels."""
    labels = tuple(y if k == holder else None for k in (0, 1))
    return train_both(
        tuple(parts[:2]), labels, owners=owners_of(parts, y, holder), then=then, **{**PARAMETERS, **parameters}
    )


def splits_beyond(training, features):
    layout = training.facts.layout
    winners = np.concatenate([tree.winner for tree in training.trees])
    return (layout.candidate_features[winners[winners < layout.candidates - 1]] >= features).any()


@pytest.mark.parametrize("holder", [0, 1, 2, 3])
def test_every_split_is_the_twins_on_the_joined_table(holder):
    training = trained(*parts_of(90), holder)
    assert len(check(training, 2)) > 1 and splits_beyond(training, 5)
    assert training.facts.label_holder == holder


@pytest.mark.parametrize(
    ("shape", "parameters"),
    [
        ({"widths": (0, 0, 3, 2)}, {}),
        ({"widths": (0, 2, 1, 1, 1)}, {}),
        ({"widths": (2, 1, 0, 2)}, {}),
        ({"widths": (2, 2, 0)}, {}),
        ({"missing": True}, {"missing": "all"}),
        ({"widths": (2, 2, 1), "missing": True, "seed": 5}, {"missing": ("f0",)}),
        ({"classes": 3}, {"objective": "multi:ova", "num_class": 3}),
        ({}, {"max_bin": "exact", "max_depth": 2}),
        ({}, {"min_child_samples": 9, "reg_alpha": 0.4}),
        ({}, {"subsample": 0.7, "colsample_bytree": 0.5, "random_state": 3}),
        ({}, {"monotone_constraints": (1, 0, 0, 0, -1, 1, 0, -1)}),
        ({}, {"interaction_constraints": [[0, 7], [1, 2, 4], [3, 4, 5, 7]], "max_depth": 4}),
    ],
)
def test_whatever_is_trained(shape, parameters):
    parts, y = parts_of(60, **shape)
    check(trained(parts, y, 2, **parameters), 2)


@pytest.mark.parametrize("n", [1, 2, 9])
def test_few_rows(n):
    parts, _ = parts_of(n)
    check(trained(parts, np.arange(n) % 2.0 if n > 1 else np.ones(1), 3), 2)


@pytest.mark.parametrize("holder", [1, 2])
@pytest.mark.parametrize("objective", ["squarederror", "count:poisson"])
def test_numbers(objective, holder):
    parts, _ = parts_of(80)
    y = np.random.default_rng(1).poisson(np.exp(parts[2][:, 0])).astype(float)
    training = trained(parts, y, holder, objective=objective)
    check(training, 2)
    if objective == "squarederror":
        assert abs(training.base[0] * training.label_scale - y.mean()) < 1e-3
    else:
        assert abs(training.base[0] + training.facts.margin_offset - np.log(y.mean())) < 1e-3


@pytest.mark.parametrize(("parameters", "holder"), [({"scale_pos_weight": 3.0}, 2), ({"scale_pos_weight": 3.0}, 0)])
def test_weights_of_classes(parameters, holder):
    parts, y = parts_of(90)
    assert len(check(trained(parts, y, holder, **parameters), 2)) > 1


def test_weights_of_an_owner_are_those_of_a_party():
    """The first tree is that of a training in which a party has the same labels and weights."""
    parts, y = parts_of(90)
    weights = np.random.default_rng(2).integers(1, 9, 90) / 8

    def first_tree(holder):
        given = (y, weights)
        owners = {
            f"bank_{k}": partial(
                contribute, X=part, y=given[0] if k == holder else None, sample_weight=given[1] if k == holder else None
            )
            for k, part in enumerate(parts)
        }
        lines, _ = contributing({name: owners[name] for name in ("bank_2", "bank_3")})

        def train(party):
            mine = given if party.rank == holder else (None, None)
            model = SecureXGBClassifier(**{**PARAMETERS, "n_estimators": 1, "min_split_loss": 0.0})
            model.fit(party, parts[party.rank], *mine, contributed=lines[party.rank])
            return model.model

        return run_both(train)[0]

    of_party, of_owner = first_tree(1), first_tree(3)
    for name in ("features", "thresholds", "leaves"):
        one, other = (opened([getattr(half.ensemble, name) for half in halves]) for halves in (of_party, of_owner))
        assert np.abs(one - other).max() <= (1e-2 * 2**20 if name == "leaves" else 0)


def test_bins_are_lifted_some_rows_after_the_other(monkeypatch):
    monkeypatch.setattr(column_admission, "PIECE", 3 * 8 * 20)
    training = trained(*parts_of(90))
    assert len(check(training, 2)) > 1 and splits_beyond(training, 5)


def test_without_a_dealer():
    check(trained(*parts_of(40), source=made_by_both, n_estimators=1, max_depth=2, max_bin=4), 1)


def test_rounds_of_a_tree_do_not_grow_with_owners():
    def rounds(*widths):
        parts, y = parts_of(40, widths)
        return [party.stages["online"].rounds for party in trained(parts, y, 0).parties]

    assert rounds(2, 2) == rounds(2, 2, 2) == rounds(2, 2, 2, 1, 1)


@pytest.mark.parametrize("holder", [0, 3])
def test_held_out_rows(holder):
    parts, y = parts_of(160)
    training = trained(parts, y, holder, test_size=0.25, eval_metric=("auc", "logloss"))
    assert len(check(training, 2)) > 1
    held = held_rows(training.config, len(y))
    margins = ensemble(training).predict_margin(np.concatenate(parts, axis=1)[held])
    p = 1 / (1 + np.exp(-margins))
    logloss = -np.log(np.where(y[held] == 1, p, 1 - p)).mean()
    curves = training.models[0].curves
    assert curves == training.models[1].curves and abs(curves["logloss"][-1][1] - logloss) < 1e-3


def test_early_stopping_by_held_out_rows():
    parts, y = parts_of(160)
    training = trained(
        parts, y, 2, n_estimators=6, learning_rate=1.0, test_size=0.3, early_stopping_rounds=1, eval_epochs=1
    )
    assert training.models[0].model.rounds < 6


def ensemble(training):
    """The twin's trees as a model."""
    return PlainEnsemble(training.data, training.config, training.twins(), np.zeros(0), float(training.base[0]))


@pytest.mark.parametrize("missing", [False, True])
def test_predictions_are_the_twins(missing):
    parts, y = parts_of(90, missing=missing)
    new, _ = parts_of(25, seed=11, missing=missing)
    lines, _ = contributing(owners_of(new))

    def predict(model, party):
        return model.predict_margin(party, new[party.rank], "thresholds", to=1, contributed=lines[party.rank])

    training = trained(parts, y, 3, then=predict, missing="all" if missing else "none")
    expected = ensemble(training).predict_margin(np.concatenate(new, axis=1))
    nothing, predicted = training.results
    assert nothing.size == 0 and np.abs(predicted - expected).max() < 1e-3


def test_clients_have_all_features():
    parts, y = parts_of(90)
    new, _ = parts_of(7, seed=11)
    lines, said = contributing({"shop": lambda lines: ask(lines, np.concatenate(new, axis=1))})

    def answer(model, party):
        return model.predict_for(party, lines[party.rank])

    training = trained(parts, y, 3, then=answer)
    margins = ensemble(training).predict_margin(np.concatenate(new, axis=1))
    assert np.abs(said[0].result()[:, 1] - 1 / (1 + np.exp(-margins))).max() < 1e-3


def test_a_training_is_resumed(tmp_path):
    parts, y = parts_of(60)
    lines, _ = contributing(owners_of(parts, y, 3))

    def collect(party):
        SecureXGBClassifier(**PARAMETERS).collect(
            party, parts[party.rank], None, lines[party.rank], tmp_path / str(party.rank)
        )

    run_both(collect)

    def leaves(rounds, resume):
        def train(party):
            kept = Checkpoints(tmp_path / f"checkpoints_{party.rank}", resume)
            model = SecureXGBClassifier(**{**PARAMETERS, "n_estimators": rounds})
            model.fit(party, parts[party.rank], checkpoints=kept, contributed=Stored(tmp_path / str(party.rank)))
            return model.model.ensemble.leaves

        return opened(run_both(train)[0])

    first = leaves(1, False)
    assert np.array_equal(leaves(3, True)[0], first[0])


def of_people(n, seed):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"age": rng.normal(size=n), "c": pd.Categorical(rng.choice(["red", "blue"], n))})
    return X, rng.normal(size=(n, 2)), ((X["c"] == "red") + X["age"] > 0.5).astype(int).to_numpy()


def job(party):
    _, other, y = of_people(80, 1)
    mine = (other[:, :1], other[:, 1:])[party.rank]
    model = SecureXGBClassifier(**PARAMETERS).fit(party, mine, y if party.rank else None, contributed=party.contributed)
    proba = model.predict_proba(party, mine, "thresholds", contributed=party.contributed)
    return proba, model.model.facts.names, party.revealed


def test_owners_as_processes_with_categories():
    people, _, y = of_people(80, 1)

    def twice(lines):
        first = contribute(lines, people, None)
        contribute(lines, people[["c", "age"]], None)
        return first["rows"]

    (nothing, names, revealed), (proba, *_) = run_local(job, owners={"bank": twice}, timeout=60)
    assert names == ("f0", "f0", "age", "c=blue", "c=red") and nothing.size == 0
    assert ((proba[:, 1] > 0.5) == y).mean() > 0.85
    assert revealed == ["that the columns of each owner are valid"]


def test_an_owner_passes_a_pair():
    (_, _, y), (people, other, _) = of_people(80, 1), of_people(80, 1)

    def train(party):
        mine = (other[:, :1], other[:, 1:])[party.rank]
        model = SecureXGBClassifier(**PARAMETERS).fit(party, mine, contributed=party.contributed)
        return model.model.facts.label_holder

    assert run_local(train, owners={"bank": (people, y)}, timeout=60) == (2, 2)


def lie(monkeypatch, rows, change):
    """Let the owner with this number of features change its bits."""
    honest = training_bits

    def lying(config, own, facts):
        made = honest(config, own, facts)
        if own.features.shape[1] == rows:
            change(made)
        return made

    monkeypatch.setattr(columns, "training_bits", lying)


def more_ones(bits):
    bits[-8:] = 1


def no_ones(bits):
    bits[-8:] = 0


def of_every_class(bits):
    bits[: 3 * 60 : 60] = 1


@pytest.mark.parametrize("change", [more_ones, no_ones, of_every_class])
def test_an_owner_that_lies_is_named(monkeypatch, change):
    classes = {"objective": "multi:ova", "num_class": 3} if change is of_every_class else {}
    parts, y = parts_of(60, classes=3 if classes else 2)
    lie(monkeypatch, 1, change)
    with pytest.raises(DataError, match="bank_01: its rows have not one bin per feature and one class each"):
        trained(parts, y, 3, **classes)


def test_keys_are_not_checked(monkeypatch):
    """An owner with other keys changes predictions by its own columns, and nothing of the training."""

    def other_keys(bits):
        bits[: 8 * 33] ^= 1

    lie(monkeypatch, 1, other_keys)
    check(trained(*parts_of(60), 2), 2)


@pytest.mark.parametrize(
    ("rows", "holders", "sentence"),
    [
        ((60, 59), (2,), "bank_01 has 59 rows, and the parties 60: by columns, everyone must have the same rows"),
        ((60, 60), (), "neither a party nor an owner has labels: exactly one must"),
        ((60, 60), (2, 3), "bank_00 and bank_01 have labels: exactly one"),
        ((60, 60), (0, 3), "party 0 and bank_01 have labels: exactly one"),
    ],
)
def test_tables_that_do_not_fit(rows, holders, sentence):
    parts, y = parts_of(60)
    owners = {
        f"bank_{k:02}": (part[:n], y[:n] if k + 2 in holders else None)
        for k, (part, n) in enumerate(zip(parts[2:], rows, strict=True))
    }
    labels = tuple(y if k in holders else None for k in (0, 1))
    with pytest.raises(DataError, match=sentence):
        train_both(tuple(parts[:2]), labels, owners=owners, **PARAMETERS)


def test_an_owner_that_tells_the_parties_different_features_is_named():
    parts, y = parts_of(20)

    def two_faced(lines):
        config = TrainConfig.of(**PARAMETERS)
        for line, name in zip(lines, ("a", "b"), strict=True):
            line.receive("owner.terms")
            line.send("owner.facts", {**FACTS, "names": [name]})
        parts = shapes(config, OwnerColumns("bank", "a" * 32, 20, names=("a",)))
        count = sum(map(math.prod, parts.values()))
        send_halves(lines, "owner.bits", divide_bits(np.zeros(count, np.uint8)))

    with pytest.raises(DataError, match="bank: it told the parties different rows, features, labels or terms"):
        train_both(tuple(parts[:2]), (y, None), owners={"bank": two_faced}, **PARAMETERS)


@pytest.mark.parametrize(
    ("facts", "error", "sentence"),
    [
        ({"rows": (1 << 31) - 1}, RangeError, "bank: contributes 2147483647 rows of 1 features, more than"),
        ({"names": []}, ProtocolDesync, "an owner must have features or labels"),
        ({"names": ["a", "a"]}, ProtocolDesync, "a name appears twice"),
        ({"rows": 0}, ProtocolDesync, "rows"),
        ({"weight": 3}, ProtocolDesync, "weights need labels"),
        ({"version": VERSION - 1}, ConfigError, "runs version"),
    ],
)
def test_facts_that_no_owner_has(facts, error, sentence):
    parts, y = parts_of(20)

    def odd(lines):
        for line in lines:
            line.receive("owner.terms")
            line.send("owner.facts", {**FACTS, **facts})

    with pytest.raises(error, match=sentence):
        train_both(tuple(parts[:2]), (y, None), owners={"bank": odd}, **PARAMETERS)


def with_ids(party_ids, owner_ids):
    """Train with ids at the parties and at the owner, if these are given."""
    parts, y = parts_of(30, (2, 2, 2))
    owner = {"bank": lambda lines: contribute(lines, parts[2], None, ids=owner_ids)}
    lines, _ = contributing(owner)

    def train(party):
        source = OwnersOfColumns(lines[party.rank], party_ids and digest_of(party_ids))
        labels = None if party.rank else y
        try:
            SecureXGBClassifier(**PARAMETERS).fit(party, parts[party.rank], labels, contributed=source)
        finally:
            lines[party.rank]["bank"].close()
        return party.revealed

    (revealed, _), _ = run_both(train)
    return revealed


def test_ids_must_be_the_same_and_only_a_bit_becomes_public():
    ids = [f"id{k}" for k in range(30)]
    assert with_ids(ids, ids)[0] == "whether the rows of each owner have the same ids"
    for others in (ids[::-1], ["x", *ids[1:]]):
        with pytest.raises(DataError, match="bank: must have the same ids as the parties"):
            with_ids(ids, others)
    with pytest.raises(DataError, match="the parties have ids of rows, and bank has none"):
        with_ids(ids, None)
    with pytest.raises(DataError, match="bank has ids of rows, and the parties have none"):
        with_ids(None, ids)


def test_predictions_need_the_owners_and_thresholds():
    parts, y = parts_of(40)
    wrong = {
        "must contribute those of the rows": {"method": "thresholds", "to": 0},
        'and method="thresholds"': {"to": 0, "contributed": {"bank_00": None}},
        "bank_01 must contribute, whose columns the model has": {
            "method": "thresholds",
            "to": 0,
            "contributed": {"bank_00": None},
        },
        "without MACs": {"method": "thresholds", "to": 0, "mac": True, "contributed": {"bank_00": None}},
    }

    def predict(model, party):
        for sentence, arguments in wrong.items():
            with pytest.raises(ConfigError, match=sentence):
                model.predict_margin(party, parts[party.rank], **arguments)

    trained(parts, y, then=predict)


def test_owners_have_the_rows_to_predict():
    parts, y = parts_of(40)
    new, _ = parts_of(10, seed=5)
    lines, _ = contributing(owners_of([*new[:3], new[3][:9]]))

    def predict(model, party):
        with pytest.raises(DataError, match="bank_01 has 9 rows, and the parties 10"):
            model.predict_margin(party, new[party.rank], "thresholds", to=0, contributed=lines[party.rank])
        for line in lines[party.rank].values():
            line.close()

    trained(parts, y, 0, then=predict)


def test_predictions_have_a_receiver():
    parts, y = parts_of(40)
    lines, _ = contributing(owners_of(parts))

    def predict(model, party):
        with pytest.raises(ConfigError, match="`to` must be 0 or 1: an owner had the labels"):
            model.predict_margin(party, parts[party.rank], "thresholds", contributed=lines[party.rank])

    trained(parts, y, 2, then=predict)


def test_halves_of_models_have_the_sets_of_all_blocks(tmp_path):
    parts, y = parts_of(40)
    new, _ = parts_of(10, seed=5)
    lines, _ = contributing(owners_of(new))

    def predict(model, party):
        path = tmp_path / f"{party.rank}.npz"
        model.save(path)
        again = SecureXGBClassifier.load(path)
        assert again.model.facts == model.model.facts and len(again.model.ensemble.sets) == 3
        return again.predict_margin(party, new[party.rank], "thresholds", to=0, contributed=lines[party.rank])

    training = trained(parts, y, 0, then=predict)
    expected = ensemble(training).predict_margin(np.concatenate(new, axis=1))
    assert np.abs(training.results[0] - expected).max() < 1e-3


def test_what_was_collected_is_trained_on_again_and_again(tmp_path):
    parts, y = parts_of(60)
    owners = owners_of(parts, y, 3)
    lines, said = contributing(owners)

    def collect(party):
        model = SecureXGBClassifier(**PARAMETERS)
        return model.collect(party, parts[party.rank], None, lines[party.rank], tmp_path / str(party.rank))

    (first, second), _ = run_both(collect)
    assert first == second and [each.result()["rows"] for each in said] == [60, 60]

    def train(without=(), labels=(None, None), **parameters):
        kept = {name: owner for name, owner in owners.items() if name not in without}
        return train_both(
            tuple(parts[:2]),
            labels,
            given=lambda rank: Stored(tmp_path / str(rank), without=without),
            owners=kept,
            **{**PARAMETERS, **parameters},
        )

    assert len(check(train(), 2)) > 1 and len(check(train(max_depth=2), 2)) > 1
    assert len(check(train(without=["bank_00"]), 2)) > 1
    with pytest.raises(ConfigError, match="was collected with max_bin 8, this training has 4"):
        train(max_bin=4)
    with pytest.raises(ConfigError, match="was collected with partition 'vertical'"):
        train(labels=(y, y), partition="horizontal", edges="joint", edge_bits=16)
    path = tmp_path / "0/bank_00.npz"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(DataError, match=r"bank_00\.npz"):
        train()


def estimator(**parameters):
    regression = not parameters.get("objective", "binary").startswith(("binary", "multi"))
    return (SecureXGBRegressor if regression else SecureXGBClassifier)(**parameters)


def collected(folder, parts, owners, config=PARAMETERS, labels=(None, None)):
    lines, said = contributing(owners)

    def collect(party):
        own = parts[party.rank], labels[party.rank], lines[party.rank]
        estimator(**config).collect(party, *own, folder / str(party.rank))

    run_both(collect)
    assert [each.result()["rows"] for each in said] == [len(parts[0])] * len(owners)


@pytest.mark.parametrize("holder", [2, 3])
def test_folds_are_those_of_two_parties_with_all_columns(tmp_path, holder):
    # Few values: the edges of all rows are those of every fold, so that all models are those of two parties.
    parts, y = parts_of(120)
    parts = [np.clip(np.round(part), -1, 1) for part in parts]
    parameters = {**PARAMETERS, "max_bin": 16, "eval_metric": "auc"}
    collected(tmp_path, parts, owners_of(parts, y, holder), parameters)

    def of_all(party):
        stored = Stored(tmp_path / str(party.rank))
        model = SecureXGBClassifier(**parameters)
        return cross_validate(party, model, parts[party.rank], folds=3, contributed=stored)

    def of_two(party):
        mine = parts[0] if party.rank == 0 else np.concatenate(parts[1:], axis=1)
        return cross_validate(party, SecureXGBClassifier(**parameters), mine, y if party.rank else None, folds=3)

    (first, second), _ = run_both(of_all)
    (expected, _), _ = run_both(of_two)
    assert np.array_equal(first["auc"], second["auc"]) and len(set(first["auc"])) == 3
    assert np.abs(first["auc"] - expected["auc"]).max() < 1e-4


def test_a_fold_is_what_the_owner_would_hold_out_of_its_bins():
    features = parts_of(40, (3,), missing=True)[0][0].astype(np.float32)
    config = TrainConfig.of(**{**PARAMETERS, "missing": "all"})
    owner = OwnerColumns("bank", "a" * 32, 40, None, None, ("x", "y", "z"), False, False)
    bits = training_bits(config, columns.Table(features, owner.names), owner)
    fold = next(_folds(40, 4, 0))
    given = columns.ContributedColumns(
        config, 0, {"bank": owner}, [shapes(config, owner)], [np.packbits(bits)], [], None, fold
    )
    cuts = columns.make_bins(features, 8).cuts
    for held, rows in ((False, np.delete(np.arange(40), fold)), (True, fold)):
        size = 9 + held
        hot = np.concatenate([given.hot(held, slice(a, a + 3), size).bits for a in range(0, len(rows), 3)])
        assert np.array_equal(hot.argmax(axis=2), columns.bin_rows(features[rows], cuts) - (not held))
        assert (hot.sum(axis=2) == 1).all()


@pytest.mark.parametrize("max_bin", [100, "exact"])
def test_bins_cut_before_the_folds_have_their_number_of_edges(tmp_path, max_bin):
    parts, y = parts_of(60)
    collected(tmp_path, parts, owners_of(parts, y, 2), {**PARAMETERS, "max_bin": max_bin})

    def folds(party):
        model = SecureXGBClassifier(**{**PARAMETERS, "max_bin": max_bin})
        cross_validate(party, model, parts[party.rank], contributed=Stored(tmp_path / str(party.rank)))

    with pytest.raises(ConfigError, match="max_bin must be a number of at most 48, the rows that a fold trains on"):
        run_both(folds)


KINDS = {
    "classes": {},
    "several": {"objective": "multi:ova", "num_class": 3},
    "numbers": {"objective": "reg:squarederror"},
    "counts": {"objective": "count:poisson"},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("holder", [1, 2, 3])
@pytest.mark.parametrize("test_size", [0.0, 0.3])
def test_more_rounds_of_a_model(no_coins, tmp_path, monkeypatch, kind, holder, test_size):
    monkeypatch.setattr(column_admission, "PIECE", 1000)
    parts, y = parts_of(160, seed=5, missing=kind == "classes", classes=3 if kind == "several" else 2)
    if kind in ("numbers", "counts"):
        rng, score = np.random.default_rng(4), parts[0][:, 1] / 2 + parts[2][:, 0] / 2
        y = rng.poisson(np.exp(score)).astype(float) if kind == "counts" else score + rng.normal(size=160)
    parameters = {**PARAMETERS, **KINDS[kind], "max_bin": 6, "max_depth": 2, "test_size": test_size}
    if kind == "classes":
        parameters["missing"] = "all"
    labels = tuple(y if holder == rank else None for rank in (0, 1))
    collected(tmp_path, parts, owners_of(parts, y, holder), parameters, labels)

    def fitted(rounds, before=(None, None)):
        def program(party):
            model, stored = estimator(**{**parameters, "n_estimators": rounds}), Stored(tmp_path / str(party.rank))
            model.fit(party, parts[party.rank], labels[party.rank], xgb_model=before[party.rank], contributed=stored)
            return model

        models, _ = run_both(program)
        return models, opened([model.model.ensemble.leaves for model in models])

    whole, leaves = fitted(4)
    half, _ = fitted(2)
    more, continued = fitted(2, half)
    assert more[0].model.rounds == 4 and np.abs(continued - leaves).max() < 2e-3 * np.abs(leaves).max()
    if test_size:
        assert abs(more[0].curve[-1][1] - whole[0].curve[-1][1]) < 2e-3 * max(1, whole[0].curve[-1][1])


def test_more_rounds_need_the_same_contributions(tmp_path):
    parts, y = parts_of(60)
    for folder in ("one", "two"):
        collected(tmp_path / folder, parts, owners_of(parts, y, 3))

    def fit(folder, before=(None, None), without=()):
        def program(party):
            stored = Stored(tmp_path / folder / str(party.rank), without=without)
            model = SecureXGBClassifier(**PARAMETERS)
            return model.fit(party, parts[party.rank], xgb_model=before[party.rank], contributed=stored)

        return run_both(program)[0]

    before = fit("one")
    with pytest.raises(DataError, match="must have been trained on the same contributions of owners"):
        fit("two", before)
    with pytest.raises(DataError, match="must have been trained on the same contributions of owners"):
        fit("one", before, without=["bank_00"])


def test_a_collection_keeps_all_contributions_or_none(tmp_path, monkeypatch):
    parts, y = parts_of(60)
    lie(monkeypatch, 1, more_ones)
    lines, said = contributing(owners_of(parts, y, 3))

    def collect(party):
        model = SecureXGBClassifier(**PARAMETERS)
        try:
            model.collect(party, parts[party.rank], None, lines[party.rank], tmp_path / str(party.rank))
        finally:
            for line in lines[party.rank].values():
                line.close()

    with pytest.raises(DataError, match="bank_01: its rows have not one bin per feature"):
        run_both(collect)
    assert list(tmp_path.iterdir()) == [] and all(isinstance(each.exception(), PeerFailure) for each in said)


def test_an_audit_covers_contributed_columns():
    people, other, y = of_people(80, 1)

    def train(party):
        mine = (other[:, :1], other[:, 1:])[party.rank]
        model = SecureXGBClassifier(**PARAMETERS).fit(
            party, mine, y if party.rank else None, contributed=party.contributed
        )
        return len(model.model.facts.names)

    assert run_local(train, owners={"bank": (people, None)}, audit=True, timeout=60) == (5, 5)


def test_what_an_owner_uploads():
    """A bit per bin and row, 33 bits per edge, a bit per label; seeds to party 0."""
    X, y = table(50, 3, 7)
    sent = {}

    class Line:
        wire_sent = 0

        def __init__(self, peer):
            self.peer = peer

        def receive(self, tag, limit=None):
            config = TrainConfig.of(**PARAMETERS).model_dump()
            terms = {"version": VERSION, "config": config, "purpose": "training", "names": [], "categories": {}}
            return terms if tag == "owner.terms" else ""

        def send(self, tag, tree):
            if tag != "owner.facts":
                ((name, content),) = tree.items()
                sent[self.peer, tag] = name, len(content)

    contribute([Line("party_a"), Line("party_b")], X, y)
    assert sent == {
        ("party_a", "owner.bits"): ("seed", 32),
        ("party_b", "owner.bits"): ("data", -(-(50 * 3 * 8 + 3 * 8 * 33 + 50) // 8)),
    }


def test_bytes_between_the_parties():
    """Once: bits to words, matrices and keys masked, a seed and the sums that must be 0. Each tree: what party 0 sends
    if party 1 has these columns, and the gradients of nodes whose histograms are needed.
    """
    n, K, D, owners, nodes = 64, 8, 4, 2, 4
    config = TrainConfig.of(**{**PARAMETERS, "n_estimators": 1, "base_score": 0.5})

    def plan(mine, theirs, others=()):
        own, *rest = (tuple(f"f{k}" for k in range(count)) for count in (mine, theirs, *others))
        demands = plan_training(config, Sizes((n, n), (own, rest[0]), owner_names=tuple(rest[1:])))
        return np.array([demand.sent for demand in demands]), [demand.rounds for demand in demands]

    (with_owners, rounds), (two, _), (six, as_before) = plan(2, 2, (3, 1)), plan(2, 2), plan(2, 6)
    bins = n * D * K
    assert with_owners[0] - two[0] == bins // 8 + 4 * bins + bins // 8 + D * K * 33 // 8 + 16 + 4 * 4 * owners
    assert (with_owners - six)[1:].tolist() == [4 * 2 * nodes * n, 0]
    assert rounds == [as_before[0] + 5, *as_before[1:]]


@pytest.mark.parametrize(
    ("holder", "widths", "parameters"),
    [
        (0, WIDTHS, {"missing": "all"}),
        (2, WIDTHS, {"test_size": 0.2, "eval_metric": "logloss"}),
        (3, (2, 3, 2, 0), {}),  # the last owner has the labels only
        (2, (2, 3, 0), {"subsample": 0.7, "random_state": 3}),  # no further features
        (2, WIDTHS, {"objective": "multi:ova", "num_class": 3}),
        (3, WIDTHS, {"objective": "reg:squarederror"}),
    ],
)
def test_shards(tmp_path, holder, widths, parameters):
    """Workers divide the rows of contributed columns as those of the parties."""
    parts, y = parts_of(97, widths, missing="missing" in parameters, classes=parameters.get("num_class", 2))
    owners = owners_of(parts, y, holder)
    config, labels = {**PARAMETERS, **parameters}, tuple(y if k == holder else None for k in (0, 1))
    collected(tmp_path, parts, owners, config, labels)
    training = train_both(
        tuple(parts[:2]), labels, given=lambda rank: Stored(tmp_path / str(rank)), owners=owners, workers=3, **config
    )
    assert len(check(training, 2)) > 1
    assert training.results[0] == training.results[1]


def test_digests_of_shards_join():
    ids = [f"id {k}" for k in range(23)]
    for ends in ([], [5], [0, 5, 5, 20], range(1, 23)):
        parts = [ids[a:b] for a, b in pairwise([0, *ends, 23])]
        assert joined_digest((digest_of(part), len(part)) for part in parts) == digest_of(ids)
    others = {digest_of(other) for other in (ids[1:], ids[:-1], ids[::-1], [*ids[:9], ids[10], ids[9], *ids[11:]], [])}
    assert len(others | {digest_of(ids)}) == 6


def test_shards_have_the_ids_of_owners(tmp_path):
    parts, y = parts_of(40)
    ids = [f"person {k}" for k in range(40)]

    def shards_of(rank):
        table = Table(parts[rank], tuple(f"f{rank}{k}" for k in range(parts[rank].shape[1])), y if rank else None)
        cut = (slice(0, 13), slice(13, 40))
        found = [replace(rows_of(table, np.arange(40)[some]), ids=digest_of(ids[some])) for some in cut]
        return Shards([Loaded(part) for part in found], found[0].features[:0])

    def fit(of_owner):
        lines, _ = contributing({"bank": lambda own: contribute(own, parts[2], None, ids=of_owner)})

        def job(party):
            config = {**PARAMETERS, "test_size": 0.25}
            return SecureXGBClassifier(**config).fit(party, shards_of(party.rank), contributed=lines[party.rank]).curve

        try:
            return run_both(with_workers(job, 2))[0]
        finally:
            for line in (*lines[0].values(), *lines[1].values()):
                line.close()

    first, second = fit(ids)
    assert first == second
    for others, sentence in ((ids[::-1], "bank: must have the same ids as the parties"), (None, "and bank has none")):
        with pytest.raises(DataError, match=sentence):
            fit(others)


def test_lost_workers_get_the_columns_again(tmp_path, monkeypatch):
    parts, y = parts_of(60)
    collected(tmp_path, parts, owners_of(parts, y, 2))
    each, trees = DirectWorkers.each, [0, 0]

    def losing(self, program, given, own, planned, keep):
        rank = self.sites[0].party.rank
        trees[rank] += program.__name__ == "_start_trees"
        if trees[rank] == 2:
            raise WorkersLost("shard 0: its worker has ended")
        return each(self, program, given, own, planned, keep)

    def restart(self, party):
        trees[party.rank] += 1
        for site in self.sites:
            site._kept.clear()
            site.party.randomness.discard()

    monkeypatch.setattr(DirectWorkers, "each", losing)
    monkeypatch.setattr(DirectWorkers, "restart", restart)
    training = train_both(
        tuple(parts[:2]),
        (None, None),
        given=lambda rank: Stored(tmp_path / str(rank)),
        owners=owners_of(parts, y, 2),
        workers=2,
        **PARAMETERS,
    )
    check(training, 2)


def test_owners_of_columns_have_terms(tmp_path, monkeypatch):
    parts, y = parts_of(60)
    terms = {"until": "2999-01-01", "least_owners": 2, "reveal_to": ["party_b"]}
    owners = {
        "bank_00": lambda lines: contribute(lines, parts[2], y, consent={**terms, "max_bin": 8}),
        "bank_01": lambda lines: contribute(lines, parts[3], None, consent={"reveal_to": ["party_b", "carol"]}),
    }
    collected(tmp_path, parts, owners)

    def train(party, without=()):
        model = SecureXGBClassifier(**PARAMETERS)
        model.fit(party, parts[party.rank], contributed=Stored(tmp_path / str(party.rank), without=without))
        return model.model

    def reveal(to):
        return run_both(lambda party: reveal_model(party, train(party), to) is not None)[0]

    assert reveal(1) == [False, True]
    with pytest.raises(ConfigError, match="every owner must name party_a in its terms, as reveal_to"):
        reveal(0)
    with pytest.raises(DataError, match="bank_00: consents to trainings on at least 2 contributions, and there are 1"):
        run_both(partial(train, without=["bank_01"]))
    monkeypatch.setattr(bounds, "today", lambda: dt.date(2999, 1, 2))
    with pytest.raises(DataError, match="bank_00: consents to trainings until 2999-01-01"):
        run_both(train)
