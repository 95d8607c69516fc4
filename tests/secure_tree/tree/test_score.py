"""The quality of the approximate ranking: the winner has at least a certain fraction of the best candidate's rank.

The rank is the sum of both sides' gains minus G^2 / S, where S = H + 2 lambda; with an alpha, minus K^2 / S, where
K = max(|G| - 2 alpha, 0).

A logarithm reads |x| as v 2^f for an integer v >= 80 with |v 2^f - |x|| < 2^f. It is too large by less than
log2(v / (v - 1)) and too small by less than log2((v + 1) / v), and the table is rounded; `errors` computes this over
all v. A score has the logarithms of u^2 and s a b, whose errors may all favour the winner over the best candidate.
SHARE is 2 to the negative sum of these errors in octaves; without a dealer, SHARE_OF_SIDES is that of u^2, a and b.
With an alpha, the logarithm of the sum is rounded to half a unit for each of the two candidates. Its second term, with
two logarithms, has a smaller sum of errors than the first.

If |u| is below the smallest value that differs from zero, m' = 96 2^f over the scale of the node, a candidate may count
as if |u| were m'. The winner may then lack the rank of m' at its a and b. With an alpha, the same holds for t - K' and
t + K', which count as 0 below their smallest value.

If weights have a bound, the rank is the additional gain of both sides with their own weights instead of the node's. The
test then bounds the mean over nodes.
"""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpc.functions.logarithm import LEAST_READ, READ_BITS, Logarithm
from secure_tree.public.config import TrainConfig
from secure_tree.public.numerics import FINER_SIDE, LOG_UNIT, NODE_HIGH, Size, plan_numerics
from secure_tree.twin import boost, search
from secure_tree.twin.boost import PlainData, draw_coins, grow
from tests.secure_tree.conftest import read_shared
from tests.secure_tree.test_twin import halves

SHARE, SHARE_OF_SIDES, SHARE_WITH_ALPHA = 0.9129, 0.8827, 0.8732
# A logarithm may be 0 up to this value, in units of the lowest window.
LEAST_TOLD = LEAST_READ * 6 // 5
RNG = np.random.default_rng(11)


def errors(log: Logarithm) -> tuple[float, float]:
    """Return by how many units a logarithm may be too large, and too small."""
    v = np.arange(LEAST_READ, 1 << READ_BITS)
    (table,) = log.value.tables
    exact = log.unit * np.log2([(v - 1) / LEAST_READ, (v + 1) / LEAST_READ])
    table = np.array(table)[v]
    return (table - exact[0]).max(), (exact[1] - table).max()


def test_the_shares_are_those_of_the_logarithms():
    numerics = plan_numerics(TrainConfig(reg_alpha=1.0), Size((1000, 1000)))
    of_sides, of_u = sum(errors(numerics.side)), sum(errors(numerics.slope))
    assert of_u + 2 * of_sides > 2 * sum(errors(numerics.shrunk)) + 1
    for share, units in (
        (SHARE, of_u + sum(errors(plan_numerics(TrainConfig(), Size((1000, 1000))).split))),
        (SHARE_OF_SIDES, of_u + 2 * of_sides),
        (SHARE_WITH_ALPHA, of_u + 2 * of_sides + 1),
    ):
        assert 0 <= 2 ** (-units / LOG_UNIT) - share < 2e-4


