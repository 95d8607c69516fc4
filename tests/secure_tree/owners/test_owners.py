"""Owners who are no party: every split is the twin's on all rows, and contributions that lie are refused by name."""

import contextlib
import os

import numpy as np
import pandas as pd
import pytest
import sklearn.metrics
import sklearn.model_selection
import xgboost

from mpc.errors import ConfigError, DataError, PeerFailure, ProtocolDesync, RangeError, SharewoodError
from mpc.host.encryption import FileKey
from mpc.matrix import fixed_operand
from protocols.runtime import run_local
from protocols.testing.two_parties import made_by_both, run_both
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.agreement.messages import VERSION
from secure_tree.cross_validation import cross_validate
from secure_tree.data.table import held_rows
from secure_tree.owners import contributing
from secure_tree.owners.halves import divide, divide_bits, half, half_of_bits
from secure_tree.owners.lines import send_halves
from secure_tree.owners.stored import Stored, withdraw
from secure_tree.public.config import TrainConfig
from secure_tree.training.checkpoint import Checkpoints
from tests.secure_tree.opened import contributing as contributing_in_threads
from tests.secure_tree.opened import train_both
from tests.secure_tree.test_twin import check, table

PARAMETERS = {"n_estimators": 2, "max_depth": 3, "max_bin": 8, "edges": "joint", "edge_bits": 16, "learning_rate": 0.3}


def tables(counts, d=4, classes=2, missing=False):
    """Tables of owners, the first two of parties, with the class shifted by owner."""
    made = []
    for seed, n in enumerate(counts):
        X, y = table(n, d, seed=seed + 7)
        y = np.digitize(X[:, 0] + 0.2 * seed, np.linspace(-0.6, 0.6, classes - 1)).astype(float) if classes > 2 else y
        if missing:
            X[::3, 1] = np.nan
        made.append((X, y))
    return made


def trained(made, **parameters):
    (a, ya), (b, yb), *others = made
    owners = {f"bank_{k:02}": each for k, each in enumerate(others)}
    return train_both((a, b), (ya, yb), owners=owners, **{**PARAMETERS, **parameters})


@pytest.mark.parametrize("counts", [(40, 30, 50), (33, 1, 2, 60, 17), (20,) * 13])
def test_every_split_is_the_twins_on_all_rows(counts):
    assert len(check(trained(tables(counts)), 2)) > 1


@pytest.mark.parametrize(
    ("parameters", "shape"),
    [
        ({"missing": "all"}, {"missing": True}),
        ({"objective": "multi:ova", "num_class": 3}, {"classes": 3}),
        ({"min_child_samples": 9, "reg_alpha": 0.4}, {}),
        ({"subsample": 0.7, "colsample_bytree": 0.5, "random_state": 3}, {}),
        ({"num_parallel_tree": 2, "subsample": 0.7}, {}),
        ({"monotone_constraints": (1, 0, 0, -1)}, {}),
        ({"interaction_constraints": [[0, 1], [1, 2, 3]]}, {}),
        ({"scale_pos_weight": 3.0, "base_score": 0.3}, {}),
        ({"scale_pos_weight": 0.5, "objective": "binary:logistic"}, {}),
    ],
)
def test_whatever_is_trained(parameters, shape):
    check(trained(tables((40, 30, 35, 25), **shape), **parameters), 2)


def numbers(made, scale=1.0, shift=0.0):
    """The same tables with numbers as labels, of another spread at each owner."""
    return [(X, (X[:, 0] * (k + 1) + y + shift) * scale) for k, (X, y) in enumerate(made)]


def of_counts(made):
    rng = np.random.default_rng(5)
    return [(X, rng.poisson(np.exp(X[:, 0]) * (k + 1)).astype(float)) for k, (X, _) in enumerate(made)]


def weighted(made):
    rng = np.random.default_rng(6)
    return [(X, y, rng.integers(1, 1 << 9, len(y)) / (1 << 9 - k)) for k, (X, y) in enumerate(made)]


