"""Owners who are no party: every split is the twin's on all rows, and contributions that lie are refused by name."""

import contextlib
import os

import numpy as np
import pandas as pd
import pytest
import xgboost

from mpc.errors import ConfigError, DataError, PeerFailure, ProtocolDesync, RangeError, SharewoodError
from mpc.host.encryption import FileKey
from mpc.matrix import fixed_operand
from protocols.runtime import run_local
from protocols.testing.two_parties import made_by_both, run_both
from secure_tree import SecureXGBClassifier
from secure_tree.agreement.messages import VERSION
from secure_tree.owners import contributing
from secure_tree.owners.halves import divide, divide_bits, half, half_of_bits
from secure_tree.owners.stored import Stored, withdraw
from secure_tree.public.config import TrainConfig
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
        ({"monotone_constraints": (1, 0, 0, -1)}, {}),
        ({"scale_pos_weight": 1.0, "base_score": 0.3}, {}),
    ],
)
def test_whatever_is_trained(parameters, shape):
    check(trained(tables((40, 30, 35, 25), **shape), **parameters), 2)


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
        here = made.shape[-1] if what == "targets" else len(arguments[0])
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
        ("targets", of_every_class, "bank_01: its rows have not one bin per feature and one class each"),
    ],
)
def test_an_owner_that_lies_is_named(monkeypatch, what, change, sentence):
    changed(monkeypatch, what, 36, change)
    classes = {"objective": "multi:ova", "num_class": 3} if what == "targets" else {}
    with pytest.raises(DataError, match=sentence):
        trained(tables((40, 30, 35, 36), classes=3 if classes else 2), **classes)


def test_values_are_missing_only_where_they_may_be(monkeypatch):
    changed(monkeypatch, "one_hot", 36, hidden)
    changed(monkeypatch, "key_counts", 36, no_values)
    with pytest.raises(DataError, match="bank_01: its bins are not those of the values that it counted"):
        trained(tables((40, 30, 35, 36), missing=True), missing=("f1",))


def test_an_owner_that_tells_the_parties_different_numbers_is_named():
    made = tables((40, 30, 35))

    def two_faced(lines):
        for line, rows in zip(lines, (35, 34), strict=True):
            line.receive("owner.terms")
            line.send("owner.facts", {"version": VERSION, "id": "a" * 32, "rows": rows})
        with contextlib.suppress(PeerFailure):
            for tag, shape in (("labels", (1, 35)), ("counts", (4, 1 << 16))):
                halves = (
                    divide_bits(np.zeros(shape, np.uint8)) if tag == "labels" else divide(np.zeros(shape, np.uint32))
                )
                contributing._send(lines, f"owner.{tag}", halves)

    with pytest.raises(DataError, match=r"bank_00: it told this party 3[45] rows and the other party 3[45]"):
        train_both(*zip(*made[:2], strict=True), owners={"bank_00": two_faced}, **PARAMETERS)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"edges": "private"}, 'need partition="horizontal", edges="joint"'),
        ({"edge_bits": 20}, "edge_bits of at most 16, got 20"),
        ({"objective": "squarederror"}, "need an objective of classes"),
        ({"scale_pos_weight": 2.0}, "without weights or scale_pos_weight"),
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
            terms = {"version": VERSION, "config": config, "names": ["f0", "f1", "f2"], "categories": {}}
            return {"owner.terms": terms, "owner.edges": np.sort(X[:8].T.astype(np.float32)), "owner.receipt": ""}[tag]

        def send(self, tag, tree):
            if tag != "owner.facts":
                ((name, content),) = tree.items()
                sent[self.peer, tag] = name, len(content)

    contributing.contribute([Line("party_a"), Line("party_b")], X, y)
    assert {key: size for (peer, key), (_, size) in sent.items() if peer == "party_b"} == {
        "owner.labels": 7, "owner.counts": 4 * 3 << 16, "owner.bins": 50 * 3 * 8 // 8,
    }  # fmt: skip
    assert {size for (peer, _), size in sent.items() if peer == "party_a"} == {("seed", 32)}


def job(party):
    X, y = tables((60, 50, 70, 40))[party.rank]
    model = SecureXGBClassifier(**PARAMETERS).fit(party, X, y, contributed=party.contributed)
    return model.predict_proba(party, X), party.revealed


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
        model = SecureXGBClassifier(**{**PARAMETERS, **parameters})
        return model.collect(party, *made[party.rank], lines[party.rank], folder / str(party.rank))

    (first, second), _ = run_both(job)
    assert first == second and [each.result()["rows"] for each in said] == [each.rows for each in first]
    return lambda **more: train_both(
        *zip(*made[:2], strict=True),
        given=lambda rank: Stored(folder / str(rank), **more),
        owners=owners,
        **{**PARAMETERS, **parameters},
    )


def test_what_was_collected_is_trained_on_again_and_again(tmp_path):
    train = kept(tmp_path, tables((40, 30, 50, 20)))
    assert len(check(train(), 2)) > 1 and len(check(train(), 2)) > 1
    assert len(list((tmp_path / "0").iterdir())) == 2
    sizes = [path.stat().st_size for rank in "01" for path in (tmp_path / rank).iterdir()]
    assert max(sizes) < 4000  # a bit per bin of a row


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
            line.send("owner.facts", {"version": VERSION, "id": "a" * 32, "rows": (1 << 31) - 1})

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
