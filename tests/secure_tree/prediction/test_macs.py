"""Predictions with MACs equal those without, and a lie by either party in any opening is detected."""

import copy
from contextlib import suppress
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import mpc.authenticated.macs
from mpc.errors import ConfigError, MacFailure
from protocols.runtime import run_local
from protocols.testing.two_parties import made_by_both, run_both
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.prediction.authenticated import input_model
from secure_tree.prediction.revealing import revealed_margins
from tests.secure_tree.test_twin import table

X, Y = table(60, 4, seed=5)
SMALL = {"n_estimators": 2, "max_depth": 2, "max_bin": 8, "learning_rate": 0.3}
VERTICAL = {"partition": "vertical"}
MISSING = np.where(np.random.default_rng(3).random(X.shape) < 0.2, np.nan, X)


def rows_of(rank, table=X, vertical=False):
    return (table[:, :2], table[:, 2:])[rank] if vertical else (table[:25], table[25:])[rank]


@cache
def models(**parameters):
    """Return both halves of a model."""
    config = {**SMALL, **parameters}
    kind = SecureXGBRegressor if "reg" in config.get("objective", "") else SecureXGBClassifier
    vertical = config.get("partition") == "vertical"
    source = MISSING if config.get("missing") else X
    labels = (Y + (X[:, 0] > 1)) if config.get("num_class") else Y

    def fit(party):
        y = (labels, None)[party.rank] if vertical else (labels[:25], labels[25:])[party.rank]
        return kind(**config).fit(party, rows_of(party.rank, source, vertical), y)

    return run_both(fit)[0]


def predict(halves, mac=True, rows=None, wrap=None):
    """Return margins at both parties, each with at most `rows` rows. `wrap(party)` is called before the prediction."""
    config = halves[0].config
    vertical = config.partition == "vertical"
    source = MISSING if config.missing == "all" else X

    def job(party):
        if wrap:
            wrap(party)
        own = rows_of(party.rank, source, vertical)[:rows]
        return halves[party.rank].predict_margin(party, own, "thresholds", mac=mac)

    return run_both(job)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"max_depth": 1, "n_estimators": 3},
        {"max_depth": 4},
        {"missing": "all"},
        {**VERTICAL},
        {**VERTICAL, "missing": "all"},
        {"objective": "multi:ova", "num_class": 3},
        {"objective": "reg:squarederror"},
    ],
    ids=str,
)
def test_predictions_are_those_without(parameters):
    halves = models(**parameters)
    without, _ = predict(halves, mac=False)
    with_macs, _ = predict(halves)
    for a, b in zip(without, with_macs, strict=True):
        assert np.array_equal(a, b)


class Lying:
    """A link that changes one array that it sends: one word or all, in any bits."""

    def __init__(self, link, lie_at, change):
        self._link, self._lie_at, self._change = link, lie_at, change
        self.sent = 0

    def exchange(self, tag, arrays, like=None):
        return self._link.exchange(tag, [self._changed(array) for array in arrays], like)

    def _changed(self, array):
        self.sent += 1
        if self.sent != self._lie_at:
            return array
        changed = array.copy()
        self._change(changed)
        return changed

    def __getattr__(self, name):
        return getattr(self._link, name)


def low_bit(data):
    data[0] ^= 1


def top_bit_of_the_last(data):
    data[-1] ^= 0x80


def all_bytes(data):
    data ^= np.random.default_rng(data.size).integers(1, 256, data.size, np.uint8)


def zeros(data):
    data[data == 0] = 1
    data &= 1


def frames(halves, rows):
    """Return how many arrays each party sends in a prediction."""
    links = [None, None]

    def wrap(party):
        party.link = links[party.rank] = Lying(party.link, 0, None)

    predict(halves, rows=rows, wrap=wrap)
    return [link.sent for link in links]


@pytest.mark.parametrize("change", [low_bit, top_bit_of_the_last, all_bytes, zeros])
@pytest.mark.parametrize("parameters", [{}, VERTICAL], ids=["by rows", "by columns"])
def test_whatever_is_changed_in_what_is_sent_is_caught(parameters, change):
    halves = models(**parameters)
    sent = frames(halves, 3)
    assert min(sent) > 12
    for rank in (0, 1):
        for lie_at in range(1, sent[rank] + 1):

            def wrap(party, rank=rank, lie_at=lie_at):
                if party.rank == rank:
                    party.link = Lying(party.link, lie_at, change)

            with pytest.raises(MacFailure, match="do not match their MACs"):
                predict(halves, rows=3, wrap=wrap)