REGRESSION, COUNTS = {"objective": "squarederror"}, {"objective": "count:poisson"}


@pytest.mark.parametrize("counts", [(40, 30, 35, 25), (0, 0, 45, 38), (3, 0, 1, 60)])
@pytest.mark.parametrize("scale", [1.0, 3e-7, 5e8])
def test_numbers(counts, scale):
    made = numbers(tables(counts), scale, 20.0)
    training = trained(made, **REGRESSION)
    check(training, 2)
    labels = np.concatenate([y for _, y in made])
    spread = labels.std()
    assert spread <= training.label_scale <= 7 * spread + np.abs(labels).max() * 2**-18
    assert np.abs(training.base[0] * training.label_scale - labels.mean()) < np.abs(labels).max() * 2e-6


def test_an_owners_label_far_from_the_others_widens_the_unit_or_is_refused():
    made = numbers(tables((30, 30, 40)), shift=1.0)
    made[2][1][7] = 300
    training = trained(made, **REGRESSION)
    labels = np.concatenate([y for _, y in made])
    assert labels.std() <= training.label_scale <= 7 * labels.std()
    made[2][1][7] = 3e5
    with pytest.raises(DataError, match="differences of the others"):
        trained(made, **REGRESSION)


@pytest.mark.parametrize("parameters", [{}, {"base_score": 3.0}])
def test_counts(parameters):
    made = of_counts(tables((40, 30, 35, 25)))
    training = trained(made, **COUNTS, **parameters)
    check(training, 2)
    labels = np.concatenate([y for _, y in made])
    assert abs(np.exp(opened_base(training)) - (labels.mean() if not parameters else 3.0)) < 1e-3 * labels.mean()


def opened_base(training):
    return training.base[0] + np.log(training.label_scale)


@pytest.mark.parametrize("of", [lambda made: made, numbers, of_counts])
@pytest.mark.parametrize(
    ("counts", "who"), [((40, 30, 35, 25), (0, 1, 2, 3)), ((40, 30, 35, 25), (2,)), ((40, 30, 35, 25), (0,)),
                        ((0, 0, 50, 40), (2, 3)), ((0, 0, 50, 40), (3,)), ((30, 0, 1, 40), (0, 2))],
)  # fmt: skip
def test_weights(of, counts, who):
    made = of(tables(counts))
    of_all = weighted(made)
    given = [of_all[k] if k in who else made[k] for k in range(4)]
    objective = {numbers: REGRESSION, of_counts: COUNTS}.get(of, {})
    weights = tuple(each[2] if len(each) == 3 else None for each in given[:2])
    (a, ya, *_), (b, yb, *_), *others = given
    owners = {f"bank_{k:02}": each for k, each in enumerate(others)}
    training = train_both((a, b), (ya, yb), owners=owners, weights=weights, **{**PARAMETERS, **objective})
    check(training, 2)
    w = np.concatenate([each[2] if len(each) == 3 else np.ones(len(each[1])) for each in given])
    mean = np.average(np.concatenate([each[1] for each in given]), weights=w)
    base = {numbers: training.base[0] * training.label_scale, of_counts: np.exp(opened_base(training))}
    found = base.get(of, 1 / (1 + np.exp(-training.base[0])))
    assert abs(found - mean) < 1e-3 * max(1, abs(mean))


def measured(made, truth, **parameters):
    """Train with held-out rows; return the training, revealed curves, and margins and labels of all held-out rows."""
    config = TrainConfig.of(**{**PARAMETERS, **parameters})
    held = [held_rows(config, len(y)) for _, y in made]
    X, y = (np.concatenate([each[k][rows] for each, rows in zip(made, held, strict=True)]) for k in (0, 1))

    def then(model, party):
        return model.curves, model.predict_margin(party, X if party.rank == 0 else X[:0], "thresholds")

    (a, ya), (b, yb), *others = made
    owners = {f"bank_{k:02}": each for k, each in enumerate(others)}
    training = train_both((a, b), (ya, yb), then, owners=owners, **{**PARAMETERS, **parameters})
    (curves, margins), (theirs, _) = training.results
    assert curves == theirs
    for metric, compute in truth.items():
        assert abs(curves[metric][-1][1] - compute(y, margins)) < 2e-3, metric
    return training