class Level:
    """All candidates of the nodes of a level, [v, C]: `valid`, and the exact `rank`.

    chosen: [v]. slack: by how much the rank of the chosen candidate may be below its share, [v].
    """

    def __init__(self, numerics, left, total, min_samples, keys):
        sides = np.stack([left, total[..., None] - left])
        H = sides[:, :, 1] + numerics.l2
        S = H.sum(axis=0)
        self.chosen = keys.argmax(axis=1)
        self.valid = (numerics.min_weight <= H).all(axis=0)
        if sides.shape[2] == 3:
            self.valid &= (sides[:, :, 2] >= min_samples).all(axis=0)
        x, y = search.soft_threshold(sides[:, :, 0], numerics.l1)
        t, K = x + y, search.soft_threshold(total[:, 0], 2 * numerics.l1)[:, None]
        # Exact: products of two numbers below 2^30.
        self.u_times_S = x * S - H[0] * t
        own = np.where(self.valid, S * (1.0 * H[0]) * H[1], 1.0)
        self.rank = (1.0 * self.u_times_S) ** 2 / own + 1.0 * (t - K) * (t + K) / np.maximum(S, 1)
        whole = search.soft_threshold(total[:, 0], numerics.l1) ** 2 / np.maximum(total[:, 1] + numerics.l2, 1)
        self.net = x**2 / np.maximum(H[0], 1) + y**2 / np.maximum(H[1], 1) - whole[:, None]
        _, s = search.normalise(S[:, 0], numerics.node_low, NODE_HIGH)
        least = (LEAST_TOLD << numerics.slope.place) / np.maximum(s * S[:, 0], 1)
        ab = np.take_along_axis(own, self.chosen[:, None], axis=1)[:, 0]
        self.slack = (1.0 * S[:, 0] * least) ** 2 / ab
        if numerics.shrunk is not None:
            distance = (LEAST_TOLD << numerics.shrunk.place) / (1 << FINER_SIDE)
            self.slack += 2 * distance * np.abs(t).max(axis=1) / np.maximum(S[:, 0], 1) + 1e-3
        self.shrunk = numerics.shrunk is not None
        self.share = SHARE_WITH_ALPHA if self.shrunk else SHARE_OF_SIDES if numerics.split is None else SHARE
        self.bounded = numerics.bounded
        if self.bounded:
            B = search.bounded(numerics, sides[:, :, 0], sides[:, :, 1])
            own = search.bounded(numerics, total[:, 0], total[:, 1] + numerics.l2)[:, None] / np.maximum(S, 1)
            gains = B * (2.0 * sides[:, :, 0] - B) / np.maximum(H, 1)
            self.rank = gains.sum(axis=0) - own * (2.0 * total[:, :1] - S * own)

    def of_winner(self, values):
        return np.take_along_axis(values, self.chosen[:, None], axis=1)[:, 0]

    @property
    def splittable(self):
        return self.valid.any(axis=1)

    @property
    def best(self):
        return np.where(self.valid, self.rank, -np.inf).max(axis=1)

    def ratios(self, of="rank"):
        """Return the winner's fraction of the best rank, for nodes where the slack is negligible."""
        values = getattr(self, of)
        best = np.where(self.valid, values, -np.inf).max(axis=1)
        counts = self.splittable & (best > 100 * self.slack)
        return self.of_winner(values)[counts] / best[counts]

    def check(self):
        some = self.splittable
        assert self.of_winner(self.valid)[some].all(), "an invalid candidate wins although there is a valid one"
        if self.bounded:
            return
        best, won = self.best[some], self.of_winner(self.rank)[some]
        assert (won >= self.share * best * (1 - 1e-9) - self.slack[some]).all()
        flat = self.of_winner(self.u_times_S)[some] == 0
        if not self.shrunk:
            assert (self.share * best[flat] <= self.slack[some][flat]).all(), "u of 0 wins over one above the slack"


@pytest.fixture
def levels(monkeypatch):
    """Record every level that the twin searches."""
    seen = []

    def keys(numerics, left, total, min_samples, coins, directions):
        found = search.keys(numerics, left, total, min_samples, coins, directions)
        assert (found >= 0).all() and (found < 1 << numerics.key_bits).all()
        seen.append(Level(numerics, left, total, min_samples, found))
        return found

    monkeypatch.setattr(boost, "keys", keys)
    return seen


def public(guest, host):
    tables = [read_shared(f"homo/{name}.csv") for name in (guest, host)]
    return tuple(x.to_numpy() for x, _ in tables), tuple(y for _, y in tables)


def breast():
    return public("breast_homo_guest", "breast_homo_host")


def credit():
    return public("default_credit_homo_guest", "default_credit_homo_host_1")


def students():
    return public("student_homo_guest", "student_homo_host")


def rare():
    X = RNG.normal(size=(20_000, 8))
    score = X[:, 0] - X[:, 1] * (X[:, 2] > 0) + RNG.logistic(size=len(X))
    return halves(X, (score > np.quantile(score, 0.997)).astype(float), 8_000)


SQUARES = {"objective": "squarederror", "n_estimators": 20}
CONSTRAINED = {"min_child_samples": 20, "min_child_weight": 0.0, "reg_lambda": 0.0}
TRAININGS = [
    (breast, {}),
    (breast, {"n_estimators": 5, "edges": "joint"}),
    (breast, {"reg_alpha": 0.5}),
    (breast, {"min_child_weight": 0.0}),
    (breast, CONSTRAINED),
    (breast, {"reg_lambda": 100.0}),
    (credit, {"n_estimators": 3, "max_depth": 4, "max_bin": 16}),
    (credit, {"n_estimators": 3, "max_depth": 4, "max_bin": 16, "reg_alpha": 5.0}),
    (students, SQUARES),
    (students, {**SQUARES, "reg_alpha": 10.0, "min_child_samples": 5}),
    (rare, {"n_estimators": 3, "max_depth": 4}),
    (rare, {"n_estimators": 3, "max_depth": 4, "reg_alpha": 0.3}),
]


