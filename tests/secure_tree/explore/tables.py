"""Tables to explore, how two parties divide them, and the statistics by their definitions."""

import numpy as np
import pandas as pd

from protocols.testing.two_parties import dealt, run_both
from secure_tree.explore.config import ExploreConfig
from secure_tree.explore.explore import explore
from secure_tree.explore.own_table import OwnBins, OwnTable

ROWS, FEATURES, CUT = 2600, 7, 4


def table(seed=1, rows=ROWS, features=FEATURES, missing=0.05):
    """Features of which later ones matter more, the last one in the shape of a U, and labels, a fifth of them 1."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, features)).astype(np.float32)
    logit = X[:, :-1] @ np.linspace(0, 1, features - 1) + X[:, -1] ** 2 - 2.5
    y = (rng.uniform(size=rows) < 1 / (1 + np.exp(-logit))).astype(np.int64)
    X[rng.uniform(size=X.shape) < missing] = np.nan
    return X, y


def parts(X, y, partition, holder=1, **more):
    """Return the arguments of both parties; columns of rows in `more` are divided as the labels are."""
    if partition == "horizontal":
        half = len(X) // 2
        rows = slice(0, half), slice(half, None)
        return [{"X": X[r], "y": y[r], **{k: v[r] for k, v in more.items()}} for r in rows]
    columns = (slice(0, CUT), slice(CUT, None)) if isinstance(X, np.ndarray) else (X.columns[:CUT], X.columns[CUT:])
    return [
        {"X": X[:, c] if isinstance(X, np.ndarray) else X[c], "y": y if p == holder else None}
        | ({k: v for k, v in more.items() if p == holder or k in ("period", "ids")})
        for p, c in enumerate(columns)
    ]


def explored(own, source=dealt, **parameters):
    """Explore as two parties; return what each learns."""
    floors = {"bits": 1.0} | parameters.pop("floors", {})
    results, parties = run_both(
        lambda party: explore(party, **own[party.rank], floors=floors, **parameters), source=source
    )
    return results, parties


def bins_of(X, size=10, least=10):
    """Return the bins of a party by columns, size for missing values, and how many there are."""
    own = OwnTable.read(X, None, None, None, ExploreConfig.of())
    bins = OwnBins.of(own, size, least)
    return bins.numbers, size + bins.missing


def counts(numbers, size, y, weights=None):
    """Return the histograms of ones and of zeros, [d, size]."""
    weights = np.ones(len(y)) if weights is None else weights
    return [np.stack([np.bincount(column, weights * (y == value), size) for column in numbers.T]) for value in (1, 0)]


def divergence(p, q):
    a, b = (x / x.sum(axis=1, keepdims=True) for x in (p, q))
    woe = np.log(np.maximum(p, 1) / p.sum(axis=1, keepdims=True)) - np.log(
        np.maximum(q, 1) / q.sum(axis=1, keepdims=True)
    )
    return ((a - b) * woe).sum(axis=1), woe


def frame(seed=2):
    """A DataFrame with a categorical column of a long tail of categories at each party."""
    X, y = table(seed)
    columns = pd.DataFrame(X, columns=[f"number {i}" for i in range(FEATURES)])
    rng = np.random.default_rng(seed)
    for c, place in ((0, 0), (1, CUT)):
        codes = np.minimum(rng.geometric(0.3, len(X)) + 2 * y * (c + 1), 14)
        columns.insert(place, f"category {c}", pd.Categorical([None if k == 9 else f"k{k}" for k in codes]))
    return columns, y