def auc(y, margins):
    return sklearn.metrics.roc_auc_score(y, margins)


def log_loss(y, margins):
    return sklearn.metrics.log_loss(y, 1 / (1 + np.exp(-margins)))


def rmse(y, margins):
    return np.sqrt(np.mean((y - margins) ** 2))


@pytest.mark.parametrize("counts", [(60, 50, 70, 40), (0, 0, 70, 60)])
def test_metrics_on_held_out_rows_of_owners(counts):
    made = tables(counts)
    check(measured(made, {"auc": auc, "logloss": log_loss}, test_size=0.25, eval_metric=("auc", "logloss")), 2)
    measured(numbers(made), {"rmse": rmse}, test_size=0.25, eval_metric="rmse", **REGRESSION)


def test_early_stopping_by_rows_of_owners_alone():
    made = tables((40, 40, 60, 50))
    training = measured(
        made,
        {},
        test_size=0.2,
        n_estimators=12,
        early_stopping_rounds=2,
        learning_rate=1.0,
        eval_epochs=1,
        eval_metric="logloss",
    )
    curve = training.results[0][0]["logloss"]
    best = min(curve, key=lambda point: point[1])[0]
    assert training.models[0].model.rounds == best < 12 and len(curve) == best + 2


def test_few_held_out_rows_of_an_owner_are_refused():
    with pytest.raises(DataError, match="bank_00 must hold out at least 5 rows or none, got 2"):
        trained(tables((40, 40, 10)), test_size=0.2)


def test_parties_may_have_no_rows():
    made = tables((0, 0, 45, 38))
    assert len(check(trained(made), 2)) > 1


def of_colours(rows, seed, colours):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"x": rng.normal(size=rows), "c": pd.Categorical(rng.choice(colours, rows))})
    return X, ((X["c"] == "red") + X["x"] > 0.5).astype(int)


def of_categories(party):
    X, y = of_colours(60, party.rank, ["red", "green", "blue"][party.rank :])
    model = SecureXGBClassifier(**PARAMETERS).fit(party, X, y, contributed=party.contributed)
    return model.feature_names_in_.tolist(), model.score(party, X, y)


def test_categories_of_the_parties():
    (names, score), _ = run_local(of_categories, owners={"bank": of_colours(80, 5, ["red", "blue"])})
    assert names == ["x", "c"] and score > 0.8
    with pytest.raises(DataError, match=r"bank: .*violet"):
        run_local(of_categories, owners={"bank": of_colours(80, 5, ["red", "violet"])}, timeout=60)


def test_without_a_dealer():
    check(trained(tables((20, 15, 25), d=3), source=made_by_both, n_estimators=1, max_depth=2, max_bin=4), 1)


def test_rounds_of_a_tree_do_not_grow_with_owners():
    def rounds(count):
        training = trained(tables((30,) * count))
        return [party.stages["online"].rounds for party in training.parties]

    (two, _), (three, _), (five, _) = rounds(2), rounds(3), rounds(5)
    assert two == three == five


def changed(monkeypatch, what, rows, change):
    """Let the owner with this number of rows lie in a function of its contribution."""
    honest = getattr(contributing, what)

    def lying(*arguments):
        made = honest(*arguments).copy()
        here = made.shape[-1] if what == "label_bits" else len(arguments[0])
        if here == rows:
            change(made)
        return made

    monkeypatch.setattr(contributing, what, lying)


