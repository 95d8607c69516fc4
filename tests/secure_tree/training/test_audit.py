"""The audit: an honest run passes, and a fault injected into any stage of a training or prediction is detected."""

import functools

import numpy as np
import pytest

from mpc.arithmetic.beaver import multiply
from mpc.checks.repetition import LOCAL_WORK
from mpc.checks.verdict import REVEALED, Auditor, begin
from mpc.errors import AuditFailure
from mpc.host.streaming import Pieces
from mpc.protocol.contract import REGISTRY
from mpc.protocol.rehearsal import Silence
from mpc.shares import AShare, BShare, Share
from protocols.runtime import run_local
from protocols.testing.two_parties import dealt, made_by_both, ring_half, run_both
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.prediction import predict
from secure_tree.training import boost, validation
from secure_tree.tree import grow as tree
from secure_tree.tree.gradients import Targets
from secure_tree.tree.rows import LocalTreeRows
from tests.secure_tree.test_twin import table

X, Y = table(60, 4, seed=5)
SMALL = {"n_estimators": 2, "max_depth": 2, "max_bin": 8, "learning_rate": 0.3}
VERTICAL = {"partition": "vertical"}


def audited(job, source=dealt):
    def play(party):
        party.audit = Auditor()
        return job(party)

    return run_both(play, source=source)


def fit_and_predict(method="bins", fitted=None, **parameters):
    """Return a job for both parties on parts of one table. It calls `fitted()` after the training."""
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
        (dealt, "bins", {"edges": "joint", "max_depth": 1}),
        (dealt, "thresholds", {**VERTICAL, "subsample": 0.7, "missing": "all"}),
        (dealt, "bins", {"objective": "reg:squarederror", "test_size": 0.4, "eval_epochs": 1, "max_depth": 3}),
        (made_by_both, "bins", {"n_estimators": 1}),
    ],
)
def test_an_honest_run_passes(source, method, parameters):
    results, parties = audited(fit_and_predict(method, **parameters), source)
    assert all(np.isfinite(result).all() for result in results)
    assert all(party.revealed.count(REVEALED) == 1 for party in parties)


def test_trainings_one_after_the_other_pass():
    def job(party):
        for more in ({"test_size": 0.4, "eval_epochs": 1}, {"n_estimators": 1}, {"test_size": 0.3}):
            SecureXGBClassifier(**{**SMALL, **more}).fit(party, *halves_of(party.rank))

    audited(job)


