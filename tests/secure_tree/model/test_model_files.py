"""A damaged model file loads as it was saved or not at all: halves, revealed models, models of PETML's operators."""

import json
import random

import numpy as np
import pytest

from mpc.errors import DataError
from protocols.testing.two_parties import run_both
from secure_tree.exchange.plain_model import PlainModel, reveal_model
from secure_tree.exchange.xgboost import from_xgboost
from secure_tree.model.shared_model import SharedModel
from secure_tree.model.storage import to_document, write_arrays, write_sealed_json
from sharewood.operators import XGBoostClassifierPredict
from tests.secure_tree.model.mutations import mutated
from tests.secure_tree.opened import train_both
from tests.secure_tree.test_twin import halves, table


@pytest.fixture(scope="module")
def models():
    training = train_both(*halves(*table(40, 2, seed=18), 20), n_estimators=2, max_depth=2, max_bin=4)
    (plain, _), _ = run_both(lambda p: reveal_model(p, training.models[p.rank].model, 0))
    return training.models[0].model, plain


def of_an_operator(path):
    return XGBoostClassifierPredict("party_a")._read_model(path)[2]


@pytest.mark.parametrize("count", [40, pytest.param(600, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("name", "load"),
    [
        ("half.npz", SharedModel.load),
        ("half.json", SharedModel.load),
        ("plain.npz", PlainModel.load),
        ("plain.json", PlainModel.load),
        ("operator.json", of_an_operator),
    ],
)
def test_no_damaged_file_is_another_model(models, tmp_path, name, load, count):
    half, plain = models
    path, rng = tmp_path / name, random.Random(name)
    model = plain if name.startswith("plain") else half
    if name == "operator.json":
        write_sealed_json(path, {"objective": "logistic", "label_name": "y", "half": to_document(*half.pack())})
    else:
        write_arrays(path, *model.pack())
    whole, refused = path.read_bytes(), 0
    for _ in range(count):
        path.write_bytes(mutated(whole, rng))
        try:
            loaded = load(path)
        except DataError as error:
            assert "\n" not in str(error)
            refused += 1
        else:
            (facts, arrays), (others, theirs) = loaded.pack(), model.pack()
            assert facts == others and all(np.array_equal(arrays[key], theirs[key]) for key in theirs)
    assert refused > 0.8 * count


def test_a_half_of_another_version_is_named(models, tmp_path):
    facts, arrays = models[0].pack()
    write_arrays(tmp_path / "half.npz", {**facts, "format": 3}, arrays)
    with pytest.raises(DataError, match=r"half.npz: model format 3, this Sharewood reads 15"):
        SharedModel.load(tmp_path / "half.npz")


def test_a_revealed_model_is_no_half(models, tmp_path):
    write_arrays(tmp_path / "plain.json", *models[1].pack())
    with pytest.raises(DataError, match="model format 8, this Sharewood reads 15"):
        SharedModel.load(tmp_path / "plain.json")
    write_arrays(tmp_path / "half.json", *models[0].pack())
    with pytest.raises(DataError, match=r"not a revealed model file of format 8 \(it has no entry 'revealed'\)$"):
        PlainModel.load(tmp_path / "half.json")


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda learner: learner["learner_model_param"].update(num_class=str(2**31)), "3 trees for 2147483648 classes"),
        (
            lambda learner: learner["learner_model_param"].update(num_feature=str(2**31)),
            "features to be shared, got 2147483648",
        ),
        (lambda learner: trees(learner)[0].update(ring(99)), "nodes that do not form a tree"),
        (lambda learner: trees(learner)[0].update(braid(99)), "nodes that do not form a tree"),
        (lambda learner: trees(learner)[0].update(apart(99)), "a node that is its own descendant"),
        (lambda learner: trees(learner)[0]["sum_hessian"].pop(), "nodes without some of their facts"),
        (lambda learner: trees(learner)[0].update(split_conditions=[1e300] * 99), "a number that is not finite"),
        (lambda learner: trees(learner)[0].update(tree_param=[]), "not a model of XGBoost in JSON"),
        (lambda learner: trees(learner)[0]["split_indices"].__setitem__(0, 0.5), "that is not an integer"),
        (lambda learner: learner.update(objective=7), "not a model of XGBoost in JSON"),
        (lambda learner: deepen(trees(learner)[0], 300), "trees of depth 300: at most 255 can be shared"),
    ],
)
def test_odd_models_of_xgboost_are_a_sentence(spoil, sentence):
    xgboost = pytest.importorskip("xgboost")
    X, y = table(40, 2, seed=18)
    booster = xgboost.train({"objective": "binary:logistic"}, xgboost.DMatrix(X, y), 3)
    document = json.loads(booster.save_raw("json"))
    spoil(document["learner"])
    with pytest.raises(DataError, match=sentence) as refusal:
        from_xgboost(document, "plain.json")
    assert "\n" not in str(refusal.value)


def trees(learner):
    return learner["gradient_booster"]["model"]["trees"]


FACTS = "split_conditions", "split_indices", "default_left", "sum_hessian"


def ring(nodes):
    """Make the first node its own child."""
    return nodes_of([0] * nodes, [0] * nodes)


def braid(depth):
    """Return nodes whose children are both the next node, which makes 2^depth paths."""
    children = [*range(1, depth + 1), -1]
    return nodes_of(children, children)


def apart(nodes):
    """Return a root with two leaves, and further nodes that are their own children."""
    following = [*range(4, nodes), 3]
    leaves = iter(range(nodes, 2 * nodes - 3))
    return nodes_of([1, -1, -1, *following, *[-1] * (nodes - 3)], [2, -1, -1, *leaves, *[-1] * (nodes - 3)])


def nodes_of(left, right):
    return {"left_children": left, "right_children": right, **{name: [0] * len(left) for name in FACTS}}


def deepen(tree, depth):
    """Turn a tree into a chain of splits to the right."""
    nodes = 2 * depth + 1
    tree["left_children"] = [i + 1 if i % 2 == 0 and i < nodes - 1 else -1 for i in range(nodes)]
    tree["right_children"] = [i + 2 if i % 2 == 0 and i < nodes - 1 else -1 for i in range(nodes)]
    for name in FACTS:
        tree[name] = [0] * nodes