def two_bins(hot):
    hot[5, 0, :2] = 1


def no_bin(hot):
    hot[7, 2] = 0


def more_missing(hot):
    hot[3] = 0
    hot[3, :, 1] = 1


def other_values(counts):
    counts[1] = np.roll(counts[1], 9000)


def hidden(hot):
    """Say that values are missing in a feature without missing values, and count them as little."""
    hot[:, 0, -1], hot[:, 0, :-1] = 1, 0


def no_values(counts):
    counts[0] = 0


def of_every_class(bits):
    bits[:, 4] = 1


@pytest.mark.parametrize(
    ("what", "change", "sentence"),
    [
        ("one_hot", two_bins, "bank_01: its rows have not one bin per feature"),
        ("one_hot", no_bin, "bank_01: its rows have not one bin per feature"),
        ("one_hot", more_missing, "bank_01: its bins are not those of the values that it counted"),
        ("key_counts", other_values, "bank_01: its bins are not those of the values that it counted"),
        ("label_bits", of_every_class, "bank_01: its rows have not one bin per feature and one class each"),
    ],
)
def test_an_owner_that_lies_is_named(monkeypatch, what, change, sentence):
    changed(monkeypatch, what, 36, change)
    classes = {"objective": "multi:ova", "num_class": 3} if what == "label_bits" else {}
    with pytest.raises(DataError, match=sentence):
        trained(tables((40, 30, 35, 36), classes=3 if classes else 2), **classes)


def test_values_are_missing_only_where_they_may_be(monkeypatch):
    changed(monkeypatch, "one_hot", 36, hidden)
    changed(monkeypatch, "key_counts", 36, no_values)
    with pytest.raises(DataError, match="bank_01: its bins are not those of the values that it counted"):
        trained(tables((40, 30, 35, 36), missing=True), missing=("f1",))


def facts(rows):
    return {"version": VERSION, "id": "a" * 32, "rows": rows, "exponent": None, "weight": None}


def test_an_owner_that_tells_the_parties_different_numbers_is_named():
    made = tables((40, 30, 35))

    def two_faced(lines):
        for line, rows in zip(lines, (35, 34), strict=True):
            line.receive("owner.terms")
            line.send("owner.facts", facts(rows))
        with contextlib.suppress(PeerFailure):
            for tag, shape in (("labels", (1, 35)), ("counts", (4, 1 << 16))):
                halves = (
                    divide_bits(np.zeros(shape, np.uint8)) if tag == "labels" else divide(np.zeros(shape, np.uint32))
                )
                send_halves(lines, f"owner.{tag}", halves)

    with pytest.raises(DataError, match=r"bank_00: it told this party 3[45] rows and the other party 3[45]"):
        train_both(*zip(*made[:2], strict=True), owners={"bank_00": two_faced}, **PARAMETERS)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"edges": "private"}, 'need partition="horizontal", edges="joint"'),
        ({"edge_bits": 20}, "edge_bits of at most 16, got 20"),
    ],
)
def test_what_contributed_rows_do_not_support_is_refused(parameters, sentence):
    with pytest.raises(ConfigError, match=sentence):
        trained(tables((10, 10, 10)), **parameters)


def test_each_half_alone_is_uniform():
    """The same table gives unrelated halves each time, whose bits are 1 half of the time."""
    bits = np.zeros((100, 1000), np.uint8)
    seeds, halves = zip(*(divide_bits(bits) for _ in range(20)), strict=True)
    data = np.unpackbits(np.stack([each["data"] for each in halves]))
    assert len({each["seed"] for each in seeds}) == 20 and abs(data.mean() - 0.5) < 0.002
    again = [half_of_bits(rank, part, bits.shape, "bank") for rank, part in enumerate((seeds[0], halves[0]))]
    assert not (again[0] ^ again[1]).any()
    words = np.arange(60, dtype=np.uint32).reshape(3, 20)
    first, second = (half(rank, part, words.shape, np.uint32, "bank") for rank, part in enumerate(divide(words)))
    assert np.array_equal(first + second, words)