def flipped(result):
    """Return a result with one bit flipped in one word of one share."""
    if isinstance(result, tuple):
        return (flipped(result[0]), *result[1:])
    assert isinstance(result, Share)
    words = result._words.copy()
    words.reshape(-1)[words.size // 2] ^= words.dtype.type(1)
    return result._like(words)


def top_flipped(result):
    """Flip the highest bit of a word instead: an error that half of all random coefficients turn into zero."""
    if isinstance(result, tuple):
        return (top_flipped(result[0]), *result[1:])
    words = result._words.copy()
    words.reshape(-1)[words.size // 2] ^= words.dtype.type(1 << 8 * words.dtype.itemsize - 1)
    return result._like(words)


def plant(monkeypatch, name, stage, rank, change, always=False):
    """Change the result of a protocol in a stage at one party, and return the count of calls.

    The second call is changed, which is a fault in the second evaluation; or `always`, the same fault in both.
    """
    contract, count = REGISTRY[name], [0]
    honest = contract.body

    @functools.wraps(honest)
    def faulty(party, *args, **kwargs):
        result = yield from honest(party, *args, **kwargs)
        here = party._part[0] if getattr(party, "_part", None) else "set-up"
        if party.rank == rank and here == stage and not isinstance(party.link, Silence):
            count[0] += 1
            if always or count[0] == 2:
                return change(result)
        return result

    monkeypatch.setattr(contract, "body", faulty)
    return count


STAGES = [
    ("set-up", "comparison.below_by_bits", flipped),
    ("gradients", "sigmoid.sigmoid", top_flipped),
    ("histograms", "linear_map.apply_matrix", flipped),
    ("histograms", "linear_map.apply_matrix", top_flipped),
    ("histograms", "fixed_factor.select_fixed", top_flipped),
    ("histograms", "fixed_operand.multiply_fixed", flipped),
    ("histograms", "widening.widen", flipped),
    ("gains", "logarithm.logarithm", top_flipped),
    ("gains", "widening_dot.widening_dot", flipped),
    ("gains", "quadratic.quadratic", flipped),
    ("best split", "argmax.argmax", flipped),
    ("rows to children", "linear_map.apply_matrix", flipped),
    ("rows to children", "bits.select", flipped),
    ("leaf weights", "reciprocal.invert", flipped),
    ("leaf weights", "truncation.floor_by_bits", flipped),
    ("leaf weights", "one_hot.all_of", flipped),
    ("leaf weights", "bits.select", top_flipped),
]


def named(rows):
    return [f"{row[0]}-{row[1]}-{row[2].__name__}" for row in rows]


@pytest.mark.parametrize(("stage", "name", "change"), STAGES, ids=named(STAGES))
def test_a_fault_in_a_stage_is_found(monkeypatch, stage, name, change):
    count = plant(monkeypatch, name, stage, len(name) % 2, change)
    with pytest.raises(AuditFailure, match=f"in: {stage}: "):
        audited(fit_and_predict())
    assert count[0] >= 2


class Once:
    """Stands for a function between protocols: one call of it, at either party, gives a share with one bit flipped."""

    def __init__(self, monkeypatch, owner, name, at):
        self.calls, self._at, honest = 0, at, getattr(owner, name)

        def sometimes(*args, **kwargs):
            self.calls += 1
            result = honest(*args, **kwargs)
            return flipped(result) if self.calls == self._at else result

        monkeypatch.setattr(owner, name, sometimes)


LOCAL = [(tree, "_children"), (tree, "interleave"), (boost, "concatenate"), (AShare, "__sub__"), (AShare, "sum")]
LOCAL += [(BShare, "masked"), (validation, "stack"), (predict, "concatenate")]


@pytest.mark.parametrize(("owner", "name"), LOCAL, ids=[name for _, name in LOCAL])
def test_a_fault_between_protocols_is_found(monkeypatch, owner, name):
    """At five of the calls, those of a rehearsal among them, which change nothing."""
    job = fit_and_predict("thresholds", test_size=0.4, eval_epochs=1)
    honest, _ = audited(job)
    found = []
    with monkeypatch.context() as patch:
        counted = Once(patch, owner, name, 0)
        audited(job)
    for at in np.linspace(1, counted.calls, 5).astype(int):
        with monkeypatch.context() as patch:
            Once(patch, owner, name, at)
            try:
                results, _ = audited(job)
            except AuditFailure as failure:
                found.append(str(failure))
                continue
        assert all(np.array_equal(a, b) for a, b in zip(results, honest, strict=True)), at
    assert any(LOCAL_WORK in sentence for sentence in found), found


def one_changed(margins):
    return [flipped(margins[0]), *margins[1:]]


MEMORY = {
    "margins": lambda rows: setattr(rows, "margins", one_changed(rows.margins)),
    "labels": lambda rows: setattr(rows, "targets", Targets(flipped(rows.targets.labels), None)),
    "bins": lambda rows: rows.blocks[0].lines.matrix.bins[0].__ixor__(1),
    "trees": lambda rows: rows.trees[0].leaves.words.__ixor__(np.uint64(1)),
}


@pytest.mark.parametrize("what", MEMORY)
def test_what_changes_in_memory_between_rounds_is_found(what):
    def corrupted(number, tree, rows):
        if number == 0:
            rows.rows.trees = [tree]
            MEMORY[what](rows.rows)

    def job(party):
        SecureXGBClassifier(**SMALL).fit(
            party, *halves_of(party.rank), observer=corrupted if party.rank == 0 else lambda *_: None
        )

    with pytest.raises(AuditFailure, match=r"memory: (trees|rows and margins) have not changed"):
        audited(job)


WRONG = [
    ("histograms", "linear_map.apply_matrix", "histograms: the bins of a feature add up"),
    ("histograms", "fixed_factor.select_fixed", "histograms: rows sent left add up"),
    ("rows to children", "linear_map.apply_matrix", "rows sent left add up"),
    ("best split", "argmax.argmax", "best split: each node has one winner"),
    ("leaf weights", "widening.widen", "leaf weights: margins grow by the leaves"),
]


@pytest.mark.parametrize(("stage", "name", "relation"), WRONG, ids=[name for _, name, _ in WRONG])
def test_what_is_wrong_twice_contradicts_a_relation(monkeypatch, stage, name, relation):
    plant(monkeypatch, name, stage, 1, flipped, always=True)
    with pytest.raises(AuditFailure, match=relation):
        audited(fit_and_predict(max_depth=3))


def test_winners_that_are_not_the_best_contradict_their_keys(monkeypatch):
    """Both parties take the next candidate instead, in both evaluations."""
    contract = REGISTRY["argmax.argmax"]
    honest = contract.body

    @functools.wraps(honest)
    def off_by_one(party, *args, **kwargs):
        best, largest = yield from honest(party, *args, **kwargs)
        return best.map(lambda bits: np.roll(bits, 1, axis=-1)), largest

    monkeypatch.setattr(contract, "body", off_by_one)
    with pytest.raises(AuditFailure, match="best split: the winner has the largest key"):
        audited(fit_and_predict())


PREDICTION = {
    "bins": ["linear_map.apply_matrix", "bits.to_ring", "equality.equals_zero", "bits.select"],
    "thresholds": ["linear_map.apply_matrix", "comparison.below_by_bits", "bits.to_ring"],
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


class Lying:
    """A link that changes the first words of the array number `lie_at` that it sends."""

    def __init__(self, link, lie_at, words):
        self._link, self._lie_at, self._words, self.sent = link, lie_at, words, 0

    def exchange(self, tag, arrays, like=None):
        told = []
        for array in arrays:
            told.append(self._changed(array) if self.sent == self._lie_at else array)
            self.sent += bool(array.size)
        return self._link.exchange(tag, told, like)

    def _changed(self, array):
        if isinstance(array, Pieces):
            return Pieces(array.rows, array.width, lambda rows: ~array.make(rows))
        changed = array.copy()
        changed.reshape(-1)[: self._words] ^= np.random.default_rng(self.sent).integers(
            0, 256, dtype=np.uint8
        ) | np.uint8(1)
        return changed

    def __getattr__(self, name):
        return getattr(self._link, name)


@pytest.fixture(scope="module", params=["bins", "thresholds"])
def served(request):
    """Both halves of a model, the method, the honest predictions, and the number of arrays that each party sends."""
    config = {**SMALL, "n_estimators": 2}

    def fit(party):
        model = SecureXGBClassifier(**config).fit(party, *halves_of(party.rank))
        return model

    models, _ = run_both(fit)
    honest, links = predict_with_a_lie(models, request.param, rank=0, lie_at=-1, words=0)
    return models, request.param, honest, [link.sent for link in links]


def halves_of(rank):
    return (X[:25], X[25:])[rank], (Y[:25], Y[25:])[rank]


def predict_with_a_lie(models, method, rank, lie_at, words):
    links = [None, None]

    def job(party):
        party.link = links[party.rank] = Lying(party.link, lie_at if party.rank == rank else -1, words)
        return models[party.rank].predict_margin(party, halves_of(party.rank)[0], method)

    results, _ = audited(job)
    return results, links


@pytest.mark.parametrize(("words", "least"), [(1, 0.6), (None, 0.9)], ids=["one word", "all words"])
def test_a_lie_in_any_opening_of_a_prediction_is_found(served, words, least):
    """If a party changes words of any one array that it sends, predictions are correct or refused.

    Not every lie is detected: a word may not affect any prediction, nor may a changed bit.
    """
    models, method, honest, sent = served
    found = 0
    for rank in (0, 1):
        for lie_at in range(sent[rank]):
            try:
                results, _ = predict_with_a_lie(models, method, rank, lie_at, words)
            except AuditFailure:
                found += 1
                continue
            assert all(np.array_equal(a, b) for a, b in zip(results, honest, strict=True)), (method, rank, lie_at)
    print(method, words, sent, found)
    assert found >= least * sum(sent)


class Misdealt:
    """One party's randomness with a wrong value in the request number `at` of a kind.

    With `at` None, the last value of every request of this kind is wrong.
    """

    def __init__(self, randomness, kind, at):
        self._randomness, self._kind, self._at = randomness, kind, at

    def take(self, request):
        part = self._randomness.take(request)
        if type(request).__name__ != self._kind:
            return part
        if self._at is None:
            return self._wrong(part[-1:], part[:-1])
        self._at -= 1
        return self._wrong(part) if self._at == 0 else part

    def _wrong(self, part, right=()):
        """Change one word of every array."""
        if isinstance(part, tuple):
            return (*right, *(self._wrong(p) for p in part))
        if not isinstance(part, np.ndarray) or not part.size:
            return part
        changed = part.copy()
        changed.reshape(-1)[part.size // 3] ^= changed.dtype.type(1)
        return changed

    def __getattr__(self, name):
        return getattr(self._randomness, name)


KINDS = ["Triples", "DotMasks", "BitTriples", "RowTriples", "RingBits", "SelectMasks", "SignMasks", "EqualityMasks"]
KINDS += ["FloorMasks", "WrapMasks", "MatrixVectors", "OperandProduct", "LogarithmMasks", "OneHotMasks", "NewtonMasks"]


@pytest.mark.parametrize("kind", KINDS)
def test_one_wrong_value_of_a_dealer_changes_no_result(kind):
    """With a wrong third request of each kind, the result is refused or the same as without the fault."""

    def job(wrong):
        def play(party):
            if wrong and party.rank == 1:
                party.randomness = Misdealt(party.randomness, kind, 3)
            return fit_and_predict("thresholds")(party)

        return play

    honest, _ = audited(job(False))
    try:
        results, _ = audited(job(True))
    except AuditFailure:
        return
    assert all(np.abs(a - b).max() < 1e-3 for a, b in zip(honest, results, strict=True))


def test_a_dealer_that_corrupts_both_evaluations_alike_has_to_guess_the_turn():
    x = np.arange(1000)

    def job(party):
        if party.rank == 1:
            party.randomness = Misdealt(party.randomness, "Triples", None)
        multiply(party, ring_half(x, party.rank), ring_half(x + 1, party.rank))
        party.audit.settle(party)

    with pytest.raises(AuditFailure, match=r"beaver\.multiply"):
        audited(job)


class WrongZeros:
    """Randomness of one party, all of whose sharings of zero of this shape are wrong by one."""

    def __init__(self, randomness, shape):
        self._randomness, self._shape = randomness, shape

    def take(self, request):
        part = self._randomness.take(request)
        return part + 1 if type(request).__name__ == "ZeroShares" and request.shape == self._shape else part

    def __getattr__(self, name):
        return getattr(self._randomness, name)


def test_a_wrong_sharing_of_zero_is_found_before_it_masks_an_opening():
    """A dealer that makes the same error in both openings would shift what is revealed."""

    def job(party):
        if party.rank == 1:
            party.randomness = WrongZeros(party.randomness, (5,))
        with pytest.raises(AuditFailure, match="set-up: sharings of zero"):
            party.reveal(ring_half(np.arange(5), party.rank), what="the numbers")
        return party.revealed

    assert list(audited(job)[0]) == [[REVEALED]] * 2


def test_a_fault_is_found_before_what_depends_on_it_is_opened():
    def job(party):
        if party.rank == 1:
            party.randomness = Misdealt(party.randomness, "Triples", 1)
        product = multiply(party, ring_half(np.arange(9), party.rank), ring_half(np.arange(9), party.rank))
        with pytest.raises(AuditFailure, match=r"beaver\.multiply"):
            party.reveal(product, what="the squares")
        return party.revealed

    assert list(audited(job)[0]) == [[REVEALED]] * 2


class OtherwiseTheSecondTime:
    """A link that changes the second of two openings of 40 bytes."""

    def __init__(self, link):
        self._link = link

    def exchange(self, tag, arrays, like=None):
        if "sharing.reveal" in tag and [each.nbytes for each in arrays] == [40, 40]:
            arrays = [arrays[0], arrays[1] ^ np.uint8(1)]
        return self._link.exchange(tag, arrays, like)

    def __getattr__(self, name):
        return getattr(self._link, name)


@pytest.mark.parametrize("to", [0, None])
def test_if_two_openings_differ_at_one_party_both_stop(to):
    def job(party):
        if party.rank == 1:
            party.link = OtherwiseTheSecondTime(party.link)
        with pytest.raises(AuditFailure, match="the audit opened the numbers twice with different results") as failure:
            party.reveal(ring_half(np.arange(5), party.rank), to=to, what="the numbers")
        return failure.value.exit_status

    assert list(audited(job)[0]) == [3, 3]


def test_the_seed_is_of_both_parties():
    (first, second), parties = run_both(lambda party: (begin(party), party.audit.seed)[1])
    assert first == second and len(first) == 16
    turns = {parties[0].audit.turn(1000) for _ in range(20)}
    assert len(turns) > 10


@pytest.mark.parametrize("faulty", [False, True])
def test_two_processes(faulty):
    """Over TLS with a dealer, a fault at one party raises the same error at both."""

    def job(party):
        if faulty and party.rank == 1:
            add = LocalTreeRows.add_leaves

            def wrong(self, party, leaves):
                yield from add(self, party, leaves)
                self.rows.margins[self.k] = flipped(self.rows.margins[self.k])

            LocalTreeRows.add_leaves = wrong
        X, y = halves_of(party.rank)
        SecureXGBClassifier(**SMALL).fit(party, X, y)
        return party.revealed

    if faulty:
        with pytest.raises(AuditFailure, match="leaf weights: margins grow by the leaves"):
            run_local(job, audit=True)
    else:
        assert run_local(job, audit=True) == ([REVEALED], [REVEALED])