@pytest.mark.parametrize(
    ("data", "parameters"),
    [pytest.param(*case, id=f"{case[0].__name__} {case[1]}") for case in TRAININGS],
)
@pytest.mark.parametrize("dealer", [True, False], ids=["with a dealer", "without"])
def test_no_winner_is_below_its_share(monkeypatch, data, parameters, levels, dealer):
    monkeypatch.setattr(boost, "plan_numerics", lambda *given: plan_numerics(*given).ranked(dealer))
    config = TrainConfig(**{"n_estimators": 10, "learning_rate": 0.3, "min_child_weight": 1.0, **parameters})
    boost.train(*data(), config, np.random.default_rng(1))
    for level in levels:
        level.check()
    ratios = np.concatenate([level.ratios() for level in levels])
    assert len(ratios) > 20 and ratios.mean() > 0.99


def late(y, rng):
    """Return gradients as of the 300th tree: |g| and h over five orders of magnitude, with the label's sign."""
    g = np.exp(rng.uniform(np.log(1e-5), np.log(0.25), len(y)))
    return np.where(y > 0, -g, g), g * (1 - g)


def counted(y, rng):
    """Return gradients and hessians of counts, over a label scale of 16."""
    mean = np.exp(rng.normal(size=len(y)))
    return (mean - rng.poisson(mean * np.where(y > 0, 1.5, 0.7))) / 16, mean * np.exp(0.7) / 16


@pytest.mark.parametrize("alpha", [0.0, 0.05])
@pytest.mark.parametrize(
    ("gradients", "objective"), [(late, "binary:logistic"), (counted, "count:poisson")], ids=["late", "counts"]
)
def test_gradients_of_a_wide_range(gradients, objective, alpha, levels):
    tables, _ = rare()
    step = 0.7 if gradients is counted else 0.0
    config = TrainConfig(
        objective=objective, max_depth=4, min_child_weight=0.01, reg_lambda=0.1, reg_alpha=alpha, max_delta_step=step
    )
    data = PlainData.of(tables, config)
    numerics = plan_numerics(config, Size(data.rows))
    first = np.concatenate([x[:, 0] for x in tables])
    y = first + RNG.normal(size=len(first))
    for _ in range(4):
        exact = np.stack(gradients(y, RNG)) * (1 << numerics.histogram_scale)
        values = np.floor(exact + RNG.random(exact.shape)).astype(np.int64)
        grow(data, config, numerics, values, draw_coins(numerics, 4, data.layout.candidates - 1, RNG))
    for level in levels:
        level.check()
    assert np.concatenate([level.ratios() for level in levels]).mean() > 0.99


NUMERICS = {
    f"{name}{kind} {rows}": plan_numerics(TrainConfig(**parameters), Size((rows, rows))).ranked(not kind)
    for kind in ("", " without a dealer")
    for rows in (2, 300, 1_000_000)
    for name, parameters in {
        "plain": {},
        "bare": {"reg_lambda": 0.0, "min_child_weight": 0.0 if rows < 1000 else 1.0},
        "alpha": {"reg_alpha": 0.7},
        "heavy alpha": {"reg_alpha": 50.0, "min_child_weight": 30.0},
        "light alpha": {"reg_alpha": 1e-3, "reg_lambda": 0.0, "min_child_weight": 0.01},
        "heavy lambda": {"reg_lambda": 1e4},
        "squares": {"objective": "squarederror", "reg_alpha": 2.0, "min_child_samples": 3},
        "counts": {"objective": "count:poisson", "min_child_weight": 0.1},
    }.items()
}