@pytest.mark.parametrize(
    ("rank", "message"),
    [(0, None), (0, {"seed": bytes(31)}), (0, {"data": np.zeros(8, np.uint8)}), (1, {"data": np.zeros(7, np.uint8)}),
     (1, {"data": np.zeros(8, np.int8)}), (1, {"data": np.zeros(8, np.uint8), "more": 1}), (1, [])],
)  # fmt: skip
def test_anything_but_a_half_is_refused(rank, message):
    with pytest.raises(ProtocolDesync, match="bank: a half must be"):
        half(rank, message, (2,), np.uint32, "bank")


def test_what_an_owner_uploads():
    """4 bytes per key and feature, and a bit per bin and per label; seeds to party 0."""
    X, y = tables((50,), d=3)[0]
    sent = {}

    class Line:
        wire_sent = 0

        def __init__(self, peer):
            self.peer = peer

        def receive(self, tag, limit=None):
            config = TrainConfig.of(**PARAMETERS).model_dump()
            terms = {
                "version": VERSION,
                "config": config,
                "purpose": "training",
                "names": ["f0", "f1", "f2"],
                "categories": {},
            }
            return {"owner.terms": terms, "owner.edges": np.sort(X[:8].T.astype(np.float32)), "owner.receipt": ""}[tag]

        def send(self, tag, tree):
            if tag != "owner.facts":
                ((name, content),) = tree.items()
                sent[self.peer, tag] = name, len(content)

    contributing.contribute([Line("party_a"), Line("party_b")], X, y)
    assert {key: size for (peer, key), (_, size) in sent.items() if peer == "party_b"} == {
        "owner.labels": 7, "owner.counts": 4 * 3 << 16, "owner.bins": 50 * 3 * 8 // 8,
    }  # fmt: skip
    halves = sum(size for (peer, _), (_, size) in sent.items() if peer == "party_b")
    assert halves == contributing.upload(TrainConfig.of(**PARAMETERS), 50, ("f0", "f1", "f2"))
    assert {size for (peer, _), size in sent.items() if peer == "party_a"} == {("seed", 32)}


def job(party):
    X, y = tables((60, 50, 70, 40))[party.rank]
    model = SecureXGBClassifier(**PARAMETERS).fit(party, X, y, contributed=party.contributed)
    return model.predict_proba(party, X), party.revealed


def with_weights(party):
    X, y, w = weighted(tables((60, 50, 70, 40)))[party.rank]
    return SecureXGBClassifier(**PARAMETERS).fit(party, X, y, w, contributed=party.contributed).score(party, X, y)


def test_an_owner_with_weights_as_a_process():
    made = weighted(tables((60, 50, 70, 40)))
    assert run_local(with_weights, owners={"shop": made[3], "bank": made[2]})[0] > 0.6


def test_owners_as_processes():
    made = tables((60, 50, 70, 40))
    (ours, revealed), _ = run_local(job, owners={"shop": made[3], "bank": made[2]})
    model = xgboost.XGBClassifier(n_estimators=2, max_depth=3, max_bin=8, learning_rate=0.3, min_child_weight=0.5)
    model.fit(*(np.concatenate(part) for part in zip(*made, strict=True)))
    theirs = model.predict_proba(made[0][0])
    assert np.corrcoef(ours[:, 1], theirs[:, 1])[0, 1] > 0.95
    assert {"that bank's rows are valid", "that shop's rows are valid"} < set(revealed)


def test_an_owner_with_other_features_says_so_and_nothing_is_trained():
    with pytest.raises(DataError, match=r"bank: .*both must have the same features"):
        run_local(job, owners={"bank": tables((30,), d=5)[0]}, timeout=60)


