"""Declared edges: rows of parties and owners are cut there, and where all are declared, no value becomes public."""

import numpy as np
import pytest

from mpc.errors import ConfigError, DataError
from secure_tree.owners import contributing
from secure_tree.owners.contributing import Owners, upload
from secure_tree.owners.stored import Stored
from secure_tree.public.config import TrainConfig
from secure_tree.setup.edges import EDGES
from tests.secure_tree.opened import train_both
from tests.secure_tree.owners.test_bounds import collected, three
from tests.secure_tree.owners.test_owners import PARAMETERS, changed, hidden, tables, two_bins
from tests.secure_tree.test_twin import check

SOME = {"f1": (-0.5, 0.0, 1.25)}
ALL = {"f0": (-0.75, 0.1, 0.5), "f1": (0.0,)}


def made(missing=False):
    return tables((30, 25, 20, 15, 10), d=2, missing=missing)


def trained(cuts, others=2, **more):
    (a, ya), (b, yb), *owned = made("missing" in more)
    owners = {f"bank_{k}": each for k, each in enumerate(owned[:others])}
    return train_both((a, b), (ya, yb), owners=owners, **{**PARAMETERS, "cuts": cuts, **more})


def revealed(training):
    return {what for party in training.parties for what in party.revealed}


@pytest.mark.parametrize("others", [0, 2])
@pytest.mark.parametrize("cuts", [SOME, ALL])
@pytest.mark.parametrize("more", [{}, {"missing": ("f1",)}])
def test_splits_are_the_twins(cuts, others, more):
    training = trained(cuts, others, **more)
    assert len(check(training, 2)) > 1
    for model in training.models:
        for f, name in enumerate(("f0", "f1")):
            if name in cuts:
                assert model.model.cuts[f, 1 : 1 + len(cuts[name])].tolist() == pytest.approx(cuts[name])
    assert (EDGES in revealed(training)) == (cuts is SOME)
    assert training.facts.layout.sizes[0] == (8 if cuts is SOME else 4)


def test_an_owner_of_declared_edges_sends_no_counts_and_waits_for_no_edges(monkeypatch):
    heard, send = set(), contributing.send_halves
    monkeypatch.setattr(contributing, "key_counts", None)
    monkeypatch.setattr(
        contributing, "send_halves", lambda lines, tag, halves: (heard.add(tag), send(lines, tag, halves))
    )
    check(trained(ALL), 2)
    assert heard == {"owner.labels", "owner.bins"}
    config = TrainConfig.of(**PARAMETERS, cuts=ALL)
    assert upload(config, 100, ("f0", "f1")) == 13 + 100 * 2 * 4 // 8


@pytest.mark.parametrize("change", [two_bins, hidden])
def test_bins_are_checked_without_counts(monkeypatch, change):
    changed(monkeypatch, "one_hot", 15, change)
    more = {"missing": ("f1",)} if change is hidden else {}
    with pytest.raises(DataError, match="bank_1: its"):
        trained(ALL, **more)


def test_collected_halves_fit_their_cuts(tmp_path):
    parameters = {**PARAMETERS, "cuts": ALL}
    kept, _ = collected(tmp_path, made(), three(made()), parameters=parameters)
    owners = {each.name: made()[2 + k] for k, each in enumerate(kept)}

    def again(**others):
        given = {"given": lambda rank: Stored(tmp_path / str(rank)), "owners": owners}
        return train_both(*zip(*made()[:2], strict=True), **given, **{**parameters, **others})

    check(again(), 2)
    with pytest.raises(ConfigError, match="was collected with cuts"):
        again(cuts={**ALL, "f1": (0.5,)})


def test_an_owner_consents_to_cuts():
    config = TrainConfig.of(**PARAMETERS, cuts=ALL)
    contributing._consents(config, {"edges": "joint", "cuts": {name: list(cuts) for name, cuts in ALL.items()}})
    with pytest.raises(ConfigError, match=r"consents to cuts .*0\.25.*, and the parties train with"):
        contributing._consents(config, {"edges": "joint", "cuts": {**ALL, "f0": [0.25]}})


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"cuts": {"f0": ()}}, r"cuts of f0 must be ascending finite numbers of float32, got \[\]"),
        ({"cuts": {"f0": (1.0, 1.0)}}, "ascending finite numbers"),
        ({"cuts": {"f0": (1.0, 1.0 + 1e-12)}}, "ascending finite numbers"),
        ({"cuts": {"f0": (1.0, np.inf)}}, "ascending finite numbers"),
        ({"cuts": {"f0": tuple(range(8))}}, "cuts of f0 must be at most 7, as max_bin says, got 8"),
        ({"cuts": SOME, "edges": "private"}, 'cuts need edges = "joint"'),
        ({"cuts": SOME, "partition": "vertical"}, 'cuts need edges = "joint"'),
        ({"cuts": SOME, "max_bin": "exact"}, 'cuts need edges = "joint"'),
        ({"cuts": [1, 2]}, "cuts must be a table"),
    ],
)
def test_cuts_that_are_none_are_refused(parameters, sentence):
    with pytest.raises(ConfigError, match=sentence):
        TrainConfig.of(**{**PARAMETERS, **parameters})


def test_cuts_of_no_feature_are_refused():
    with pytest.raises(ConfigError, match="cuts: no party has a numeric feature 'f7'"):
        trained({**ALL, "f7": (1.0,)}, others=0)
    assert Owners({}).names == []
