"""Two small trainings with PETML's recorded results: leaves and margins agree to 1e-3.

PETML puts a threshold halfway between neighbouring values, and we put it on a value. The rows are divided in the same
way, so leaves and margins are equal.
"""

import numpy as np

from tests.secure_tree.conftest import read_shared
from tests.secure_tree.opened import train_both

COMMON = dict(n_estimators=1, max_depth=2, max_bin="exact", reg_lambda=1.0, learning_rate=0.1)
SIGMOID_OF_HALF = 1 / (1 + np.exp(-0.5))


def two_files(name):
    server, client = (read_shared(f"petml/{name}_{role}.csv", "label") for role in ("server", "client"))
    return (server[0], client[0]), (server[1].astype(float), client[1].astype(float))


def test_iris():
    training = train_both(*two_files("iris_binary_mini"), min_child_weight=0.1, base_score=SIGMOID_OF_HALF, **COMMON)
    (tree,) = training.trees
    assert np.abs(tree.leaves / 0.1 - [-2.440981, 0, 0, 1.126975]).max() < 1e-3
    assert sorted(set(np.round(tree.margins, 3))) == [0.256, 0.613]
    assert np.abs(np.unique(np.round(tree.margins, 6)) - [0.255902, 0.612698]).max() < 1e-3
    features = list(two_files("iris_binary_mini")[0][0])
    root = tree.winner[0]
    assert features[training.data.candidates.features[root]] == "petal length (cm)"
    labels = np.concatenate(two_files("iris_binary_mini")[1])
    assert ((1 / (1 + np.exp(-tree.margins)) > 0.6) == labels).all()


def test_students():
    tables, labels = two_files("students_reg_mini")
    training = train_both(tables, labels, objective="squarederror", min_child_weight=1.0, base_score=0.5, **COMMON)
    (tree,) = training.trees
    scale = training.label_scale
    assert np.abs(tree.leaves * scale / 0.1 - [12.27381, 7.083333, 0, 4.2]).max() < 1e-3 * scale
    names = list(tables[0])
    assert [names[training.data.candidates.features[w]] for w in tree.winner[:2]] == ["x0", "x5"]
    assert tree.winner[2] == training.data.layout.candidates - 1, "the right child has no valid split"
    assert [training.data.candidates.thresholds[w] for w in tree.winner[:2]] == [17, 1]
    error = np.concatenate(labels) - tree.margins * scale
    assert abs((error**2).mean() - 122.044) < 0.02