def test_an_owner_that_dies_ends_the_training():
    def dies(lines):
        for line in lines:
            line.receive("owner.terms")
        os._exit(9)

    with pytest.raises(SharewoodError, match="bank"):
        run_local(job, owners={"bank": dies}, timeout=60)


def kept(folder, made, **parameters):
    """Collect at both parties, and return what trains on the files."""
    owners = {f"bank_{k:02}": each for k, each in enumerate(made[2:])}
    lines, said = contributing_in_threads(owners)

    def job(party):
        kind = SecureXGBClassifier if TrainConfig.of(**parameters).logistic else SecureXGBRegressor
        model = kind(**{**PARAMETERS, **parameters})
        return model.collect(party, *made[party.rank], lines[party.rank], folder / str(party.rank))

    (first, second), _ = run_both(job)
    assert first == second and [each.result()["rows"] for each in said] == [each.rows for each in first]
    return lambda **more: train_both(
        *zip(*made[:2], strict=True),
        given=lambda rank: Stored(folder / str(rank)),
        owners=owners,
        **{**PARAMETERS, **parameters, **more},
    )


def test_what_was_collected_is_trained_on_again_and_again(tmp_path):
    train = kept(tmp_path, tables((40, 30, 50, 20)))
    assert len(check(train(), 2)) > 1 and len(check(train(), 2)) > 1
    assert len(list((tmp_path / "0").iterdir())) == 2
    sizes = [path.stat().st_size for rank in "01" for path in (tmp_path / rank).iterdir()]
    assert max(sizes) < 4000  # a bit per bin of a row


def fitted(folder, made, rounds, job, **parameters):
    """Train on collected rows; `job(rank)` gives further arguments. Return models and predictions for all rows."""
    X = np.concatenate([X for X, _ in made])
    kind = SecureXGBRegressor if "objective" in parameters else SecureXGBClassifier

    def program(party):
        model = kind(**{**PARAMETERS, **parameters, "n_estimators": rounds})
        stored = Stored(folder / str(party.rank))
        model.fit(party, *made[party.rank], contributed=stored, **job(party.rank))
        return model, model.predict_margin(party, X if party.rank == 0 else X[:0], "thresholds")

    ((first, margins), (second, _)), _ = run_both(program)
    return (first, second), margins


@pytest.mark.parametrize("of", [lambda made: made, numbers, of_counts])
@pytest.mark.parametrize("counts", [(40, 40, 60, 50), (0, 0, 90, 80)])
def test_more_rounds_of_a_model_and_a_training_that_is_resumed(tmp_path, of, counts):
    made = of(tables(counts))
    # With deeper trees or more bins, some splits are nearly equal.
    parameters = {"test_size": 0.2, "max_depth": 2, "max_bin": 6} | {numbers: REGRESSION, of_counts: COUNTS}.get(of, {})
    kept(tmp_path, made, **parameters)
    models, whole = fitted(tmp_path, made, 4, lambda rank: {}, **parameters)
    half, _ = fitted(tmp_path, made, 2, lambda rank: {}, **parameters)
    more, continued = fitted(tmp_path, made, 2, lambda rank: {"xgb_model": half[rank]}, **parameters)
    assert np.abs(continued - whole).max() < 2e-3 * np.abs(whole).max()
    # The continued training evaluates its last round only.
    assert abs(more[0].curve[-1][1] - models[0].curve[-1][1]) < 2e-3 * max(1, models[0].curve[-1][1])

    def kept_in(rank, resume):
        return {"checkpoints": Checkpoints(tmp_path / f"checkpoints_{rank}", resume)}

    fitted(tmp_path, made, 2, lambda rank: kept_in(rank, False), **parameters)
    _, resumed = fitted(tmp_path, made, 4, lambda rank: kept_in(rank, True), **parameters)
    assert np.abs(resumed - whole).max() < 2e-3 * np.abs(whole).max()


