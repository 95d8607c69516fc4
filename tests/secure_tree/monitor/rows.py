"""Models to monitor, rows with groups, and the statistics as fairlearn and scikit-learn define them."""

import functools

import numpy as np
from fairlearn.metrics import demographic_parity_difference, equalized_odds_difference
from sklearn.metrics import log_loss, roc_auc_score, roc_curve

from protocols.testing.two_parties import dealt, run_both
from secure_tree.monitor.config import MonitorConfig
from secure_tree.monitor.monitor import monitor
from secure_tree.monitor.profile import make_profile
from secure_tree.monitor.scores import COARSE, ends, factor
from secure_tree.public.numerics import MARGIN_SCALE
from tests.secure_tree.opened import train_both
from tests.secure_tree.test_layouts import columns
from tests.secure_tree.test_twin import halves

ROWS, FEATURES, CUT = 2000, 4, 1100
EVERY = ("scores", "features", "auc", "ks", "ece", "slope", "parity", "odds", "calibration", "loss")


def table(rows=ROWS, seed=1, shift=0.0):
    """Features, labels, and groups "a", "b", "c" of which the selection rates differ."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, FEATURES)) + shift
    y = (X[:, 0] - X[:, 3] + rng.normal(size=rows) > 0).astype(float)
    noise = rng.uniform(size=rows)
    return X, y, np.where(X[:, 0] + rng.normal(size=rows) > 0, "a", np.where(noise < 0.5, "b", "c"))


def trained(partition, holder=0):
    return _trained(partition, holder)


@functools.cache
def _trained(partition, holder):
    """Return both halves of a model, trained on `table()`."""
    X, y, _ = table()
    tables, labels = divided(partition, X, y, holder)
    parameters = dict(n_estimators=8, max_depth=3, max_bin=16, learning_rate=0.3, missing="all", edges="private")
    return train_both(tables, labels, partition=partition, **parameters).models


def divided(partition, X, y, holder=0):
    return columns(X, y, 2, holder) if partition == "vertical" else halves(X, y, CUT * len(X) // ROWS)


def arguments(partition, X, y, group, holder=0, of_groups=1):
    """Return what both parties pass; by columns, labels are at `holder` and groups at `of_groups`."""
    tables, labels = divided(partition, X, y, holder)
    if partition == "vertical":
        groups = [group if p == of_groups else None for p in (0, 1)]
    else:
        groups, _ = halves(group, y, len(tables[0]))
    return [{"X": tables[p], "y": labels[p], "group": groups[p]} for p in (0, 1)]


def monitored(partition, own, profiles=None, source=dealt, holder=0, **parameters):
    """Monitor as two parties; return what each learns, and the parties."""
    models = trained(partition, holder)
    parameters = {"floors": {"bits": 1.0, **parameters.pop("floors", {})}} | parameters

    def job(party):
        profile = profiles[party.rank] if profiles else None
        return monitor(party, models[party.rank], **own[party.rank], profile=profile, **parameters)

    return run_both(job, source=source)


def profiles_of(partition, own, source=dealt, holder=0):
    models = trained(partition, holder)
    job = lambda party: make_profile(  # noqa: E731
        party, models[party.rank], own[party.rank]["X"], own[party.rank]["y"]
    )
    return run_both(job, source=source)[0]


def margins_of(partition, own, holder=0):
    """Return the margins of all rows in the order of the parties."""
    models = trained(partition, holder)
    job = lambda party: models[party.rank].predict_margin(party, own[party.rank]["X"])  # noqa: E731
    return np.concatenate(run_both(job)[0])


def bins_of(margin, count=COARSE, span=(-6.0, 6.0)):
    """Return the bin of each margin, as `scores.bins` defines it."""
    low, high = ends(span)
    units = np.clip(np.round(margin * 2**MARGIN_SCALE).astype(np.int64), low, high - 1) - low
    times, shift = factor(span, count)
    return units * times >> shift


def psi(p, q):
    """Stability index of counts, in which an empty cell counts as one row in the logarithm."""
    a, b = p / p.sum(), q / q.sum()
    return ((a - b) * np.log(np.maximum(p, 1) / p.sum() / (np.maximum(q, 1) / q.sum()))).sum()


def expected(margin, y, group, names=("a", "b", "c"), cut=0.5):
    """Return the statistics in the clear; a group without enough rows is left out by the caller, in `names`."""
    p = 1 / (1 + np.exp(-margin))
    selected, of = p >= cut, [group == name for name in names]
    spread = lambda rates: max(rates) - min(rates)  # noqa: E731
    among = np.isin(group, names)
    rows = y[among], selected[among]
    false, true, _ = roc_curve(y, margin)
    bins = bins_of(margin)
    return {
        "auc": roc_auc_score(y, margin),
        "ks": (true - false).max(),
        "ece": sum(abs((p - y)[bins == b].sum()) for b in range(COARSE)) / len(y),
        "slope": np.polyfit(p, y, 1)[0],
        "parity": demographic_parity_difference(*rows, sensitive_features=group[among]),
        "odds": equalized_odds_difference(*rows, sensitive_features=group[among]),
        "calibration": spread([p[g].mean() - y[g].mean() for g in of]),
        "loss": [log_loss(y[g], p[g]) for g in of],
    }


def config(**parameters):
    return MonitorConfig.of(**parameters)
