"""The audit: an honest run never trips, and a fault planted in any stage of a training or a prediction is found."""

import functools

import numpy as np
import pytest

from mpc.audit import Audit
from mpc.contract import REGISTRY
from mpc.errors import AuditFailure
from mpc.rehearsal import Silence
from mpc.shares import Share
from mpc.verdict import REVEALED
from protocols.testing.two_parties import dealt, made_by_both, run_both
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from tests.secure_tree.test_twin import table

X, Y = table(60, 4, seed=5)
SMALL = {"n_estimators": 2, "max_depth": 2, "max_bin": 8, "learning_rate": 0.3}
VERTICAL = {"partition": "vertical"}


def audited(job, source=dealt):
    def play(party):
        party.audit = Audit()
        return job(party)

    return run_both(play, source=source)


def fit_and_predict(method="bins", fitted=None, **parameters):
    """A job of both parties on parts of one table; `fitted()` is called once the model is there."""
    config = {**SMALL, **parameters}
    kind = SecureXGBRegressor if "reg" in config.get("objective", "") else SecureXGBClassifier

    def job(party):
        if config.get("partition") == "vertical":
            rows, labels = (X[:, :2], X[:, 2:])[party.rank], (Y, None)[party.rank]
        else:
            rows, labels = (X[:25], X[25:])[party.rank], (Y[:25], Y[25:])[party.rank]
        model = kind(**config).fit(party, rows, labels)
        if fitted:
            fitted()
        return model.predict_margin(party, rows, method)

    return job


@pytest.mark.parametrize(
    ("source", "method", "parameters"),
    [
        (dealt, "bins", {}),
        (dealt, "thresholds", {"min_child_samples": 3, "reg_alpha": 0.2}),
        (dealt, "bins", {"comparison": "keys", "edges": "joint", "max_depth": 1}),
        (dealt, "thresholds", {**VERTICAL, "subsample": 0.7, "missing": "all"}),
        (dealt, "bins", {"objective": "reg:squarederror", "test_size": 0.4, "eval_epochs": 1, "max_depth": 3}),
        (made_by_both, "bins", {"n_estimators": 1}),
    ],
)
def test_an_honest_run_passes(source, method, parameters):
    results, parties = audited(fit_and_predict(method, **parameters), source)
    assert all(np.isfinite(result).all() for result in results)
    assert all(party.revealed.count(REVEALED) == 1 for party in parties)


def flipped(result):
    """A result with one bit flipped in one word of one share."""
    if isinstance(result, tuple):
        return (flipped(result[0]), *result[1:])
    assert isinstance(result, Share)
    words = result._words.copy()
    words.reshape(-1)[words.size // 2] ^= words.dtype.type(1)
    return result._like(words)


def top_flipped(result):
    """As `flipped`, the highest bit of a word: an error that half of all random coefficients turn into zero."""
    if isinstance(result, tuple):
        return (top_flipped(result[0]), *result[1:])
    words = result._words.copy()
    words.reshape(-1)[words.size // 2] ^= words.dtype.type(1 << 8 * words.dtype.itemsize - 1)
    return result._like(words)


def plant(monkeypatch, name, stage, rank, change, always=False):
    """The result of the protocol's second call in a stage, or of all, comes out changed at one party: a fault in the
    second evaluation, or the same one in both. Returns the count of calls.
    """
    contract, count = REGISTRY[name], [0]
    honest = contract._steps

    @functools.wraps(honest)
    def faulty(party, *args, **kwargs):
        result = yield from honest(party, *args, **kwargs)
        here = party._part[0] if getattr(party, "_part", None) else "set-up"
        if party.rank == rank and here == stage and not isinstance(party.link, Silence):
            count[0] += 1
            if always or count[0] == 2:
                return change(result)
        return result

    monkeypatch.setattr(contract, "_steps", faulty)
    return count


STAGES = [
    ("set-up", "comparison.below_by_bits", flipped),
    ("gradients", "sigmoid.sigmoid", top_flipped),
    ("histograms", "linear_map.apply_matrix", flipped),
    ("histograms", "linear_map.apply_matrix", top_flipped),
    ("histograms", "fixed_choice.select_fixed", top_flipped),
    ("histograms", "fixed_operand.multiply_fixed", flipped),
    ("histograms", "widening.widen", flipped),
    ("gains", "logarithm.logarithm", top_flipped),
    ("gains", "beaver.dot", flipped),
    ("best split", "argmax.argmax", flipped),
    ("rows to children", "linear_map.apply_matrix", flipped),
    ("rows to children", "bit_product.select", flipped),
    ("leaf weights", "reciprocal.invert", flipped),
    ("leaf weights", "truncation.floor_by_bits", flipped),
    ("leaf weights", "one_hot.all_of", flipped),
    ("leaf weights", "bit_product.select", top_flipped),
]


def named(rows):
    return [f"{row[0]}-{row[1]}-{row[2].__name__}" for row in rows]


@pytest.mark.parametrize(("stage", "name", "change"), STAGES, ids=named(STAGES))
def test_a_fault_in_a_stage_is_found(monkeypatch, stage, name, change):
    count = plant(monkeypatch, name, stage, len(name) % 2, change)
    with pytest.raises(AuditFailure, match=f"in: {stage}: "):
        audited(fit_and_predict())
    assert count[0] >= 2


WRONG = [
    ("histograms", "linear_map.apply_matrix", "histograms: the bins of a feature add up"),
    ("histograms", "fixed_choice.select_fixed", "histograms: rows sent left add up"),
    ("rows to children", "linear_map.apply_matrix", "rows sent left add up"),
    ("best split", "argmax.argmax", "best split: each node has one winner"),
    ("leaf weights", "widening.widen", "leaf weights: margins grow by the leaves"),
]


@pytest.mark.parametrize(("stage", "name", "relation"), WRONG, ids=[name for _, name, _ in WRONG])
def test_what_is_wrong_twice_contradicts_a_relation(monkeypatch, stage, name, relation):
    plant(monkeypatch, name, stage, 1, flipped, always=True)
    with pytest.raises(AuditFailure, match=relation):
        audited(fit_and_predict(max_depth=3))


PREDICTION = {
    "bins": ["linear_map.apply_matrix", "bit_product.to_ring", "equality.equals_zero", "bit_product.select"],
    "thresholds": ["linear_map.apply_matrix", "comparison.below_by_bits", "bit_product.to_ring"],
}


@pytest.mark.parametrize(("method", "name"), [(m, name) for m, names in PREDICTION.items() for name in names])
def test_a_fault_in_a_prediction_is_found(monkeypatch, method, name):
    waiting = []

    def fitted():
        waiting.append(1)
        if len(waiting) == 1:
            plant(monkeypatch, name, "set-up", 0, flipped)

    with pytest.raises(AuditFailure, match=name.replace(".", r"\.")):
        audited(fit_and_predict(method, fitted=fitted, n_estimators=1))