def test_checkpoints_and_models_of_other_contributions_are_refused(tmp_path):
    made = tables((40, 40, 60, 50))
    kept(tmp_path / "one", made)
    kept(tmp_path / "two", [*made[:2], *tables((60, 50))])

    def kept_in(rank, resume=False):
        return {"checkpoints": Checkpoints(tmp_path / f"checkpoints_{rank}", resume)}

    half, _ = fitted(tmp_path / "one", made, 1, kept_in)
    with pytest.raises(DataError, match="belongs to another configuration or other data"):
        fitted(tmp_path / "two", made, 2, lambda rank: kept_in(rank, True))
    with pytest.raises(DataError, match="collected at other edges than those of xgb_model"):
        fitted(tmp_path / "two", made, 1, lambda rank: {"xgb_model": half[rank]})


@pytest.mark.parametrize(
    ("of", "parameters"),
    [
        (lambda made: made, {"missing": "all", "test_size": 0.2}),
        (lambda made: made, {"subsample": 0.7, "random_state": 3}),
        (numbers, REGRESSION),
        (lambda made: [weighted(made[:2])[0], made[1], *weighted(made)[2:]], {}),
    ],
)
def test_shards(tmp_path, of, parameters):
    """Workers divide the contributed rows as well."""
    made = of(tables((40, 31, 50, 23), missing="missing" in parameters))
    weights = tuple(each[2] if len(each) == 3 else None for each in made[:2])
    train = kept(tmp_path, [each[:2] for each in made[:2]] + made[2:], **parameters)
    training = train(workers=3, weights=weights)
    check(training, 2)
    assert training.results[0] == training.results[1]


def test_shards_need_what_was_collected(tmp_path):
    made = tables((40, 30, 2))
    train = kept(tmp_path, made)
    with pytest.raises(DataError, match="must be at least one for each of the 3 workers"):
        train(workers=3)
    with pytest.raises(ConfigError, match="with shards, owners must have contributed before"):
        trained(made, workers=2)


def test_cross_validation(tmp_path):
    """Each fold holds out rows of every owner, and trains on the others."""
    made = tables((60, 50, 70, 40))
    kept(tmp_path, made)

    def job(party):
        model = SecureXGBClassifier(**PARAMETERS, eval_metric="auc")
        stored = Stored(tmp_path / str(party.rank))
        return cross_validate(party, model, *made[party.rank], folds=3, contributed=stored)

    (first, second), _ = run_both(job)
    assert np.array_equal(first["auc"], second["auc"]) and len(set(first["auc"])) == 3
    X, y = (np.concatenate(part) for part in zip(*made, strict=True))
    model = xgboost.XGBClassifier(n_estimators=2, max_depth=3, max_bin=8, learning_rate=0.3)
    theirs = sklearn.model_selection.cross_val_score(model, X, y, scoring="roc_auc", cv=3)
    assert abs(first["auc"].mean() - theirs.mean()) < 0.08

    def with_lines(party):
        cross_validate(party, SecureXGBClassifier(**PARAMETERS), *made[party.rank], contributed={"bank": None})

    with pytest.raises(ConfigError, match="a folder that `collect` has written"):
        run_both(with_lines)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"max_bin": 16}, "was collected with max_bin 8, this training has 16: collect again"),
        ({"missing": "all"}, "was collected with missing 'none'"),
        ({"edge_bits": 12}, "was collected with edge_bits 16"),
    ],
)
def test_halves_of_other_parameters_are_refused(tmp_path, parameters, sentence):
    made = tables((20, 20, 20))
    kept(tmp_path, made)
    with pytest.raises(ConfigError, match=sentence):
        train_both(
            *zip(*made[:2], strict=True),
            given=lambda rank: Stored(tmp_path / str(rank)),
            **{**PARAMETERS, **parameters},
        )