@settings(max_examples=150, deadline=None, database=None)
@given(name=st.sampled_from(sorted(NUMERICS)), seed=st.integers(0, 2**32))
def test_random_extreme_sums(name, seed):
    numerics, rng = NUMERICS[name], np.random.default_rng(seed)
    rows = 2 * int(name.split()[-1])
    G_most = rows << numerics.histogram_scale
    H_most = G_most if name.startswith("squares") else G_most // 4
    v, C = 4, 300

    def magnitudes(most, shape):
        """Draw magnitudes from 0 to `most` over all octaves, including both ends."""
        drawn = np.exp2(rng.uniform(-1, np.log2(most), shape)).astype(np.int64)
        return np.where(rng.random(shape) < 0.05, rng.choice([0, 1, most]), drawn)

    H = magnitudes(H_most, (v, 1))
    H_left = np.minimum(magnitudes(H_most, (v, C)), H)
    H_left = np.where(rng.random((v, C)) < 0.5, H_left, H - H_left)
    if numerics.min_weight == 0:
        # An empty side has no rank.
        H = np.maximum(H, 2)
        H_left = np.clip(H_left, 1, H - 1)
    # |G_L| + |G_R| is at most the largest sum. Nearly proportional sums make u small.
    G = magnitudes(G_most, (v, 1)) * rng.choice([-1, 1], (v, 1))
    room = (G_most - np.abs(G)) // 2
    G_left = np.where(
        rng.random((v, C)) < 0.5,
        np.clip(magnitudes(G_most, (v, C)), 0, np.abs(G)) * np.sign(G),
        np.clip(magnitudes(G_most, (v, C)), 0, room) * rng.choice([-1, 1], (v, C)),
    )
    near = np.round(G * (H_left + numerics.l2) / np.maximum(H + 2 * numerics.l2, 1)).astype(np.int64)
    G_left = np.where(rng.random((v, C)) < 0.2, near, G_left)
    rows_left = rng.integers(0, rows + 1, (v, C))
    left = np.stack([G_left, H_left, rows_left], axis=1)
    total = np.stack([G[:, 0], H[:, 0], np.full(v, rows)], axis=1)
    *_, coins = draw_coins(numerics, 3, C, rng)
    with patch.object(search, "rounded_sum", wraps=search.rounded_sum) as sums:
        keys = search.keys(numerics, left, total, 3, coins)
    for call in sums.call_args_list:
        assert np.abs(call.args[0] - call.args[1]).max() < 1 << 14, "the range of mpc/functions/log_sum.py"
    level = Level(numerics, left, total, 3, keys)
    scores = keys - (level.valid << numerics.score_bits)
    assert (scores >= 0).all() and (scores < 1 << numerics.score_bits).all()
    assert numerics.key_bits <= 16
    level.check()


@settings(max_examples=100, deadline=None, database=None)
@given(
    seed=st.integers(0, 2**32),
    loss=st.sampled_from([0.0, 1e-5, 0.5]),
    alpha=st.sampled_from([0.0, 0.4]),
    step=st.sampled_from([0.0, 0.3]),
)
def test_only_splits_that_pay_last(seed, loss, alpha, step):
    rng = np.random.default_rng(seed)
    config = TrainConfig(min_split_loss=loss, reg_alpha=alpha, max_delta_step=step, min_child_samples=5, max_depth=4)
    numerics = plan_numerics(config, Size((500, 500)))
    unit = 1 << numerics.histogram_scale
    h = np.exp(rng.uniform(np.log(1e-3), np.log(0.25), 16))
    rows = rng.integers(0, 60, 16)
    leaves = np.stack([rng.normal(size=16) * np.sqrt(h * rows) * rng.choice([0.1, 1, 3]), h * rows, rows / unit])
    sums = np.round(leaves.T * unit).astype(np.int64)
    nodes = [sums]
    while len(nodes[0]) > 1:
        nodes.insert(0, nodes[0][::2] + nodes[0][1::2])
    sums = np.concatenate(nodes)
    lasts = search.lasting(numerics, sums, 5)

    G, H = np.float64(sums[:, 0]) / unit, np.float64(sums[:, 1] + numerics.l2) / unit
    shrunk = np.sign(G) * np.maximum(np.abs(G) - numerics.l1 / unit, 0)
    bound = np.clip(shrunk, -step * H, step * H) if step else shrunk
    w = np.divide(bound, H, out=np.zeros(31), where=H > 0)
    gain = (2 * shrunk - bound) * w
    error = np.abs(gain) * 2.0**-15 + np.abs(2 * shrunk - bound) * 2.0**-numerics.weight_scale
    error += 4 * np.abs(w) / unit if step else 0
    net, wrong = (x[1::2] + x[2::2] for x in (gain, error))
    net, wrong = net - gain[:15], wrong + error[:15]
    enough = (sums[:, 1] + numerics.l2 >= numerics.min_weight) & (sums[:, 2] >= 5)
    fits = enough[1::2] & enough[2::2]
    above = np.array([node == 0 or lasts[(node - 1) // 2] for node in range(15)])
    assert not lasts[(net < loss - wrong) | ~fits | ~above].any()
    assert lasts[(net > loss + wrong + 2.0 ** (1 - numerics.gain_scale)) & fits & above].all()
