"""Encoded ensembles: those of XGBoost are decoded, malformed ones are refused, and no process crashes."""

import random

import numpy as np
import pytest

from mpc.errors import ProtocolDesync
from protocols.baselines.federated.engine import LocalFederation, as_bytes
from protocols.baselines.federated.fedxgbllr.client import FedXGBllrClient
from protocols.baselines.federated.fedxgbllr.config import DEEPEST, MOST_TREES
from protocols.baselines.federated.fedxgbllr.model import pack_ensembles
from protocols.baselines.federated.fedxgbllr.server import train
from protocols.baselines.federated.fedxgbllr.trees import CheckedTrees, fit_ensemble, tree_outputs
from protocols.baselines.federated.secure_sum import OpenSum
from tests.protocols.baselines.federated.tables import SMALL_LLR, llr_clients, table

FEATURES = 5


def written(nodes, feature, value, features=FEATURES, trees=None):
    """Return the bytes of an ensemble with these parts, valid or not."""
    head = np.array([len(nodes) if trees is None else trees, features, *nodes], "<i4")
    return head.tobytes() + np.array(feature, "<i4").tobytes() + np.array(value, "<f4").tobytes()


def chain(depth):
    """Return one tree whose right child is split again and again: the feature of each node, breadth first."""
    return [0, *([-1, 0] * (depth - 1)), -1, -1]


def test_a_tree_by_hand():
    # x0 < 1: 10; else x1 < 2: 20, else 30
    ensemble = written([5, 1], [0, -1, 1, -1, -1, -1], [1, 10, 2, 20, 30, 7])
    X = np.array([[0, 5, 0, 0, 0], [1, 1.5, 0, 0, 0], [3, 2, 0, 0, 0]], np.float32)
    np.testing.assert_array_equal(tree_outputs([ensemble], X), [[10, 7], [20, 7], [30, 7]])


@pytest.mark.parametrize(
    ("ensemble", "sentence"),
    [
        (b"", "must have 1 to 10000 trees, 0 bytes announce 0"),
        (b"\x01\x00\x00\x00", "must have 1 to 10000 trees"),
        (written([1], [-1], [1.0])[:-1], "must not have"),
        (written([1], [-1], [1.0]) + b"\x00", "must not have"),
        (written([1], [-1], [1.0], trees=-1), "announce -1"),
        (written([1], [-1], [1.0], trees=MOST_TREES + 1), "announce 10001"),
        (written([0], [], []), "nodes each"),
        (written([-1], [-1], [1.0]), "nodes each"),
        (written([1 << 30], [-1], [1.0]), "nodes each"),
        (written([3], [0, -1, -1], [1.0, 2.0, 3.0], features=4), "an ensemble must be for 5 features, got 4"),
        (written([3], [FEATURES, -1, -1], [1.0, 2.0, 3.0]), "must split on its 5 features only"),
        (written([3], [-2, -1, -1], [1.0, 2.0, 3.0]), "must split on its 5 features only"),
        (written([3], [0, -1, -1], [np.nan, 2.0, 3.0]), "must be finite"),
        (written([3], [0, -1, -1], [1.0, np.inf, 3.0]), "must be finite"),
        (written([1], [0], [1.0]), "must form binary trees"),  # its children are past the end
        (written([3], [-1, -1, 0], [1.0] * 3), "must form binary trees"),  # a node that is its own descendant
        (written([3, 3], [0, -1, 0, -1, -1, -1], [1.0] * 6), "must form binary trees"),  # one tree in another
        (written([5], [0, -1, -1, 0, -1], [1.0] * 5), "must form binary trees"),
        (written([2 * DEEPEST + 3], chain(DEEPEST + 1), [1.0] * (2 * DEEPEST + 3)), "must not be deeper than 12"),
    ],
)
def test_malformed_ensembles_are_refused_in_a_sentence(ensemble, sentence):
    with pytest.raises(ProtocolDesync, match=sentence) as caught:
        tree_outputs([ensemble], table()[0])
    assert "\n" not in str(caught.value)


def test_the_deepest_tree_is_read():
    ensemble = CheckedTrees.read(written([2 * DEEPEST + 1], chain(DEEPEST), [1.0] * (2 * DEEPEST + 1)), FEATURES)
    assert ensemble.depth() == DEEPEST


@pytest.mark.parametrize("count", [400, pytest.param(10_000, marks=pytest.mark.long)])
def test_changed_ensembles_are_refused_or_are_trees(count):
    X, y = table()
    good = fit_ensemble(X, y, 4, SMALL_LLR)
    draw, refused = random.Random(3), 0
    for _ in range(count):
        bad = bytearray(good)
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(len(bad) if draw.random() < 0.7 else 60)
            bad[at] = draw.randrange(256)
        if draw.random() < 0.2:
            bad = bad[: draw.randrange(len(bad))]
        try:
            outputs = tree_outputs([bytes(bad)], X)
            assert outputs.shape == (len(X), 4) and np.isfinite(outputs).all()
        except ProtocolDesync as error:
            assert "an ensemble" in str(error)
            refused += 1
    assert refused > count / 4


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        (fit_ensemble(*table(), 5, SMALL_LLR), "client 1 must send 4 trees, got 5"),
        (fit_ensemble(*table(features=6), 4, SMALL_LLR), "client 1: an ensemble must be for 5 features, got 6"),
        (b"", "client 1: an ensemble must have 1 to 10000 trees"),
    ],
)
def test_the_server_names_the_client_whose_ensemble_cannot_be_used(sent, sentence):
    participants = llr_clients()

    class Odd(FedXGBllrClient):
        def _ensemble(self, message):
            return {"ensemble": as_bytes(sent)}

    participants[1].__class__ = Odd
    with pytest.raises(ProtocolDesync, match=sentence):
        train(LocalFederation(participants), SMALL_LLR, OpenSum())


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"weights": np.zeros(3, np.float32)}, "'weights': expected float32"),
        ({"unit": np.zeros(2)}, "the unit of the labels must be above 0"),
        ({"ensembles": as_bytes(b"abc"), "lengths": np.array([3])}, "an ensemble must have"),
        (pack_ensembles([fit_ensemble(*table(), trees, SMALL_LLR) for trees in (3, 4)]), "the same number of trees"),
        (pack_ensembles([fit_ensemble(*table(), 7, SMALL_LLR)] * 2), "at most 12 together"),
    ],
)
def test_an_update_that_does_not_fit_is_refused(change, sentence):
    X, y = table()
    order = {"round": np.array(1), "weights": np.zeros(73, np.float32), "unit": np.array([0.0, 1.0])}
    client = FedXGBllrClient(0, X, y, SMALL_LLR, OpenSum())
    with pytest.raises(ProtocolDesync, match=sentence):
        client.answer("update", order | pack_ensembles([fit_ensemble(X, y, 6, SMALL_LLR)] * 2) | change)


def test_a_client_grows_no_more_trees_than_the_configuration_has():
    client = FedXGBllrClient(0, *table(), SMALL_LLR, OpenSum())
    with pytest.raises(ProtocolDesync, match="1 to 12 trees, the server asked for 13"):
        client.answer("ensemble", {"trees": np.array(13), "unit": np.array([0.0, 1.0])})