class Liar:
    """Replaces `open_authenticated`: the liar adds an error to its share of an opened word, and goes on.

    Both parties then have the same opened words, so only the MACs reveal the error.
    """

    def __init__(self, monkeypatch, rank):
        self._honest, self._rank = mpc.authenticated.macs.open_authenticated, rank
        for module in ("macs", "authenticated_sign", "authenticated_rows", "reveal"):
            monkeypatch.setattr(f"mpc.authenticated.{module}.open_authenticated", self)

    def predict(self, halves, lie_at, error):
        """Return margins with the error in this opening."""
        self.opened, self._lie_at, self._error = 0, lie_at, np.uint64(error)

        def job(party):
            model = halves[party.rank].model
            layout = replace(model.facts.layout, rows=(3, 3))
            rows = rows_of(party.rank, vertical=layout.vertical)[:3]
            authentic = party.run(input_model(party, model.ensemble, layout))
            return revealed_margins(party, model, layout, rows, "thresholds", 0, authentic)

        return run_both(job)[0]

    def steps(self, party, x):
        if x.rank == self._rank:
            self.opened += 1
            if self.opened == self._lie_at:
                wrong = np.zeros_like(x.words)
                wrong.reshape(-1)[0] = self._error
                x = replace(x, words=x.ring.add(x.words, wrong))
        return self._honest.steps(party, x)


@pytest.mark.parametrize(("parameters", "openings"), [({}, 10), (VERTICAL, 5)], ids=["by rows", "by columns"])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_party_that_shares_another_value_and_goes_on_with_it_is_caught(monkeypatch, rank, parameters, openings):
    halves, liar = models(**parameters), Liar(monkeypatch, rank)
    expected = liar.predict(halves, 0, 0)
    assert liar.opened == openings, "four per group of rows, and its predictions"
    for lie_at in range(1, openings + 1):
        for error in (1, 1 << 3, 12345678901234567, (1 << 64) - 1):
            with pytest.raises(MacFailure, match="do not match their MACs"):
                liar.predict(halves, lie_at, error)
        # The error is beyond the bits that are read. It may pass, and then changes nothing.
        with suppress(MacFailure):
            found = liar.predict(halves, lie_at, 1 << 63)
            assert all(np.array_equal(a, b) for a, b in zip(expected, found, strict=True))


def test_what_a_party_takes_in_is_its_choice():
    """Another half of the model or other rows are not a lie about an opened value. They pass and change predictions."""
    halves = models()
    expected, _ = predict(halves, rows=3)
    other = copy.copy(halves[0])  # public numbers are added to the share of party 0
    ensemble = replace(other.model.ensemble, base=other.model.ensemble.base + 1.0)
    other.model = replace(other.model, ensemble=ensemble)
    found, _ = predict((other, halves[1]), rows=3)
    assert all(np.allclose(b - a, 1.0) for a, b in zip(expected, found, strict=True))


def test_honest_predictions_never_alarm():
    halves = models()
    expected, _ = predict(halves, mac=False, rows=4)
    for _ in range(60):
        found, _ = predict(halves, rows=4)
        assert all(np.array_equal(a, b) for a, b in zip(expected, found, strict=True))


def test_it_is_refused_where_it_is_not_supported():
    halves = models()

    def by_bins(party):
        return halves[party.rank].predict_margin(party, rows_of(party.rank), mac=True)

    with pytest.raises(ConfigError, match='with MACs the method must be "thresholds"'):
        run_both(by_bins)

    def one_sided(party):
        return halves[party.rank].predict_margin(party, rows_of(party.rank), "thresholds", mac=party.rank == 0)

    with pytest.raises(ConfigError, match="disagree on mac"):
        run_both(one_sided)

    def pairwise(party):
        return halves[party.rank].predict_margin(party, rows_of(party.rank), "thresholds", mac=True)

    with pytest.raises(ConfigError, match='offline must be "dealer" with MACs'):
        run_both(pairwise, source=made_by_both)


def test_between_processes_with_a_dealer():
    halves = models()

    def job(party):
        return halves[party.rank].predict_margin(party, rows_of(party.rank), "thresholds", mac=True)

    found = run_local(job)
    for a, b in zip(predict(halves, mac=False)[0], found, strict=True):
        assert np.array_equal(a, b)