def test_halves_of_the_other_party_or_of_two_contributions_are_refused(tmp_path):
    made = tables((20, 20, 20))
    kept(tmp_path / "one", made)
    kept(tmp_path / "two", made)

    def given(*folders):
        return lambda rank: Stored(tmp_path / folders[rank])

    for folders, sentence in (
        (("one/1", "one/0"), "is the half of bank_00's contribution at party"),
        (("one/0", "two/1"), "halves of two different contributions"),
        (("none", "one/1"), "has no contributions: run `sharewood collect`"),
    ):
        with pytest.raises(DataError, match=sentence):
            train_both(*zip(*made[:2], strict=True), given=given(*folders), **PARAMETERS)
    with pytest.raises(ConfigError, match="has no contribution of bank_07"):
        Stored(tmp_path / "one/0", without=["bank_07"])
    path = tmp_path / "one/0/bank_00.npz"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"bank_00\.npz"):
        train_both(*zip(*made[:2], strict=True), given=given("one/0", "one/1"), **PARAMETERS)


def test_halves_are_encrypted_with_a_key(tmp_path):
    made = tables((20, 20, 20))
    lines, _ = contributing_in_threads({"bank": made[2]})
    key = FileKey.parse("0" * 64, "a test")

    def job(party):
        model = SecureXGBClassifier(**PARAMETERS)
        return model.collect(party, *made[party.rank], lines[party.rank], tmp_path / str(party.rank), key)

    run_both(job)
    assert b"bank" not in (tmp_path / "0" / "bank.npz").read_bytes()
    check_sources = train_both(
        *zip(*made[:2], strict=True), given=lambda rank: Stored(tmp_path / str(rank), key), owners={"bank": made[2]},
        **PARAMETERS,
    )  # fmt: skip
    check(check_sources, 2)
    with pytest.raises(DataError, match="encrypted"):
        train_both(*zip(*made[:2], strict=True), given=lambda rank: Stored(tmp_path / str(rank)), **PARAMETERS)


def test_too_many_bins_are_refused_before_they_are_received():
    made = tables((20, 20, 20))

    def boundless(lines):
        for line in lines:
            line.receive("owner.terms")
            line.send("owner.facts", facts((1 << 31) - 1))

    with pytest.raises(RangeError, match="bank: contributes 2147483647 rows of 4 features with 8 bins, more than"):
        train_both(*zip(*made[:2], strict=True), owners={"bank": boundless}, **PARAMETERS)


def test_an_audit_covers_contributed_rows(monkeypatch):
    """An honest training passes, also with operands in files."""
    monkeypatch.setattr(fixed_operand, "IN_A_FILE", 1)
    made = tables((60, 50, 70, 40))
    (ours, _), _ = run_local(job, owners={"shop": made[3], "bank": made[2]}, audit=True)
    assert ((ours[:, 1] > 0.5) == made[0][1]).mean() > 0.6


def test_a_collection_keeps_all_contributions_or_none(tmp_path, monkeypatch):
    """The first owner is honest, the second lies: nothing is kept, and the first has no receipt."""
    changed(monkeypatch, "one_hot", 36, two_bins)
    made = tables((30, 30, 35, 36))
    lines, said = contributing_in_threads({"bank_00": made[2], "bank_01": made[3]})

    def job(party):
        model = SecureXGBClassifier(**PARAMETERS)
        try:
            model.collect(party, *made[party.rank], lines[party.rank], tmp_path / str(party.rank))
        finally:
            for line in lines[party.rank].values():
                line.close()

    with pytest.raises(DataError, match="bank_01: its rows have not one bin per feature"):
        run_both(job)
    assert list(tmp_path.iterdir()) == [] and all(isinstance(each.exception(), PeerFailure) for each in said)


@pytest.mark.parametrize("name", ["../party_a", "/etc/passwd", "a/b", ""])
def test_an_owner_is_no_path(tmp_path, name):
    with pytest.raises(ConfigError, match="the name of an owner"):
        withdraw(tmp_path, name)
