"""Monotone constraints over random trainings: margins along a grid of each feature never go the wrong way."""

import numpy as np
import pytest

from protocols.testing.two_parties import dealt, made_by_both, run_both, with_workers
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.public.layout import place

POINTS = np.linspace(-3, 3, 17)
FEATURES, ROWS = 4, (70, 90)


def drawn(seed):
    """Draw (estimator, parameters, whether rows have weights) of a training."""
    rng = np.random.default_rng(seed)
    kind, own = [
        (SecureXGBClassifier, {}),
        (SecureXGBClassifier, {"scale_pos_weight": 3.0, "max_delta_step": 0.5}),
        (SecureXGBClassifier, {"objective": "multi:ova", "num_class": 3}),
        (SecureXGBRegressor, {}),
        (SecureXGBRegressor, {"objective": "count:poisson"}),
    ][seed % 5]
    signs = rng.integers(-1, 2, FEATURES)
    signs[rng.integers(FEATURES)] = rng.choice([-1, 1])
    return (
        kind,
        {
            "monotone_constraints": signs.tolist(),
            "partition": "vertical" if rng.random() < 0.4 else "horizontal",
            "max_depth": int(rng.choice([1, 2, 3, 5])),
            "max_bin": int(rng.choice([3, 8, 16])),
            "edges": str(rng.choice(["joint", "private"])),
            "missing": str(rng.choice(["all", "none"])),
            "subsample": float(rng.choice([1.0, 0.7])),
            "colsample_bytree": float(rng.choice([1.0, 0.6])),
            "min_child_samples": int(rng.choice([1, 5])),
            "reg_lambda": float(rng.choice([0.0, 1.0, 20.0])),
            "learning_rate": float(rng.choice([0.1, 0.5, 1.0])),
            "n_estimators": 3,
            **own,
        },
        bool(rng.random() < 0.4),
    )


def labels_of(kind, parameters, X, rng):
    """Return labels that are a wave in every feature, so that unconstrained margins would rise and fall."""
    X = np.nan_to_num(X)
    wave = np.sin(3 * X).sum(axis=1) + X[:, 0] - X[:, 1] + rng.normal(size=len(X))
    if "num_class" in parameters:
        return np.digitize(wave, [-1, 1]).astype(float)
    if kind is SecureXGBClassifier:
        return (wave > 0).astype(float)
    return rng.poisson(np.exp(wave / 3)).astype(float) if "objective" in parameters else 1000 * wave


def falls(seed, source=dealt, workers=0):
    """Return how far margins of a random training go the wrong way along constrained features, and their movement."""
    kind, parameters, weighted = drawn(seed)
    rng = np.random.default_rng(1000 + seed)
    X = rng.normal(size=(sum(ROWS), FEATURES))
    if parameters["missing"] == "all":
        X[rng.random(X.shape) < 0.1] = np.nan
    y, weights = labels_of(kind, parameters, X, rng), rng.uniform(0.1, 4, len(X))
    signs = parameters["monotone_constraints"]
    grids = []
    for feature in np.flatnonzero(signs):
        grid = np.repeat(rng.normal(size=(6, FEATURES)), len(POINTS), axis=0)
        grid[:, feature] = np.tile(POINTS, 6)
        grids.append((feature, grid))

    def job(party):
        vertical = parameters["partition"] == "vertical"
        columns = place(party.rank, (1, FEATURES - 1)) if vertical else slice(None)
        rows = slice(None) if vertical else place(party.rank, ROWS)
        labelled = not vertical or party.rank == 1
        own = (X[rows, columns], y[rows] if labelled else None, weights[rows] if weighted and labelled else None)
        model = kind(**parameters).fit(party, *own)
        return [
            model.predict_margin(party, grid[:, columns], method)
            for _, grid in grids
            for method in ("bins", "thresholds")
        ]

    results = run_both(with_workers(job, workers, source) if workers else job, source=source)[0]
    margins = results[1]
    wrong, moved = 0.0, 0.0
    for at, margin in enumerate(margins):
        lines = margin.reshape(6, len(POINTS), -1)
        steps = signs[grids[at // 2][0]] * np.diff(lines, axis=1)
        wrong, moved = min(wrong, steps.min()), max(moved, np.ptp(lines, axis=1).max())
    return wrong, moved


@pytest.mark.parametrize("seed", range(5))
def test_margins_never_go_the_wrong_way(seed):
    assert falls(seed)[0] == 0, "exactly: leaves add up as integers"


def test_columns_may_be_drawn_without_any_that_is_constrained():
    X, y = np.random.default_rng(5).normal(size=(60, FEATURES)), np.arange(60) % 2.0

    def job(party):
        drawn = {"colsample_bytree": 0.25, "monotone_constraints": [1, 0, 0, -1]}
        model = SecureXGBClassifier(n_estimators=12, max_depth=2, max_bin=4, **drawn)
        return model.fit(party, X[party.rank :: 2], y[party.rank :: 2]).model.rounds

    assert run_both(job, source=made_by_both)[0] == [12, 12], "all of it was planned"


def test_margins_of_shards_never_go_the_wrong_way():
    assert falls(3, workers=2)[0] == 0


def test_margins_without_a_dealer_never_go_the_wrong_way():
    assert falls(0, source=made_by_both)[0] == 0


@pytest.mark.long
def test_margins_of_many_trainings_never_go_the_wrong_way():
    found = [falls(seed) for seed in range(5, 65)]
    assert all(wrong == 0 for wrong, _ in found)
    assert sum(moved > 0 for _, moved in found) > 40, "constrained features are split"
