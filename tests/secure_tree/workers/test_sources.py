"""Rows that workers open: model and facts do not depend on the division, and shards that do not fit are refused."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from mpc.errors import ConfigError, DataError, WorkersLost
from protocols.testing.two_parties import DirectWorkers, run_both, with_workers
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.agreement.same_rows import digest_of
from secure_tree.data.fingerprint import fingerprint
from secure_tree.data.own_rows import Here
from secure_tree.data.table import Table, rows_of
from secure_tree.training.checkpoint import Checkpoints
from secure_tree.workers.sources import Shards

PARAMETERS = {"n_estimators": 2, "max_depth": 2, "max_bin": 8}
N, CUT = 120, 50
RNG = np.random.default_rng(4)
X = RNG.normal(size=(N, 3)).astype(np.float32)
Y = (X[:, 0] + X[:, 2] > 0).astype(float)
W = RNG.integers(1, 5, N).astype(float)
OWN = slice(0, CUT), slice(CUT, N)


@dataclass(frozen=True)
class Elsewhere:
    """A source that only workers may open."""

    table: Table

    @property
    def rows(self):
        return len(self.table.features)

    def read(self, config, known):
        return self.table


def table_of(rows, features=slice(None), labels=Y, weights=None):
    names = tuple(f"f{i}" for i in range(X[:, features].shape[1]))
    own = None if weights is None else weights[rows]
    return Table(X[rows, features], names, None if labels is None else labels[rows], own)


def shards(table, *ends):
    parts = np.split(np.arange(len(table.features)), ends)
    return Shards([Elsewhere(rows_of(table, rows)) for rows in parts], table.features[:0])


def fit(party, X, checkpoints=None, **parameters):
    return SecureXGBClassifier(**PARAMETERS | parameters).fit(party, X, checkpoints=checkpoints)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"edges": "joint"},
        {"max_bin": "exact"},
        {"test_size": 0.2, "eval_metric": "logloss"},
        {"kind": SecureXGBRegressor},
        {"kind": SecureXGBRegressor, "objective": "count:poisson"},
    ],
)
def test_uneven_shards_have_the_facts_and_bins_of_one_process(parameters):
    parameters = PARAMETERS | parameters
    kind = parameters.pop("kind", SecureXGBClassifier)

    def job(party):
        rows, ends = OWN[party.rank], ((7, 30), (50, 52))[party.rank]
        table = table_of(rows, weights=W)
        divided = kind(**parameters).fit(party, shards(table, *ends))
        predicted = divided.predict_margin(party, shards(table, *ends))
        party.workers = None
        whole = kind(**parameters).fit(party, X[rows], Y[rows], W[rows])
        for name in ("layout", "label_scale", "weight_scale", "masses", "validation_rows"):
            assert getattr(divided.model.facts, name) == getattr(whole.model.facts, name)
        assert np.array_equal(divided.model.cuts, whole.model.cuts)
        if parameters.get("test_size"):
            assert np.abs(np.array(divided.curve) - np.array(whole.curve)).max() < 1e-3
        return predicted, whole.predict_margin(party, X[rows])

    for ours, theirs in run_both(with_workers(job, 3))[0]:
        assert np.abs(ours - theirs).max() < 2e-3


def test_by_columns_the_pairs_of_workers_compare_their_ids():
    def job(party, moved=0):
        features = (slice(0, 2), slice(2, 3))[party.rank]
        parts = []
        for i, rows in enumerate(np.split(np.arange(N), [40, 90])):
            table = table_of(rows, features, Y if party.rank == 0 else None)
            ids = [f"p{row}" for row in rows]
            if moved and i == 2 and party.rank == 1:
                ids[0], ids[1] = ids[1], ids[0]
            parts.append(Elsewhere(replace(table, ids=digest_of(ids))))
        model = fit(party, Shards(parts, parts[0].table.features[:0]), partition="vertical")
        return model.predict_margin(party, Shards(parts, parts[0].table.features[:0]))

    margins = run_both(with_workers(job, 3))[0][0]
    assert np.mean((margins > 0) == Y) > 0.8
    with pytest.raises(DataError, match="shard 2: both parties must have the same ids in the same order"):
        run_both(with_workers(lambda party: job(party, 1), 3))


def refused(sentence, ends=((10, 20), (10, 20)), error=ConfigError, workers=3, change=lambda part: part, **settings):
    def job(party):
        table = table_of(OWN[party.rank])
        divided = shards(table, *ends[party.rank])
        parts = [Elsewhere(change(part.table)) if i == 1 else part for i, part in enumerate(divided.parts)]
        fit(party, Shards(parts, divided.header), **settings)

    with pytest.raises(error, match=sentence):
        run_both(with_workers(job, workers) if workers else job)


def test_what_does_not_fit_is_refused():
    refused("shards must be at most the rows of either party, 50, got 3", ends=((0, 20), (10, 20)))
    refused("must have one shard per worker, got 2 shards for 3 workers", ends=((10,), (10, 20)))
    refused("rows in shards require workers, but this party has none: set shards", workers=0)
    other = {"error": DataError, "change": lambda table: replace(table, names=("f0", "f2", "f1"))}
    refused("shard 1: must have the features of shard 0 in the same order", **other)


def test_exact_bins_of_many_values_are_refused(monkeypatch):
    monkeypatch.setattr("secure_tree.data.sketches.MOST_COUNTED", 16)
    refused("'f0' has more", max_bin="exact")


@pytest.mark.parametrize("weights", [None, W])
@pytest.mark.parametrize("place", ["features", "labels"])
def test_a_fingerprint_does_not_depend_on_the_division(monkeypatch, weights, place):
    monkeypatch.setattr("secure_tree.data.fingerprint._ROWS", 11)
    key = bytes(range(16))
    table = table_of(slice(0, N), weights=weights)
    none = rows_of(table, np.arange(0))

    class Divided(Here):
        def each(self, program, *given):
            parts = np.split(np.arange(N), [3, 3, 70])
            found = [Here(rows_of(table, rows), none) for rows in parts]
            for part, rows in zip(found, parts, strict=True):
                part._part.first = int(rows[0]) if rows.size else 0
            return [answer for part in found for answer in part.each(program, *given)]

    whole = fingerprint(Here(table, none), key)
    assert fingerprint(Divided(table, none), key) == whole
    values = getattr(table, place).copy()
    values[5], values[6] = values[6] + 1, values[5]
    assert fingerprint(Here(replace(table, **{place: values}), none), key) != whole
    assert fingerprint(Here(table, none), bytes(16)) != whole


def test_a_training_resumes_with_the_bins_that_were_kept(tmp_path, monkeypatch):
    """This includes another number of shards."""

    def job(party, count, resume):
        keeping = Checkpoints(tmp_path / str(party.rank), resume)
        table = table_of(OWN[party.rank])
        ends = np.linspace(0, len(table.features), count + 1).astype(int)[1:-1]
        return fit(party, shards(table, *ends), n_estimators=3 if resume else 2, checkpoints=keeping).model.cuts

    first = run_both(with_workers(lambda party: job(party, 3, False), 3))[0]
    monkeypatch.setattr("secure_tree.workers.sources.bins_of_shards", None)
    again = run_both(with_workers(lambda party: job(party, 2, True), 2))[0]
    assert all(np.array_equal(*pair) for pair in zip(first, again, strict=True))


def test_workers_that_are_lost_before_the_first_tree_open_their_parts_again(monkeypatch):
    each, asked, restarted = DirectWorkers.each, {0: 0, 1: 0}, []

    def losing(self, program, given, own, planned, keep):
        rank = self.sites[0].party.rank
        asked[rank] += 1
        if rank == 1 and asked[rank] in (2, 5, 6):
            raise WorkersLost("shard 0: its worker has ended")
        return each(self, program, given, own, planned, keep)

    def restart(self, party):
        restarted.append(party.rank)
        for site in self.sites:
            site._kept.clear()

    monkeypatch.setattr(DirectWorkers, "each", losing)
    monkeypatch.setattr(DirectWorkers, "restart", restart)
    trained = run_both(with_workers(lambda party: fit(party, shards(table_of(OWN[party.rank]), 20)), 2))[0]
    assert all(len(model.model.ensemble.leaves) == 2 for model in trained)
    assert sorted(restarted) == [0, 0, 0, 1, 1, 1]
